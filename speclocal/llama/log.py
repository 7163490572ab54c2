"""llama.cpp's log: quiet, kept, and quoted when something fails.

Knows lines of text, not what they are about.
"""

from __future__ import annotations

import ctypes
import sys
from collections import deque

import llama_cpp

_WARNING, _ERROR, _CONTINUED = 3, 4, 5  # enum ggml_log_level

_problems: deque[str] = deque(maxlen=64)
_verbose = False
_last_level = 0


def start() -> None:
    """Take over the native log."""
    llama_cpp.llama_log_set(_native_callback, ctypes.c_void_p(0))


def show(wanted: bool) -> None:
    """Let every native line go to stderr as well, or not."""
    global _verbose
    _verbose = wanted


def forget() -> None:
    """Drop what was kept, so that a later quote speaks of what happens from here on."""
    _problems.clear()


def reason() -> str:
    """Return the last native errors as one line, warnings where there are no errors, or an empty string."""
    errors = [line for line in _problems if not line.startswith("warning: ")]
    return "; ".join(list(dict.fromkeys(errors or _problems))[-3:])


def has(words: str) -> bool:
    """Return whether a line that was kept holds these words."""
    return any(words in line for line in _problems)


def tells_of_memory(reason: str) -> bool:
    """Return whether a reason says that memory was short."""
    return any(words in reason.lower() for words in ("to allocate", "out of memory", "bad_alloc"))


def _keep(level: int, text: bytes, _user_data: ctypes.c_void_p) -> None:
    """Take one line from any native thread; an exception must not travel into native code."""
    global _last_level
    try:
        line = text.decode("utf-8", "replace")
        level = _last_level if level == _CONTINUED else level
        _last_level = level
        if level in (_WARNING, _ERROR) and line.strip():
            _problems.append(("warning: " if level == _WARNING else "") + line.strip())
        if _verbose:
            sys.stderr.write(line)
            sys.stderr.flush()
    except Exception:
        pass


_native_callback = llama_cpp.llama_log_callback(_keep)  # referenced here for as long as native code may call it
