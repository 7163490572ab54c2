"""Chats on disk: what is written is what is read, and nothing else is taken for a chat."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from speclocal.decoding.types import SamplingParams
from speclocal.errors import UsageError
from speclocal.jobs.conversation import Conversation, Exchange
from speclocal.jobs.modes import Mode
from speclocal.jobs.reply import ReplySettings
from speclocal.jobs.saved_chats import SavedChat, load, save

CHAT = SavedChat(
    Conversation(
        "Be brief.", (Exchange("Hi \u4f60\u597d \U0001f680", "Hello\n\x1b[1m"), Exchange("?", "", complete=False)), 1
    ),
    ReplySettings(Mode.LOOKUP, 3, 99, SamplingParams(0.7, 5, 0.5, 0.1, 1.1), 2**63 - 1, ("\n\n", "end")),
    (1, 2, 3),
)


def test_a_chat_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Everything comes back: texts of all kinds, settings, ids; and it can be written again."""
    for chat in (CHAT, SavedChat(Conversation(), ReplySettings(strict=True))):
        save(chat, tmp_path / "chat.json")
        assert load(tmp_path / "chat.json") == chat
    assert [path.name for path in tmp_path.iterdir()] == ["chat.json"]


def stored(tmp_path: Path, **changes: Any) -> Path:
    """Write a chat with other values at places such as `settings__mode`."""
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
    save(CHAT, path)
    whole = json.loads(path.read_text())
    for place, value in changes.items():
        *parents, name = place.split("__")
        inner = whole
        for parent in parents:
            inner = inner[parent]
        inner[name] = value
    path.write_text(json.dumps(whole))
    return path


@pytest.mark.parametrize(
    "changes",
    [
        {"conversation": None},
        {"conversation__system": 5},
        {"conversation__exchanges": [{"question": "Hi"}]},
        {"conversation__exchanges": 7},
        {"conversation__num_forgotten": "all"},
        {"settings__mode": "fast"},
        {"settings__max_tokens": "many"},
        {"settings__params": []},
        {"settings__params__temperature": 10**400},
        {"settings__stops": [1]},
        {"ids": ["a"]},
        {"ids": None},
    ],
)
def test_a_damaged_chat_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    """A value of the wrong kind anywhere is one clear error."""
    with pytest.raises(UsageError, match="is not a saved chat"):
        load(stored(tmp_path, **changes))


def test_values_out_of_range_are_refused_in_their_own_words(tmp_path: Path) -> None:
    """Settings are checked as those of the command line are."""
    with pytest.raises(UsageError, match="temperature is -1"):
        load(stored(tmp_path, settings__params__temperature=-1))
    with pytest.raises(UsageError, match="seed -1 is out of range"):
        load(stored(tmp_path, settings__seed=-1))
    with pytest.raises(UsageError, match="a draft of 99 tokens"):
        load(stored(tmp_path, settings__num_draft_tokens=99))


def test_more_forgotten_than_there_is_does_no_harm(tmp_path: Path) -> None:
    """A count that is too large forgets everything."""
    assert load(stored(tmp_path, conversation__num_forgotten=50)).conversation.num_seen == 0


def test_another_form_is_refused(tmp_path: Path) -> None:
    """A file of a later speclocal is not guessed at."""
    with pytest.raises(UsageError, match="has form 2, this speclocal reads form 1"):
        load(stored(tmp_path, format=2))


@pytest.mark.parametrize("content", ["[1, 2]", '"text"', "{}", "hello", "[" * 100_000])
def test_other_files_are_no_chats(tmp_path: Path, content: str) -> None:
    """Neither read as one nor overwritten by one."""
    path = tmp_path / "notes.txt"
    path.write_text(content)
    with pytest.raises(UsageError, match="is not a saved chat"):
        load(path)
    with pytest.raises(UsageError, match="is not a saved chat"):
        save(CHAT, path)
    assert path.read_text() == content


def test_places_that_cannot_be_written_or_read(tmp_path: Path) -> None:
    """A missing folder, a folder, and a missing file each say what they are."""
    with pytest.raises(UsageError, match="cannot be written: No such file or directory"):
        save(CHAT, tmp_path / "nowhere" / "chat.json")
    with pytest.raises(UsageError, match="cannot be written: File name too long"):
        save(CHAT, tmp_path / ("x" * 300))
    with pytest.raises(UsageError, match="cannot be written: embedded null byte"):
        save(CHAT, tmp_path / "a\0b")
    with pytest.raises(UsageError, match="is a directory"):
        save(CHAT, tmp_path)
    with pytest.raises(UsageError, match="cannot be read: No such file or directory"):
        load(tmp_path / "nothing.json")
