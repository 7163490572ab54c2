"""Files become clean text with notes for a person, or a refusal that says what they are and what to do."""

import io
import logging
import os
import socket
import zipfile
from pathlib import Path

import pytest
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject, PdfObject

from speclocal.errors import UsageError
from speclocal.text import documents
from speclocal.text.documents import Document, read_document


def read(data: bytes, *, encoding: str | None = None) -> Document:
    return read_document("-", encoding=encoding, stdin=io.BytesIO(data))


def refusal(data: bytes) -> UsageError:
    with pytest.raises(UsageError) as caught:
        read(data)
    return caught.value


def zipped(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return file.getvalue()


def named(**entries: PdfObject) -> DictionaryObject:
    return DictionaryObject({NameObject(f"/{name}"): entry for name, entry in entries.items()})


def pdf(*pages: str, password: str = "") -> bytes:
    """Return a PDF whose pages hold these lines."""
    writer = PdfWriter()
    font = named(Type=NameObject("/Font"), Subtype=NameObject("/Type1"), BaseFont=NameObject("/Helvetica"))
    for text in pages:
        page = writer.add_blank_page(300, 300)
        page[NameObject("/Resources")] = named(Font=named(F1=font))
        content = DecodedStreamObject()
        content.set_data(f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode())
        page[NameObject("/Contents")] = content
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


def test_a_file_is_read_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("Straße\n", encoding="utf-8")
    assert read_document(path) == read_document(str(path)) == Document("notes.txt", "Straße\n")


def test_a_dash_is_standard_input() -> None:
    assert read(b"piped") == Document("standard input", "piped")


def test_a_named_pipe_is_read_to_its_end() -> None:
    end, start = os.pipe()
    os.write(start, b"piped")
    os.close(start)
    assert read_document(f"/dev/fd/{end}").text == "piped"
    os.close(end)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_decides_the_encoding(encoding: str) -> None:
    assert read("Füße €".encode(encoding)) == Document("standard input", "Füße €")


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", "Un café à l'été, déjà vu: voilà, 3 €."),
        ("cp1251", "Привет, как дела? Сегодня хорошая погода."),
        ("cp932", "こんにちは世界。今日はいい天気ですね。"),
    ],
)
def test_other_encodings_are_guessed_and_named(encoding: str, text: str) -> None:
    document = read(text.encode(encoding))
    assert document.text == text
    assert document.notes == (f"read as {encoding}, a guess; --encoding names another",)


def test_short_western_text_is_not_taken_for_another_alphabet() -> None:
    assert read("café".encode("latin-1")).text == "café"


def test_a_named_encoding_is_not_questioned() -> None:
    assert read("façade".encode("cp850"), encoding="cp850") == Document("standard input", "façade")


def test_a_wrong_encoding_is_refused() -> None:
    with pytest.raises(UsageError, match=r"is not in ascii: .*position 3"):
        read("café".encode(), encoding="ascii")


@pytest.mark.parametrize("encoding", ["utf8000", "hex", "a\0b", ""])
def test_a_name_that_is_no_encoding_is_refused(encoding: str) -> None:
    with pytest.raises(UsageError, match="not the name of a text encoding"):
        read(b"x", encoding=encoding)


def test_utf8_with_little_damage_stays_utf8() -> None:
    document = read("naïve café, 12 €"[:-1].encode() + "€".encode()[:2])
    assert document.text == "naïve café, 12 \ufffd"
    assert document.notes == ("damaged characters replaced by \ufffd: 1",)


def test_lines_end_in_a_newline_only() -> None:
    assert read(b"a\r\nb\rc\n\r\n").text == "a\nb\nc\n\n"


def test_nul_characters_are_dropped_and_the_text_after_them_kept() -> None:
    assert read(b"before\0\0after") == Document("standard input", "beforeafter", ("NUL characters dropped: 2",))


def test_text_with_a_few_control_characters_is_text() -> None:
    log = b"\x1b[31merror\x1b[0m: it \x07rang\n" + b"and went on\n" * 20
    assert read(log).text == log.decode()


