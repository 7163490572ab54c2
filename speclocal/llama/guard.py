"""Native calls that can give up, made so that this process lives on when they do.

Knows calls, not what they do.

Where llama.cpp cannot go on, as when another machine goes away in the middle of a pass, it ends the process
(GGML_ABORT). It calls back before it does, and that call need not return: the thread that gave up then waits for ever,
and so does the thread that waits for it. So a call that can give up runs in a thread of its own, which is left behind
with all that the call holds, and the caller gets an error.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import cache
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from speclocal.llama import backend, interrupts

_Arguments = ParamSpec("_Arguments")
_Value = TypeVar("_Value")

_POLL_SECONDS = 0.2  # how often a signal is looked for while a call runs; its end is noticed at once
_PATIENCE_SECONDS = 10.0  # how long a call may go on after a signal before it is left behind

_running: Guard | None = None  # whose call runs now
_any_left = False  # whether threads were left behind: they may give up later


class GaveUp(Exception):
    """A native call that will never return, and llama.cpp's reason."""


class Guard:
    """Runs calls one after the other in a thread of its own; after one that gave up it runs no more."""

    def __init__(self) -> None:
        _take_aborts()
        self.reason = ""  # why a call gave up, empty as long as none did
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._current: Future[Any] | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def run(
        self, call: Callable[_Arguments, _Value], *arguments: _Arguments.args, **named: _Arguments.kwargs
    ) -> _Value:
        """Return what a call returns, or raise what it raises; a call within a call runs as part of it.

        Signals wait for the end of the call, but not for long. Raises GaveUp when it gives up, and ever after.
        """
        global _running
        if threading.current_thread() is self._thread:
            return call(*arguments, **named)
        if self.reason:
            raise GaveUp(self.reason)
        future: Future[_Value] = Future()
        self._current, _running = future, self
        try:
            with interrupts.held() as arrived:
                self._calls.put((future, lambda: call(*arguments, **named)))
                return self._outcome(future, arrived)
        finally:
            _running = None

    def leave_behind(self, reason: str) -> None:
        """Give the call that runs up, in its place or because nobody wants to wait for it any longer."""
        global _any_left
        _any_left = True
        self.reason = reason
        if self._current is not None:
            with suppress(InvalidStateError):  # it has just ended
                self._current.set_exception(GaveUp(reason))

    def close(self) -> None:
        """End the thread, unless it was left behind."""
        if not self.reason:
            self._calls.put((Future(), sys.exit))

    def _outcome(self, future: Future[_Value], arrived: interrupts.Arrived) -> _Value:
        deadline = None
        while True:
            try:
                return future.result(_POLL_SECONDS)
            except TimeoutError:
                if future.done():  # just now, or it was the call that timed out
                    return future.result()
            if arrived and deadline is None:
                deadline = time.monotonic() + _PATIENCE_SECONDS
            if deadline is not None and time.monotonic() > deadline:
                self.leave_behind("it did not end after an interrupt")

    def _work(self) -> None:
        while True:
            future, call = self._calls.get()
            try:
                value = call()
            except SystemExit:
                return
            except BaseException as exc:
                with suppress(InvalidStateError):  # it was left behind, and ended after all
                    future.set_exception(exc)
            else:
                with suppress(InvalidStateError):
                    future.set_result(value)
            del call  # what it holds is not kept until the next one


def _give_up(message: bytes) -> None:
    """Take the message of a native thread that gives up; where a guard can live without the thread, never return."""
    reason = message.decode("utf-8", "replace")
    if threading.current_thread() is threading.main_thread() or not (_running or _any_left):
        sys.stderr.write(f"{reason}\n")  # and llama.cpp ends the process
        sys.stderr.flush()
        return
    try:
        if _running:
            _running.leave_behind(reason)
    finally:
        threading.Event().wait()


_Callback = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
_native_callback = _Callback(_give_up)  # referenced here for as long as native code may call it


@cache
def _take_aborts() -> None:
    backend.start()
    backend.native("ggml_set_abort_callback", ctypes.c_void_p, _Callback)(_native_callback)
