"""A file or standard input becomes clean text, or is refused before any model is loaded.

Knows file formats and encodings, not what the text is for.
"""

import codecs
import io
import logging
import re
import stat
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from speclocal.errors import UsageError

MAX_BYTES = 64 * 2**20
"""More than any context holds, and the end of a pipe that has none."""

HEAD_BYTES = 4096
"""Enough of a file to tell what it is."""

MAX_CONTROL_SHARE = 0.02
"""Of control characters in a text: logs and manual pages have some, machine code has one in ten."""

CONTROL = re.compile("[\x01-\x07\x0e-\x1a\x1c-\x1f\x7f]")
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
PDF = re.compile(rb"\s*%PDF-\d")
HTML = re.compile(r"\s*(<\?xml[^>]*>\s*)?<(!doctype\s+html|html)\b", re.IGNORECASE)
HTML_SUFFIXES = {".html", ".htm", ".xhtml"}

BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""UTF-32 stands before UTF-16, whose little-endian mark it begins with."""

WITH_NULS = ("utf_16", "utf_16_le", "utf_16_be", "utf_32", "utf_32_le", "utf_32_be")
"""Encodings that a text without NUL bytes is hardly ever in, though a short one may look like it."""

IMAGE = "recognize the text in it first (OCR), speclocal reads text only"
SOUND = "transcribe it first, speclocal reads text only"
OFFICE = "save it as plain text, HTML or PDF, and give that file"
ARCHIVE = "unpack it, and give one of the files inside"
PROGRAM = "give its source or its documentation"
TABLE = "export what you need from it as text, for example as CSV"
MODEL = "name the model with --model, and give the text as the file"

SIGNATURES = (
    (rb"\x89PNG\r\n\x1a\n", "a PNG image", IMAGE),
    (rb"\xff\xd8\xff", "a JPEG image", IMAGE),
    (rb"GIF8[79]a", "a GIF image", IMAGE),
    (rb"II\*\0|MM\0\*", "a TIFF image", IMAGE),
    (rb"RIFF....WEBP", "a WebP image", IMAGE),
    (rb"RIFF....WAVE", "a WAV recording", SOUND),
    (rb"ID3[\x02-\x04]|\xff[\xf2\xf3\xfa\xfb]", "an MP3 recording", SOUND),
    (rb"OggS\0", "an Ogg recording", SOUND),
    (rb"fLaC\0", "a FLAC recording", SOUND),
    (rb"\0\0..ftyp", "an MP4 or QuickTime film", SOUND),
    (rb"\x1a\x45\xdf\xa3", "a Matroska or WebM film", SOUND),
    (rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document", OFFICE),
    (rb"\{\\rtf\d", "an RTF document", OFFICE),
    (rb"\x1f\x8b\x08", "a gzip archive", ARCHIVE),
    (rb"BZh\d1AY&SY", "a bzip2 archive", ARCHIVE),
    (rb"\xfd7zXZ\0", "an XZ archive", ARCHIVE),
    (rb"\x28\xb5\x2f\xfd", "a Zstandard archive", ARCHIVE),
    (rb"7z\xbc\xaf\x27\x1c", "a 7z archive", ARCHIVE),
    (rb"Rar!\x1a\x07", "a RAR archive", ARCHIVE),
    (rb".{257}ustar[\0 ]", "a tar archive", ARCHIVE),
    (rb"GGUF[\x01-\x0f]\0", "a GGUF model", MODEL),
    (rb"SQLite format 3\0", "an SQLite database", TABLE),
    (rb"PAR1[\x15\x1c]", "a Parquet table", TABLE),
    (rb"\x7fELF", "a program (ELF)", PROGRAM),
    (rb"[\xce\xcf]\xfa\xed\xfe", "a program (Mach-O)", PROGRAM),
    (rb"MZ.{0,126}\0\0\0", "a program (Windows)", PROGRAM),
)
"""How the bytes begin, what they are then, and what to do. None of these begins a text."""

ZIP_MEMBERS = (
    ("word/", "a Word document"),
    ("xl/", "an Excel workbook"),
    ("ppt/", "a PowerPoint presentation"),
    ("META-INF/container.xml", "an EPUB book"),
    ("content.xml", "an OpenDocument file"),
)
"""Office files are ZIP archives with such members."""


@dataclass(frozen=True)
class Document:
    """A text, the name of its file, and what a person should know about how it was read."""

    name: str
    text: str
    notes: tuple[str, ...] = ()


def read_document(
    source: str | Path, *, encoding: str | None = None, stdin: BinaryIO | None = None, keep_html: bool = False
) -> Document:
    """Return the text of a file, a pipe, or with `-` of standard input.

    Lines end in a newline only. Without `encoding` a byte order mark decides, then UTF-8, then a guess.
    keep_html: leave HTML as it stands instead of taking the text out of it.
    """
    path = Path(source)
    name = "standard input" if str(source) == "-" else path.name
    try:
        data = _read(stdin, name) if str(source) == "-" else _read_file(path)
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else exc
        raise UsageError(f"`{source}` cannot be read: {reason}", "check its path and permissions") from exc

    text, notes = _pdf_text(data, name) if PDF.match(data) else _plain_text(data, name, encoding, keep_html)
    text = LONE_SURROGATE.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))
    if not text.strip():
        raise UsageError(f"`{name}` holds no text", "give a file with text in it")
    return Document(name, text, tuple(notes))


def _read_file(path: Path) -> bytes:
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise UsageError(f"`{path}` is a directory", "give one of the files inside")
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        raise UsageError(f"`{path}` is a device or socket", "give a file, or pipe the text in and give `-`")
    with path.open("rb") as file:
        return _read(file, str(path))


def _read(file: BinaryIO | None, name: str) -> bytes:
    """Return all bytes, unless the first ones show that they are not text."""
    if file is None:
        raise UsageError("there is no standard input", "give the name of a file")
    head = file.read(HEAD_BYTES)
    for signature, kind, advice in SIGNATURES:
        if re.match(signature, head, re.DOTALL):
            raise UsageError(f"`{name}` is {kind}, not text", advice)
    data = head + file.read(MAX_BYTES + 1 - len(head))
    if data.startswith(b"PK\x03\x04"):
        kind, advice = _zip_kind(data)
        raise UsageError(f"`{name}` is {kind}, not text", advice)
    if len(data) > MAX_BYTES:
        raise UsageError(f"`{name}` is larger than {MAX_BYTES // 2**20} MiB", "give a part of it")
    return data


def _zip_kind(data: bytes) -> tuple[str, str]:
    """Return what a ZIP archive is and what to do, by the names of its members."""
    try:
        members = zipfile.ZipFile(io.BytesIO(data)).namelist()
    except zipfile.BadZipFile:
        members = []
    kinds = ((kind, OFFICE) for start, kind in ZIP_MEMBERS if any(name.startswith(start) for name in members))
    return next(kinds, ("a ZIP archive", ARCHIVE))


def _plain_text(data: bytes, name: str, encoding: str | None, keep_html: bool) -> tuple[str, list[str]]:
    """Return the text of what is neither PDF nor any of the known binary formats."""
    text, notes = _decode(data, name, encoding)
    if len(CONTROL.findall(text)) > MAX_CONTROL_SHARE * len(text):
        raise _binary(name)
    if num_nuls := text.count("\0"):
        text = text.replace("\0", "")
        notes.append(f"NUL characters dropped: {num_nuls}")
    if not keep_html and (Path(name).suffix.lower() in HTML_SUFFIXES or HTML.match(text)):
        return _html_text(text, name), [*notes, "text taken out of HTML"]
    return text, notes


def _binary(name: str) -> UsageError:
    hint = "if it is text after all, name its encoding with --encoding"
    return UsageError(f"`{name}` looks like binary data, not text", hint)


def _decode(data: bytes, name: str, encoding: str | None) -> tuple[str, list[str]]:
    """Return the text by the named encoding, else the byte order mark, else UTF-8, else a guess."""
    if encoding is not None:
        try:
            return data.decode(encoding).removeprefix("\ufeff"), []
        except UnicodeError as exc:
            hint = "leave out --encoding to have it guessed"
            raise UsageError(f"`{name}` is not in {encoding}: {exc}", hint) from exc
        except (LookupError, ValueError) as exc:
            hint = "use a name such as utf-8, cp1252 or shift_jis, or leave out --encoding to have it guessed"
            raise UsageError(f"`{encoding}` is not the name of a text encoding", hint) from exc
    codec = next((codec for mark, codec in BYTE_ORDER_MARKS if data.startswith(mark)), None)
    try:
        return data.decode(codec or "utf-8"), []
    except UnicodeDecodeError:
        text = data.decode(codec or "utf-8", errors="replace")
    num_damaged = text.count("\ufffd")
    num_intact = len(text) - len(text.encode("ascii", errors="ignore")) - num_damaged
    if codec or num_damaged * 2 <= num_intact:
        return text, [f"damaged characters replaced by \ufffd: {num_damaged}"]
    return _guess_encoding(data, name)


def _guess_encoding(data: bytes, name: str) -> tuple[str, list[str]]:
    import charset_normalizer

    matches = charset_normalizer.from_bytes(data, cp_exclusion=None if b"\0" in data else [*WITH_NULS])
    best = matches.best()
    if best is None:
        raise _binary(name)
    # Short texts in cp1252, the commonest by far, fit its neighbours just as well.
    rivals = {codec for match in matches if match.coherence >= best.coherence for codec in match.could_be_from_charset}
    codec = "cp1252" if "cp1252" in rivals else best.encoding
    return data.decode(codec, errors="replace"), [f"read as {codec}, a guess; --encoding names another"]


def _html_text(source: str, name: str) -> str:
    import inscriptis  # type: ignore[import-untyped]
    from lxml import etree, html  # type: ignore[import-untyped]

    try:
        # Left alone, lxml drops all that follows an element nested 256 deep, without a word.
        parser = html.HTMLParser(encoding="utf-8", huge_tree=True)
        tree = html.document_fromstring(source.encode("utf-8", errors="replace"), parser)
        return str(inscriptis.Inscriptis(tree).get_text())
    except etree.ParserError:
        return ""  # a page without elements
    except Exception as exc:  # any page may call itself HTML
        raise UsageError(f"`{name}` cannot be read as HTML: {exc}", "save its text and give that file") from exc


def _pdf_text(data: bytes, name: str) -> tuple[str, list[str]]:
    import pypdf

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it reports every flaw it repairs
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if locked := reader.is_encrypted and not reader.decrypt(""):
            pages = []
        else:
            pages = [page.extract_text().replace("\0", "").strip() for page in reader.pages]
    except pypdf.errors.DependencyError:
        locked = True
    except Exception as exc:  # damaged files fail in any part of the parser
        raise UsageError(f"`{name}` cannot be read as PDF: {exc}", "save its text and give that file") from exc
    if locked:
        raise UsageError(f"`{name}` is an encrypted PDF", "remove its password, for example with `qpdf --decrypt`")
    texts = [page for page in pages if page]
    if not texts:
        hint = "recognize its text first (OCR), for example with `ocrmypdf`"
        raise UsageError(f"`{name}` is a PDF of pictures without text", hint)
    num_empty = len(pages) - len(texts)
    notes = [f"pages without text: {num_empty} of {len(pages)}"] if num_empty else []
    return "\n\n".join(texts), notes