@pytest.mark.parametrize(
    "text", ["GGUF is a file format", "MZ begins a program", "the ftyp box", "BMW", "ID3 tags", "%PDF"]
)
def test_text_about_a_format_is_text(text: str) -> None:
    assert read(text.encode()).text == text


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "a PNG image"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "a JPEG image"),
        (b"GIF89a\1\0\1\0", "a GIF image"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", "a WebP image"),
        (b"RIFF\x24\0\0\0WAVEfmt ", "a WAV recording"),
        (b"ID3\x04\0\0", "an MP3 recording"),
        (b"\0\0\0\x20ftypisom", "an MP4 or QuickTime film"),
        (b"\x1f\x8b\x08\0", "a gzip archive"),
        (b"\0" * 257 + b"ustar\0", "a tar archive"),
        (b"PK\x03\x04 cut off", "a ZIP archive"),
        (zipped("a.txt"), "a ZIP archive"),
        (zipped("[Content_Types].xml", "word/document.xml"), "a Word document"),
        (zipped("xl/workbook.xml"), "an Excel workbook"),
        (zipped("mimetype", "META-INF/container.xml"), "an EPUB book"),
        (zipped("mimetype", "content.xml"), "an OpenDocument file"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document"),
        (b"{\\rtf1\\ansi", "an RTF document"),
        (b"GGUF\x03\0\0\0", "a GGUF model"),
        (b"SQLite format 3\0", "an SQLite database"),
        (b"\x7fELF\x02\x01", "a program (ELF)"),
        (b"MZ\x90\0\x03\0\0\0\x04\0\0\0", "a program (Windows)"),
    ],
)
def test_what_is_no_text_is_named(data: bytes, kind: str) -> None:
    error = refusal(data)
    assert error.message == f"`standard input` is {kind}, not text"
    assert error.hint


def test_unknown_binary_data_is_refused() -> None:
    assert refusal(bytes(range(256)) * 16).message == "`standard input` looks like binary data, not text"
    assert refusal(bytes(range(1, 32)) * 16).message == "`standard input` looks like binary data, not text"


@pytest.mark.parametrize("data", [b"", b" \r\n\t", b"\0\0", b"<html></html>", b"<!doctype html>"])
def test_input_without_text_is_refused(data: bytes) -> None:
    assert refusal(data).message == "`standard input` holds no text"


def test_an_endless_pipe_is_read_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_BYTES", 2**20)

    with Path("/dev/zero").open("rb") as endless, pytest.raises(UsageError, match="larger than 1 MiB"):
        read_document("-", stdin=endless)


def test_devices_sockets_and_directories_are_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    for path in ("/dev/zero", tmp_path / "socket"):
        with pytest.raises(UsageError, match="is a device or socket"):
            read_document(path)
    with pytest.raises(UsageError, match="is a directory"):
        read_document(tmp_path)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(UsageError, match="`no/such file` cannot be read: No such file or directory"):
        read_document("no/such file")
    with pytest.raises(UsageError, match="cannot be read"):
        read_document("nul\0name")


def test_a_file_without_permission_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    (tmp_path / "secret").touch()
    with pytest.raises(UsageError, match="cannot be read: Permission denied"):
        read_document(tmp_path / "secret")


def test_a_missing_standard_input_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no standard input"):
        read_document("-")


def test_html_becomes_its_text() -> None:
    page = b"""<!DOCTYPE html><html><head><title>t</title><style>p {}</style><script>let x</script></head>
    <body><h1>Bread &amp; butter</h1><p>One\n two</p><ul><li>three</li></ul></body></html>"""
    document = read(page)
    assert [line.strip() for line in document.text.splitlines() if line.strip()] == [
        "Bread & butter",
        "One two",
        "* three",
    ]
    assert document.notes == ("text taken out of HTML",)


def test_deeply_nested_html_is_read_to_its_end_or_refused() -> None:
    assert read(b"<html>start" + b"<b>" * 300 + b"end").text.split() == ["startend"]
    assert "cannot be read as HTML" in refusal(b"<html>start" + b"<b>" * 10**5 + b"end").message


def test_html_that_declares_an_encoding_is_read_once_decoded() -> None:
    page = '<?xml version="1.0" encoding="latin-1"?><html><meta charset="latin-1"><p>café</html>'
    assert read(page.encode()).text == "café\n"


def test_html_is_known_by_its_suffix_too(tmp_path: Path) -> None:
    (tmp_path / "page.HTM").write_text("<p>a<br>b")
    assert read_document(tmp_path / "page.HTM").text.split() == ["a", "b"]


def test_text_with_tags_in_it_stays_as_it_is() -> None:
    assert read(b"Use <html> as the root").text == "Use <html> as the root"


def test_pages_of_a_pdf_are_joined_by_blank_lines() -> None:
    assert read(pdf("First page", "Second page")).text == "First page\n\nSecond page"


def test_pages_without_text_are_counted() -> None:
    assert read(pdf("Cover", "", "")).notes == ("pages without text: 2 of 3",)


def test_a_pdf_without_text_is_refused() -> None:
    assert refusal(pdf("", "")).message == "`standard input` is a PDF of pictures without text"


def test_an_encrypted_pdf_is_refused() -> None:
    assert refusal(pdf("Secret", password="key")).message == "`standard input` is an encrypted PDF"


def test_a_damaged_pdf_is_refused_without_a_word_from_the_library(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert refusal(b"%PDF-1.7\nand nothing else").message.startswith("`standard input` cannot be read as PDF: ")
    assert not caplog.records
