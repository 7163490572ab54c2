"""The terminal is given back as it was, wherever an editor was cut short."""

from __future__ import annotations

import os
import sys

from pty_tools import Terminal

PROGRAM = """
import tty
from speclocal.terminal.signals import settings_kept
with settings_kept():
    tty.setraw(0)
    print("raw", flush=True)
    input()
    raise SystemExit(3)
"""


def test_a_terminal_is_set_as_it_was() -> None:
    """What is typed is shown again after an end in the middle of raw mode."""
    with Terminal([sys.executable, "-c", PROGRAM], env=dict(os.environ)) as terminal:
        terminal.wait_for(lambda: "raw" in terminal.text)
        assert not terminal.echoes
        terminal.type("\n")
        assert terminal.end() == 3
        assert terminal.echoes
