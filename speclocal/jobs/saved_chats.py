"""Chats on this disk.

Knows a file's form, and checks what it reads.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from speclocal.decoding.types import SamplingParams
from speclocal.errors import UsageError
from speclocal.jobs.conversation import Conversation, Exchange
from speclocal.jobs.modes import Mode
from speclocal.jobs.reply import ReplySettings
from speclocal.text.documents import read_document

_FORMAT = 1  # raised when an older speclocal could not read what is written
_HINT = "give a file that `/save` wrote"


@dataclass(frozen=True)
class SavedChat:
    """A conversation, the settings of its next reply, and the ids of its last turn.

    The ids say how the text was spelled, so that a chat that is taken up again goes on as it would have. They are a
    hint: where they do not say what the conversation says, as with another model, they have no effect.
    """

    conversation: Conversation
    settings: ReplySettings
    ids: tuple[int, ...] = ()


def save(chat: SavedChat, path: Path) -> None:
    """Write a chat, whole or not at all. Raises UsageError where it cannot, or where something else is at `path`."""
    scratch = path.parent / f"{path.name}.{os.getpid()}"
    try:
        if path.exists():
            load(path)
        scratch.write_text(json.dumps({"format": _FORMAT, **asdict(chat)}, indent=1), encoding="utf-8")
        scratch.replace(path)
    except (OSError, ValueError) as exc:
        with suppress(OSError, ValueError):
            scratch.unlink(missing_ok=True)
        reason = exc.strerror if isinstance(exc, OSError) else exc
        raise UsageError(f"`{path}` cannot be written: {reason}", "choose another place") from exc


def load(path: Path) -> SavedChat:
    """Read a chat. Raises UsageError when the file is no chat, or has values that none has."""
    text = read_document(path, keep_html=True).text
    try:
        stored = json.loads(text)
        if stored["format"] != _FORMAT:
            raise UsageError(f"`{path}` has form {stored['format']}, this speclocal reads form {_FORMAT}", _HINT)
        ids = tuple(_whole(token) for token in stored["ids"])
        return SavedChat(_conversation(stored["conversation"]), _settings(stored["settings"]), ids)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as exc:
        raise UsageError(f"`{path}` is not a saved chat", _HINT) from exc


def _conversation(stored: Any) -> Conversation:
    exchanges = tuple(
        Exchange(_text(each["question"]), _text(each["answer"]), complete=bool(each["complete"]))
        for each in stored["exchanges"]
    )
    num_forgotten = min(max(0, _whole(stored["num_forgotten"])), len(exchanges))
    return Conversation(_text(stored["system"]), exchanges, num_forgotten)


def _settings(stored: Any) -> ReplySettings:
    params = stored["params"]
    return ReplySettings(
        mode=Mode(stored["mode"]),
        num_draft_tokens=_optional(stored["num_draft_tokens"]),
        max_tokens=_whole(stored["max_tokens"]),
        params=SamplingParams(
            temperature=float(params["temperature"]),
            top_k=_whole(params["top_k"]),
            top_p=float(params["top_p"]),
            min_p=float(params["min_p"]),
            repeat_penalty=float(params["repeat_penalty"]),
        ),
        seed=_optional(stored["seed"]),
        stops=tuple(_text(stop) for stop in stored["stops"]),
        strict=bool(stored["strict"]),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value} is no text")
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value} is no whole number")
    return value


def _optional(value: Any) -> int | None:
    return None if value is None else _whole(value)
