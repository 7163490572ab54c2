"""Signals that end or stop a command: the terminal is given back first.

Knows signals, not what is on the terminal. Ctrl-C needs no help: Python raises KeyboardInterrupt.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable


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


def _end(number: int, _frame: object) -> None:
    sys.exit(128 + number)
