"""Signals that arrive inside native code.

Knows signals, not what they interrupt. Native code calls back into Python, to log, and what a signal handler raises
there is lost; so signals wait until the native call has returned.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

Arrived = Sequence[int]
"""The signals that have arrived so far; it grows."""

_HELD = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

_arrived: list[int] = []  # while the main thread holds signals back


@contextmanager
def held(*also: int) -> Iterator[Arrived]:
    """Hold back what would interrupt the calls inside, and let it happen after them.

    also: signals beside those that end a process.
    Yields the signals that have arrived so far, for calls that can be asked to stop. Only handlers in Python are
    held back; other threads than the main one are never interrupted, and see what the main thread holds back meanwhile.
    """
    global _arrived
    if threading.current_thread() is not threading.main_thread():
        yield _arrived
        return
    outer, _arrived = _arrived, []
    arrived = _arrived
    handlers = {number: handler for number in (*_HELD, *also) if callable(handler := signal.getsignal(number))}
    for number in handlers:
        signal.signal(number, lambda number, _frame: arrived.append(number))
    try:
        yield arrived
    finally:
        _arrived = outer
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in arrived:
            signal.raise_signal(number)
