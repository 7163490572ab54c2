"""Whether the files of a model can be used, found out from their headers and sizes before anything is loaded.

Knows what llama.cpp asks of files; not where they came from.
"""

from pathlib import Path

from speclocal.errors import DamagedModelError, ModelError
from speclocal.models import splits
from speclocal.models.header import Header, read_header
from speclocal.models.kinds import Kind, kind_by_header

_LARGEST_GAP = 1 << 12  # bytes between the data of one file and the next: data is aligned to 32 bytes in practice


def check_model(path: Path) -> Header:
    """Return the header of the model at `path`, its first part if it is split.

    Raises DamagedModelError for a file that is not whole, ModelError for one that holds no model that writes text, and
    for parts that are missing, glued together or of different models.
    """
    first, *others = splits.parts(path)
    if absent := splits.missing(path):
        raise parts_missing(path, absent)
    header = read_header(first)
    kind = kind_by_header(header)
    if kind is not Kind.MODEL:
        raise ModelError(f"`{first.name}` is not a model that writes text: it is {kind}", "choose another file")
    _check_not_glued(first, header)
    headers = [header, *map(read_header, others)]
    for number, (part, found) in enumerate(zip((first, *others), headers, strict=True), 1):
        if found.part != (number, len(headers)):
            raise _wrong_part(part, found, (number, len(headers)))
    promised, there = header.integer("split.tensors.count"), sum(len(found.tensors) for found in headers)
    if others and promised is not None and promised != there:
        raise DamagedModelError(first, f"its parts hold {there} tensors of {promised}: they belong to different models")
    return header


def parts_missing(path: Path, absent: tuple[str, ...]) -> ModelError:
    """Return the error for a split model of which only some parts are in one folder."""
    count = len(splits.parts(path))
    return ModelError(
        f"`{path.name}` is part of a model in {count} files, and {len(absent)} are missing: {', '.join(absent)}",
        f"put all {count} into one folder; `speclocal pull` with any of them fetches all",
    )


def _check_not_glued(path: Path, header: Header) -> None:
    """Raise for files written one after the other into one: the data of the first is followed by another header."""
    with path.open("rb") as file:
        file.seek(header.data_end)
        following = file.read(_LARGEST_GAP)
    if b"GGUF" in following:
        count = f"{header.part[1]} parts" if header.part[1] > 1 else "files"
        raise DamagedModelError(
            path,
            f"it is {count} glued together, and only the first can be read",
            "keep the parts as they were, each a file by its own name, or merge them with "
            "`llama-gguf-split --merge FIRST-PART OUTPUT`",
        )


def _wrong_part(path: Path, header: Header, expected: tuple[int, int]) -> ModelError:
    number, count = header.part
    if expected == (1, 1):
        return ModelError(
            f"`{path.name}` is part {number} of a model in {count} files, under another name",
            f"name the parts as they were, NAME-00001-of-{count:05}.gguf and so on, in one folder",
        )
    said = f"part {number} of {count}" if count > 1 else "a whole model"
    return DamagedModelError(
        path, f"by its name it is part {expected[0]} of {expected[1]}, by its header {said}", "fetch it again"
    )
