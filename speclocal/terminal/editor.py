"""Where a chat's lines come from: a line editor at a terminal, or a pipe.

Knows keys and streams, not what a line means.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import platformdirs
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter, WordCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import create_output

from speclocal.terminal.live import obeys_escape_codes
from speclocal.terminal.signals import settings_kept

_PROMPT = "> "
_LOCAL_MODES = 3  # where they stand in what termios returns


class Lines(Protocol):
    """Gives a chat line by line."""

    at_terminal: bool  # somebody is there, who can stop a reply and go on

    def read(self, text: str = "") -> str:
        """Return the next line, at a terminal beginning with `text`; an empty one where it was given up.

        Raises EOFError at the end, and KeyboardInterrupt for Ctrl-C where there was nothing to give up.
        """


def open_lines(commands: Mapping[str, str], arguments: Mapping[str, Iterable[str] | None]) -> Lines:
    """Return the lines of standard input, by a line editor where somebody types.

    commands: what can be completed, each with a few words on it. arguments: what can follow a command; None: a path.
    """
    at_terminal = sys.stdin is not None and sys.stdin.isatty()
    if at_terminal and obeys_escape_codes() and (sys.stdout.isatty() or sys.stderr.isatty()):
        return Editor(_Completer(commands, arguments))
    return PlainLines(at_terminal=at_terminal)


@contextmanager
def unechoed() -> Iterator[None]:
    """Keep what is typed meanwhile off the screen, where it would stand in the middle of a reply. It is not lost."""
    with settings_kept() as settings:
        if settings:
            import termios

            settings[_LOCAL_MODES] &= ~termios.ECHO
            termios.tcsetattr(sys.stdin, termios.TCSANOW, settings)
        yield


class PlainLines:
    """Lines as they come. A terminal that knows no escape codes is asked for them with a prompt."""

    def __init__(self, *, at_terminal: bool) -> None:
        self.at_terminal = at_terminal

    def read(self, text: str = "") -> str:
        if self.at_terminal:
            sys.stderr.write(_PROMPT)
            sys.stderr.flush()
        line = sys.stdin.buffer.readline() if sys.stdin else b""
        if not line:
            raise EOFError
        return line.decode("utf-8", "replace").rstrip("\r\n").lstrip("\ufeff")


class Editor:
    """A line editor: history across chats, completion, and messages of several lines by Alt-Enter or paste."""

    at_terminal = True

    def __init__(self, completer: Completer) -> None:
        keys = KeyBindings()
        keys.add("enter")(_accept)
        keys.add("escape", "enter")(_break_line)
        self._session: PromptSession[str] = PromptSession(
            _PROMPT,
            multiline=True,
            key_bindings=keys,
            completer=completer,
            complete_while_typing=False,
            history=_History(_history_file()),
            enable_suspend=True,
            output=create_output(always_prefer_tty=True),
        )

    def read(self, text: str = "") -> str:
        try:
            with settings_kept():
                return self._session.prompt(default=text)
        except KeyboardInterrupt:
            if not self._session.default_buffer.text:
                raise
            return ""


def _accept(event: KeyPressEvent) -> None:
    event.current_buffer.validate_and_handle()


def _break_line(event: KeyPressEvent) -> None:
    event.current_buffer.insert_text("\n")


class _Completer(Completer):
    """Completes commands and what can follow them; messages are left alone."""

    def __init__(self, commands: Mapping[str, str], arguments: Mapping[str, Iterable[str] | None]) -> None:
        self._commands = commands
        self._arguments: dict[str, Completer] = {
            name: PathCompleter(expanduser=True) if values is None else WordCompleter(list(values))
            for name, values in arguments.items()
        }

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        name, space, rest = document.text_before_cursor.partition(" ")
        if space and name in self._arguments:
            yield from self._arguments[name].get_completions(Document(rest), complete_event)
        elif not space and name.startswith("/"):
            for command, help_text in self._commands.items():
                if command.startswith(name):
                    yield Completion(command, -len(name), display_meta=help_text)


class _History(FileHistory):
    """The lines of all chats; where they cannot be kept on disk, those of this one."""

    def load_history_strings(self) -> Iterable[str]:
        with suppress(OSError):
            yield from super().load_history_strings()

    def store_string(self, string: str) -> None:
        with suppress(OSError):
            super().store_string(string)


def _history_file() -> Path:
    """Return the file of lines typed in chats, which nobody else may read."""
    path = platformdirs.user_state_path("speclocal") / "chat_history"
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    return path
