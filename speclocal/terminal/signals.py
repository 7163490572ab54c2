"""Signals that end or stop a command, and settings of the terminal: it is given back as it was.

Knows signals and settings, not what is on the terminal. Ctrl-C needs no help: Python raises KeyboardInterrupt.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any


def prepare(clear: Callable[[], None]) -> None:
    """Let the signals that end a process raise SystemExit, and call `clear` before Ctrl-Z stops it.

    What is ignored, as SIGHUP under nohup, stays ignored.
    """

    def stop(number: int, _frame: object) -> None:
        clear()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)  # goes on here after SIGCONT
        signal.signal(number, stop)

    if threading.current_thread() is not threading.main_thread():
        return
    for name, handler in (("SIGTERM", _end), ("SIGHUP", _end), ("SIGTSTP", stop)):
        number = getattr(signal, name, None)  # Windows has not all of them
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, handler)


@contextmanager
def settings_kept() -> Iterator[list[Any] | None]:
    """Set the terminal of stdin as it was, wherever what happens inside is cut short.

    Yields its settings, as termios has them, to change and set; None where there is no terminal.
    """
    if sys.platform == "win32" or sys.stdin is None or not sys.stdin.isatty():
        yield None
        return
    import termios

    usual = termios.tcgetattr(sys.stdin)
    try:
        yield [*usual]
    finally:
        with suppress(termios.error, OSError):  # the terminal is gone
            if os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp():  # else it is in the hands of another program
                termios.tcsetattr(sys.stdin, termios.TCSANOW, usual)


def _end(number: int, _frame: object) -> None:
    sys.exit(128 + number)
