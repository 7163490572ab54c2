"""Whether a cache forgets what it drops, and whether passes of exact widths are exact: bit by bit.

Knows one open model and a text. Each check compares logits with those of passes that nothing disturbed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from speclocal.decoding.costs import Calibration
from speclocal.decoding.loop import read
from speclocal.decoding.types import Logits
from speclocal.llama.layouts import TwoLayouts
from speclocal.llama.model import LlamaModel

_WIDTHS = (2, 1, 5, 3, 1)
"""Passes that are run again after the cache was disturbed."""
NUM_TOKENS = sum(_WIDTHS)
"""Tokens of a text that these checks need after its beginning."""


@dataclass(frozen=True)
class BitCheck:
    """Whether logits came out again bit for bit in spite of something that must not matter."""

    what: str
    holds: bool
    largest_difference: float  # of any logit


def check_cache(target: LlamaModel | TwoLayouts, text: Sequence[int]) -> list[BitCheck]:
    """Check what this model's cache can do: drop tokens, and be taken out and put back."""
    begin = text[: len(text) - NUM_TOKENS]
    junk = [text[0], *text[:-NUM_TOKENS:-1]]

    def disturb() -> None:
        held = len(target.cached)
        target.forward(junk[: 1 + held % 6], 1)
        target.rollback(held)

    read(target, begin)
    state = target.snapshot()
    undisturbed = _passes(target, text)
    checks = []
    if target.can_rollback:
        target.rollback(len(begin))
        checks.append(_compared("the same tokens again after all were dropped", _passes(target, text), undisturbed))
        target.rollback(len(begin))
        again = _passes(target, text, disturb)
        checks.append(_compared("other tokens read and dropped before every pass", again, undisturbed))
    if not target.weights.has_sliding_window:  # its state is the window alone
        target.restore(state, begin)
        checks.append(_compared("the cache put back as it was taken out", _passes(target, text), undisturbed))
    return checks


def check_widths(target: LlamaModel | TwoLayouts, text: Sequence[int], calibration: Calibration) -> list[BitCheck]:
    """Check the widths that the calibration calls exact here: each against one-token passes over the same tokens."""
    found = calibration.exact_widths(len(text))
    begin = text[: len(text) - max(found)]
    read(target, begin)
    alone = [target.forward([token], 1)[0].copy() for token in text[len(begin) :]]
    checks = []
    for width in found:
        target.rollback(len(begin))
        rows = target.forward(text[len(begin) : len(begin) + width], width)
        checks.append(_compared(f"a pass over {width}", list(rows), alone[:width]))
    return checks


def _passes(
    target: LlamaModel | TwoLayouts, text: Sequence[int], before: Callable[[], None] = lambda: None
) -> list[Logits]:
    """Run passes over the rest of `text`, and return all their rows."""
    rows: list[Logits] = []
    for width in _WIDTHS:
        before()
        start = len(text) - NUM_TOKENS + len(rows)
        rows.extend(target.forward(text[start : start + width], width).copy())
    return rows


def _compared(what: str, found: Sequence[Logits], expected: Sequence[Logits]) -> BitCheck:
    pairs = list(zip(found, expected, strict=True))
    return BitCheck(
        what,
        holds=all(np.array_equal(a, b) for a, b in pairs),
        largest_difference=float(np.max([np.abs(a - b).max() for a, b in pairs])),
    )
