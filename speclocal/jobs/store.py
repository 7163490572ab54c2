"""Files kept between runs: bounded, those used longest ago go first, written whole or not at all.

Knows names and bytes, not what they mean. What cannot be read or written costs time, not the reply.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from speclocal.models.files import cache_dir


@dataclass(frozen=True)
class Entry:
    """A kept file."""

    path: Path
    num_bytes: int
    used: int  # nanoseconds since the epoch


@dataclass(frozen=True)
class Store:
    """A folder of kept files. What it holds is private: only the user can look into it."""

    name: str
    limit_bytes: int

    @property
    def folder(self) -> Path:
        return cache_dir() / self.name

    def entries(self) -> list[Entry]:
        """Return what is kept, the last used first."""
        found = []
        for path in self.folder.glob("*"):
            with suppress(OSError):  # another process may have dropped it
                status = path.stat()
                found.append(Entry(path, status.st_size, status.st_mtime_ns))
        return sorted(found, key=lambda entry: -entry.used)

    def use(self, path: Path) -> None:
        """Make an entry the last one to go."""
        with suppress(OSError):
            os.utime(path)

    def write(self, name: str, fill: Callable[[BinaryIO], object]) -> None:
        """Keep what `fill` writes under a name; then drop what no longer has room."""
        scratch = self.folder / f"{name}.{os.getpid()}"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with scratch.open("wb") as file:
                fill(file)
            scratch.replace(self.folder / name)
        except OSError:
            pass
        finally:
            _drop(scratch)
        room = self.limit_bytes
        for entry in self.entries():
            if entry.num_bytes > room:
                _drop(entry.path)
            else:
                room -= entry.num_bytes

    def clear(self) -> None:
        """Drop everything."""
        for entry in self.entries():
            _drop(entry.path)


def _drop(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)


PROMPTS = Store("prompts", 2 * 10**9)
"""Processed prompts: prompts.py."""
NOTES = Store("notes", 20 * 10**6)
"""Notes on the parts of long texts: notes.py."""
