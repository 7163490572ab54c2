"""llama.cpp as a library in this process: started once, and functions of its lower half, ggml.

Knows how native functions are found, not what they do.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import llama_cpp
from llama_cpp import _ctypes_extensions, _ggml
from llama_cpp import llama_cpp as _bindings

from speclocal.llama import interrupts, log


@cache
def start() -> None:
    """Take over the native log and start llama.cpp; everything else in this room comes after it."""
    with interrupts.held():
        log.start()
        llama_cpp.llama_backend_init()


def native(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """Return a function of ggml that the bindings do not offer, by the types of its result and arguments.

    Raises AttributeError where this build has none such.
    """
    library = next((library for library in _libraries() if hasattr(library, name)), _libraries()[0])
    function: Callable[..., Any] = getattr(library, name)
    function.restype = result  # type: ignore[attr-defined]
    function.argtypes = list(arguments)  # type: ignore[attr-defined]
    return function


@cache
def _libraries() -> list[ctypes.CDLL]:
    """Return where ggml's functions are to be found.

    The package can hold a library twice, as libggml.so and as libggml.so.0: to open it by name would load a second
    copy with devices of its own. Asked for a function, libllama also looks into the copy it runs on, except on Windows,
    where a library is loaded once.
    """
    if sys.platform != "win32":
        return [_bindings._lib]
    return [_ctypes_extensions.load_shared_library(name, _ggml.libggml_base_path) for name in ("ggml", "ggml-base")]
