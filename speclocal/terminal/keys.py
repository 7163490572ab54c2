"""One key press, without the Return key.

Knows terminals, not what a key means.
"""

from __future__ import annotations

import os
import sys

_LONGEST = 64  # bytes that one press of any key sends at most


def read_key() -> str:
    """Wait for a key and return what it sends; nothing where the terminal is gone. The key is not shown."""
    if sys.platform == "win32":
        import msvcrt

        return msvcrt.getwch()
    import termios
    import tty

    terminal = sys.stdin.fileno()
    usual = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal, termios.TCSADRAIN)  # Ctrl-C still interrupts
        return os.read(terminal, _LONGEST).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, usual)
