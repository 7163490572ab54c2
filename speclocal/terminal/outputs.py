"""Files that a command writes beside what it shows: checked before it runs, and written whole.

Knows paths and texts, not what is in them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from speclocal.errors import UsageError

STDOUT = "-"
_ELSEWHERE = "choose another place"


def check_outputs(outputs: Mapping[str, str], inputs: Iterable[str] = ()) -> None:
    """Raise UsageError where a file could not be written, or would replace another that counts.

    outputs: by option, those that are not given are empty. inputs: what the command reads; those that are no files of
    this machine, such as names of models, are fine.
    """
    given = {option: Path(path) for option, path in outputs.items() if path}
    read = [path for path in map(Path, filter(None, inputs)) if path.is_file()]
    for option, path in given.items():
        _check(option, path)
        if _is_device(path):
            continue
        for source in read:
            if _same(path, source):
                raise UsageError(f"`{option} {path}` would replace what is read", _ELSEWHERE)
        for other, taken in given.items():
            if other != option and _same(path, taken):
                raise UsageError(f"`{other}` and `{option}` both write to `{path}`", "give each a file of its own")


def write_whole(path: Path, text: str) -> None:
    """Write a file in one step: what stood there before stays until all of the new text is on the disk.

    A file that cannot be replaced is overwritten: a pipe or a terminal, one with several names, one in a folder that
    takes no others. What UTF-8 cannot hold, as parts of a file name, is written by its number. Raises OSError.
    """
    data = text.encode(errors="backslashreplace")
    place = path if _is_device(path) else path.resolve()  # a link goes on pointing there
    if _is_device(path) or (place.exists() and place.stat().st_nlink > 1):
        place.write_bytes(data)
        return
    scratch = place.with_name(f".{os.getpid()}.new")
    try:
        scratch.write_bytes(data)
        if place.exists():
            shutil.copymode(place, scratch)
        scratch.replace(place)
    except PermissionError:
        place.write_bytes(data)
    finally:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)


def _check(option: str, path: Path) -> None:
    if str(path) == STDOUT:
        raise UsageError(f"`{option}` cannot write to stdout", "give the name of a file")
    if path.is_dir():
        raise UsageError(f"`{option}`: `{path}` is a directory", "give the name of a file")
    place = path if path.exists() else path.resolve().parent
    if not place.exists():
        raise UsageError(f"`{option}`: there is no directory `{place}`", "make it, or " + _ELSEWHERE)
    if not os.access(place, os.W_OK):
        raise UsageError(f"`{option}`: `{place}` may not be written to", _ELSEWHERE)


def _is_device(path: Path) -> bool:
    """Return whether a path leads to what takes text and keeps none: a pipe, a terminal, /dev/null."""
    return path.exists() and not path.is_file()


def _same(one: Path, other: Path) -> bool:
    """Return whether two paths lead to one file; one that is not there yet is known by its name."""
    if one.exists() and other.exists():
        return one.samefile(other)
    return one.resolve() == other.resolve()
