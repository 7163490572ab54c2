"""The terminal is given back as it was, whatever was cut short."""

from __future__ import annotations

import os
import pty
import sys
import termios

import pytest

from speclocal.terminal.signals import give_back, terminal_settings


def test_a_terminal_is_set_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is typed is shown again; a terminal that did not change is not touched."""
    keyboard, terminal = pty.openpty()
    with os.fdopen(terminal, "r") as stdin, os.fdopen(keyboard):
        monkeypatch.setattr(sys, "stdin", stdin)
        before = terminal_settings()
        assert before is not None
        silent = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
        termios.tcsetattr(stdin, termios.TCSANOW, silent)
        give_back(before)
        assert terminal_settings() == before
        monkeypatch.setattr(termios, "tcsetattr", lambda *_: pytest.fail("it was set as it was"))
        give_back(before)


def test_where_there_is_no_terminal_nothing_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert terminal_settings() is None
        give_back(None)
    give_back(None)
    monkeypatch.setattr(sys, "stdin", None)
    assert terminal_settings() is None
