"""Notes on the parts of long texts, kept on disk: a part that is done is not read again.

Knows keys and notes, not how they are made.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from speclocal.jobs.keys import digest
from speclocal.jobs.store import NOTES


@dataclass(frozen=True)
class Note:
    """What a model noted on a part; cut: its end is missing."""

    text: str
    cut: bool


def kept_note(key: Any) -> Note | None:
    """Return the note with this key, of plain values; None where there is none, or it is damaged."""
    path = NOTES.folder / _name(key)
    try:
        note = Note(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    NOTES.use(path)
    return note


def keep_note(key: Any, note: Note) -> None:
    """Keep a note under a key of all that it depends on."""
    NOTES.write(_name(key), lambda file: file.write(json.dumps(asdict(note)).encode()))


def _name(key: Any) -> str:
    return f"{digest(key)}.json"
