"""What can be typed in a chat instead of a message: `/help`, `/mode off`, `/file notes.txt`.

Knows what each command does to a talk. A line that begins with a space is a message, whatever follows.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from speclocal.errors import UsageError
from speclocal.jobs.generate import change_draft
from speclocal.jobs.modes import Mode
from speclocal.jobs.saved_chats import load, save
from speclocal.terminal import words
from speclocal.text.documents import read_document

if TYPE_CHECKING:
    from speclocal.terminal.chat import Talk

_OFF = "off"
_LINE = re.compile(r"(/[a-zA-Z]+)(?:\s+(.*))?", re.DOTALL)

ARGUMENTS: Mapping[str, Iterable[str] | None] = {"/mode": list(Mode), "/file": None, "/save": None, "/load": None}
"""What can follow a command, for completion; None: a path."""


@dataclass(frozen=True)
class Command:
    """What a command does with what follows it, and what `/help` says."""

    run: Callable[[Talk, str], None]
    argument: str
    summary: str


_COMMANDS: dict[str, Command] = {}


def find(line: str) -> tuple[Command, str] | None:
    """Return the command of a line and what follows it, None for a message. Raises UsageError for an unknown one."""
    found = _LINE.fullmatch(line.rstrip())
    if found is None:
        return None
    name, argument = found[1].lower(), found[2] or ""
    if name not in _COMMANDS:
        nearest = difflib.get_close_matches(name, _COMMANDS, n=1)
        suggestion = f"did you mean `{nearest[0]}`? " if nearest else ""
        raise UsageError(
            f"there is no command `{name}`", f"{suggestion}`/help` lists them; a message may begin with a space"
        )
    return _COMMANDS[name], argument


def summaries() -> dict[str, str]:
    """Return every command, and in a few words what it does."""
    return {name: command.summary for name, command in _COMMANDS.items()}


def _command(argument: str, summary: str) -> Callable[[Callable[[Talk, str], None]], Callable[[Talk, str], None]]:
    """Make a function `_name` the command `/name`."""

    def add(function: Callable[[Talk, str], None]) -> Callable[[Talk, str], None]:
        _COMMANDS[function.__name__.replace("_", "/")] = Command(function, argument, summary)
        return function

    return add


@_command("", "list the commands")
def _help(talk: Talk, _argument: str) -> None:
    usages = [(f"{name} {command.argument}".rstrip(), command.summary) for name, command in _COMMANDS.items()]
    width = max(len(usage) for usage, _ in usages)
    talk.view.note("\n".join(f"{usage:<{width}}  {summary}" for usage, summary in usages))
    talk.view.note("Alt-Enter begins a new line; Ctrl-C stops a reply, Ctrl-D leaves")


@_command("[MODE [TOKENS]]", "who drafts: auto, off, lookup, draft; and how far")
def _mode(talk: Talk, argument: str) -> None:
    if argument:
        name, _, length = argument.partition(" ")
        if name not in list(Mode):
            raise UsageError(f"there is no mode `{name}`", f"choose one of {', '.join(Mode)}")
        mode = Mode(name)
        if mode is Mode.DRAFT and talk.chat.session.draft is None:
            raise UsageError("mode `draft` needs a draft model", "give one with `/draft MODEL`, or use `/mode lookup`")
        talk.change(mode=mode, num_draft_tokens=_whole(length) if length else None)
    _tell_settings(talk)


@_command("[MODEL|off]", "which model drafts")
def _draft(talk: Talk, argument: str) -> None:
    session = talk.chat.session
    if argument == _OFF:
        session.draft_with(None)
    elif argument:
        change_draft(session, argument, talk.view.fetching)
    talk.view.note(f"draft model: {session.draft_name or 'none'}")


@_command("", "numbers of the last reply")
def _stats(talk: Talk, _argument: str) -> None:
    session = talk.chat.session
    for line in words.turn(talk.reply, session.context_size) if talk.reply else ["there is no reply yet"]:
        talk.view.note(line)
    if session.draft is not None:
        talk.view.note(f"draft model: {len(session.draft.cached)} tokens in its cache")
    talk.view.note(words.conversation(talk.chat.conversation))


@_command("[TEXT|off]", "what the model should keep to")
def _system(talk: Talk, argument: str) -> None:
    if argument:
        system = "" if argument == _OFF else argument
        talk.chat.conversation = replace(talk.chat.conversation, system=system)
    talk.view.note(f"system: {talk.chat.conversation.system or 'none'}")


@_command("[NUMBER]", "the temperature; 0 is greedy")
def _temp(talk: Talk, argument: str) -> None:
    if argument:
        talk.change(params=replace(talk.chat.settings.params, temperature=_number(argument)))
    _tell_settings(talk)


@_command("[NUMBER|off]", "the same seed gives the same text, in every mode")
def _seed(talk: Talk, argument: str) -> None:
    if argument:
        talk.change(seed=None if argument == _OFF else _whole(argument))
    _tell_settings(talk)


@_command("", "take the last message and its answer back")
def _undo(talk: Talk, _argument: str) -> None:
    talk.view.note(f"taken back: {words.shortened(talk.chat.undo().question)}")


@_command("", "answer the last message again")
def _retry(talk: Talk, _argument: str) -> None:
    talk.ask(talk.chat.conversation.last.question, again=True)


@_command("[TEXT]", "change the last message, and answer it again")
def _edit(talk: Talk, argument: str) -> None:
    last = talk.chat.conversation.last.question
    if not argument and not talk.lines.at_terminal:
        raise UsageError("nobody is here to edit the message", "write `/edit` and the new text")
    question = argument or talk.lines.read(last)
    if question.strip():
        talk.ask(question, again=True)


@_command("PATH", "write the chat to a file")
def _save(talk: Talk, argument: str) -> None:
    path = _path(argument)
    save(talk.chat.saved(), path)
    talk.chat.session.keep_cache()
    talk.view.note(f"saved to {path}")


@_command("PATH", "go on with a chat from a file")
def _load(talk: Talk, argument: str) -> None:
    talk.chat.restore(load(_path(argument)))
    talk.view.note(words.conversation(talk.chat.conversation))
    _tell_settings(talk)


@_command("PATH", "send a file's text with the next message")
def _file(talk: Talk, argument: str) -> None:
    document = read_document(_path(argument))
    talk.attach(document)
    for note in (*document.notes, f"`{document.name}` goes with your next message: {len(document.text):,} characters"):
        talk.view.note(note)


@_command("", "begin a new conversation")
def _reset(talk: Talk, _argument: str) -> None:
    talk.chat.reset()
    talk.view.note("a new conversation")


@_command("", "leave")
def _quit(talk: Talk, _argument: str) -> None:
    talk.going_on = False


def _tell_settings(talk: Talk) -> None:
    talk.view.note(words.settings(talk.chat.settings, talk.mode))


def _path(argument: str) -> Path:
    if not argument:
        raise UsageError("which file?", "give its path")
    return Path(os.path.expanduser(argument))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as exc:
        raise UsageError(f"`{text}` is no number", "give one such as 0.8") from exc


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError as exc:
        raise UsageError(f"`{text}` is no whole number", "give one such as 7") from exc
