"""Which files in the Hub's cache speclocal fetched itself: the cache is shared with other programs, whose files stay.

Knows paths, not what they are. One small file for each path, so that two commands at once do not disturb each other.
"""

import contextlib
import hashlib
from pathlib import Path

from speclocal.models import files


def remember(path: Path) -> None:
    """Note a file as fetched by speclocal. A note that cannot be written only means that `models rm` will refuse."""
    note = _note(path)
    with contextlib.suppress(OSError):
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(f"{path}\n", encoding="utf-8")


def is_ours(path: Path) -> bool:
    """Return whether speclocal fetched a file: into its own cache, or into the Hub's with a note."""
    return path.is_relative_to(files.cache_dir() / "models") or _note(path).is_file()


def forget(path: Path) -> None:
    """Take the note of a file back; safe where there is none."""
    _note(path).unlink(missing_ok=True)


def _note(path: Path) -> Path:
    key = hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()
    return files.cache_dir() / "fetched" / key[:16]
