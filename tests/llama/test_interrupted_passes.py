"""Ctrl-C in a long pass: llama.cpp gives the pass up, and the cache is as it was before."""

from __future__ import annotations

import os
import signal
from threading import Timer
from typing import Any

import llama_cpp
import numpy as np
import pytest

_ABORTED = 2


def test_a_signal_ends_a_long_pass_early(open_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass over hundreds of tokens stops in the middle, raises, and leaves nothing of itself."""
    model, other = open_model("default", 1024), open_model("default", 1024)
    tokens = list(range(1000, 1500))
    model.forward(tokens[:60], 0)
    native, statuses = llama_cpp.llama_decode, list[int]()

    def noting(*arguments: Any) -> int:
        statuses.append(native(*arguments))
        return statuses[-1]

    monkeypatch.setattr(llama_cpp, "llama_decode", noting)
    timer = Timer(0.1, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        model.forward(tokens[60:], 0)
    assert statuses == [_ABORTED]
    assert list(model.cached) == tokens[:60]
    other.forward(tokens[:60], 0)
    assert np.array_equal(model.forward(tokens[60:70], 1), other.forward(tokens[60:70], 1))
