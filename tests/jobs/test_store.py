"""Files kept between runs: whole or not at all, and never more than there is room for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import pytest

from speclocal.jobs.store import Store

SMALL = Store("small", 100)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECLOCAL_CACHE", str(tmp_path))
    return tmp_path


def write(name: str, size: int, used: int | None = None) -> None:
    """Keep a file of a size that was used at a time, by default now."""
    SMALL.write(name, lambda file: file.write(b"x" * size))
    if used is not None:
        os.utime(SMALL.folder / name, ns=(used, used))


def names() -> list[str]:
    return [entry.path.name for entry in SMALL.entries()]


def test_what_was_used_longest_ago_goes_first() -> None:
    """A file that was looked at stays, one that was not makes room."""
    for used, name in enumerate(("a", "b", "c")):
        write(name, 30, used)
    SMALL.use(SMALL.folder / "a")
    write("d", 30)
    assert names() == ["d", "a", "c"]
    write("e", 90)
    assert names() == ["e"]


def test_a_file_without_room_is_not_kept() -> None:
    """What is larger than the whole store is gone again at once, and costs nothing else its place."""
    write("small", 50)
    write("large", 101)
    assert names() == ["small"]


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_a_file_is_written_whole_or_not_at_all(error: BaseException) -> None:
    """A full disk is nobody's business, Ctrl-C goes on its way; neither leaves anything behind."""

    def fail(file: BinaryIO) -> None:
        file.write(b"half")
        raise error

    if isinstance(error, OSError):
        SMALL.write("a", fail)
    else:
        with pytest.raises(KeyboardInterrupt):
            SMALL.write("a", fail)
    assert names() == []


def test_a_folder_that_cannot_be_written_is_no_error(cache: Path) -> None:
    """Where there is a file instead of the folder nothing is kept, nothing is found, and nothing fails."""
    (cache / "small").write_text("in the way")
    write("a", 1)
    SMALL.clear()
    assert names() == []


def test_cleared_is_empty() -> None:
    """Clearing drops what other versions left as well."""
    write("a", 1)
    write("b.of-another-version", 1)
    SMALL.clear()
    assert names() == []
