"""One key press, without the Return key.

Knows terminals, not what a key means.
"""

from __future__ import annotations

import os
import select
import sys

from speclocal.terminal.signals import settings_kept

_PAUSE = 0.05  # seconds that part the bytes of one key at most


def read_key() -> str:
    """Wait for a key and return what it sends; nothing where the terminal is gone. The key is not shown."""
    if sys.platform == "win32":
        import msvcrt

        return msvcrt.getwch()
    import termios
    import tty

    terminal = sys.stdin.fileno()
    with settings_kept():
        try:
            tty.setcbreak(terminal, termios.TCSADRAIN)  # Ctrl-C still interrupts
            sent = os.read(terminal, 1)  # a byte at a time: keys that were pressed ahead are keys of their own
            while _goes_on(sent) and select.select([terminal], [], [], _PAUSE)[0]:
                sent += os.read(terminal, 1)
            return sent.decode("utf-8", "replace")
        except OSError:
            return ""


def _goes_on(sent: bytes) -> bool:
    """Return whether a key may send more: a letter beyond ASCII, or an escape sequence before its last character."""
    if sent[:1] == b"\x1b":
        return sent[1:] in (b"", b"[", b"O") or (sent[1:2] == b"[" and sent[-1] < ord("@"))
    return bool(sent) and sent[0] >= 0x80 and len(sent) < 2 + (sent[0] >= 0xE0) + (sent[0] >= 0xF0)
