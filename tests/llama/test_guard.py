"""A native call that gives up becomes an error; the process lives on."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

import pytest

from speclocal.llama import guard as module
from speclocal.llama import interrupts
from speclocal.llama.guard import GaveUp, Guard

ABORTS = """
import ctypes, sys, threading, time
from speclocal.llama import backend
from speclocal.llama.guard import GaveUp, Guard
guard = Guard()
abort = backend.native("ggml_abort", None, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p)
give_up = lambda: abort(b"net.cpp", 7, b"the other side is gone")
"""


@pytest.fixture
def guard() -> Guard:
    return Guard()


def test_calls_return_and_raise_as_without_a_guard(guard: Guard) -> None:
    """One after the other, in a thread of their own; a call within a call is part of it."""
    assert guard.run(lambda a, b: a + b, 1, b=2) == 3
    with pytest.raises(ZeroDivisionError):
        guard.run(lambda: 1 / 0)
    with pytest.raises(TimeoutError, match="its own"):
        guard.run(lambda: (_ for _ in ()).throw(TimeoutError("its own")))
    thread = guard.run(threading.get_ident)
    assert thread != threading.get_ident()
    assert guard.run(lambda: guard.run(threading.get_ident)) == thread


def test_a_guard_that_is_closed_ends_its_thread(guard: Guard) -> None:
    thread: threading.Thread = guard.run(threading.current_thread)
    guard.close()
    thread.join(5)
    assert not thread.is_alive()


def test_a_native_abort_is_an_error(run_python: Any) -> None:
    """Whichever thread gives up, the caller gets the reason, at once and at every call from then on."""
    done = run_python(
        ABORTS
        + """
def from_another_thread():
    threading.Thread(target=give_up, daemon=True).start()
    threading.Event().wait()  # as a pass that waits for an answer
for call in (give_up, from_another_thread):
    guard = Guard()
    for _ in range(2):
        try:
            guard.run(call)
        except GaveUp as error:
            print(error)
    guard.close()
print(Guard().run(lambda: "a new guard works"))
"""
    )
    reason = "net.cpp:7: the other side is gone\n"
    assert (done.stdout, done.stderr, done.returncode) == (4 * reason + "a new guard works\n", "", 0)


def test_a_thread_that_gives_up_late_does_no_harm(run_python: Any) -> None:
    """Threads that were left behind may give up when nothing is running any more."""
    done = run_python(
        ABORTS
        + """
try:
    guard.run(give_up)
except GaveUp:
    threading.Thread(target=give_up, daemon=True).start()
    time.sleep(0.3)
    print("alive")
"""
    )
    assert (done.stdout, done.returncode) == ("alive\n", 0)


def test_an_abort_outside_a_guard_still_ends_the_process(run_python: Any) -> None:
    """A native assertion in unguarded code is a bug, and says what it is."""
    done = run_python(ABORTS + "give_up()")
    assert done.returncode == -signal.SIGABRT
    assert done.stderr.startswith("net.cpp:7: the other side is gone\n")


def test_a_signal_waits_for_the_end_of_the_call(guard: Guard) -> None:
    """The call can look for signals that wait, as a long pass does, and end early."""
    seen = []

    def call() -> None:
        with interrupts.held() as arrived:
            signal.raise_signal(signal.SIGINT)
            while not arrived:
                time.sleep(0.01)
            seen.extend(arrived)

    with pytest.raises(KeyboardInterrupt):
        guard.run(call)
    assert seen == [signal.SIGINT]
    assert guard.run(lambda: "works") == "works"


def test_nobody_waits_long_after_an_interrupt(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that hangs, as on a worker that stands still, is left behind when a person wants to stop."""
    monkeypatch.setattr(module, "_PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(module, "_any_left", False)
    hang = threading.Event()
    threading.Timer(0.1, signal.raise_signal, [signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        guard.run(hang.wait, 30)
    with pytest.raises(GaveUp, match="it did not end after an interrupt"):
        guard.run(lambda: None)
    hang.set()  # that the call ends after all changes nothing
    with pytest.raises(GaveUp):
        guard.run(lambda: None)
