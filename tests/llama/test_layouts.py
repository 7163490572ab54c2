"""One model in two weight layouts: a cache that was handed over is worth the one that was computed in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from speclocal.decoding.loop import read
from speclocal.llama.layouts import TwoLayouts
from speclocal.llama.model import LlamaModel
from speclocal.llama.placement import Layout, Placement
from speclocal.llama.weights import Weights

NAMES = ["llama", "recurrent", "hybrid", "convolution", "delta net"]
CONTEXT = 512

NewPair = Callable[[str], tuple[TwoLayouts, LlamaModel]]


@pytest.fixture
def new_pair(path_of: Any, open_model: Any) -> Iterator[NewPair]:
    """Return a model in two layouts, and the same model in one."""
    opened: list[Any] = []

    def new(name: str) -> tuple[TwoLayouts, LlamaModel]:
        reading = Weights(path_of(name), Placement(1).in_layout(Layout.FILE))
        two = TwoLayouts(open_model(name, CONTEXT), LlamaModel(reading, CONTEXT))
        opened.extend((two, reading))
        return two, open_model(name, CONTEXT)

    yield new
    for thing in opened:
        thing.close()


def some_tokens(count: int, salt: int = 0) -> list[int]:
    return [(7919 * (i + 1) + 104729 * salt) % 300 + 3 for i in range(count)]


def agree(two: TwoLayouts, one: LlamaModel, tokens: list[int]) -> bool:
    """Read `tokens` into both and return whether they hold the same and say the same of it."""
    for model in (two, one):
        read(model, tokens)
    assert list(two.cached) == list(one.cached) == tokens
    return np.allclose(two.forward([5, 6], 2), one.forward([5, 6], 2), atol=1e-4)


def test_a_sliding_window_is_not_handed_over(new_pair: NewPair) -> None:
    """llama.cpp hands over the window alone, which could not be rolled back: refused instead of wrong logits."""
    with pytest.raises(ValueError, match="sliding window"):
        new_pair("sliding window")


@pytest.mark.parametrize("name", NAMES)
def test_long_prompt_is_handed_over(name: str, new_pair: NewPair) -> None:
    """A prompt read in one layout is continued in the other as if it had been read there."""
    two, one = new_pair(name)
    assert agree(two, one, some_tokens(400))


@pytest.mark.parametrize("name", NAMES)
def test_prompts_that_part_early_are_handed_over_too(name: str, new_pair: NewPair) -> None:
    """Rolling back past the place of the hand-over, for a short or a long rest, leaves nothing out."""
    two, one = new_pair(name)
    text = some_tokens(400)
    assert agree(two, one, text)
    assert agree(two, one, [*text[:200], 3, 4])
    assert agree(two, one, text)
    assert agree(two, one, [*text[:150], *some_tokens(200, salt=1)])
    assert agree(two, one, some_tokens(10, salt=2))


@pytest.mark.parametrize("name", NAMES)
def test_empty_and_full_caches_are_handed_over(name: str, new_pair: NewPair) -> None:
    """From no token to every slot of the context."""
    two, one = new_pair(name)
    two.forward(some_tokens(200), 0)
    two.rollback(0)
    assert list(two.cached) == []
    text = some_tokens(CONTEXT - 2)
    assert agree(two, one, text)
    assert len(two.cached) == two.context_size


def test_a_snapshot_is_taken_of_the_layout_that_read_last(new_pair: NewPair) -> None:
    """What the reader read is in the snapshot, and the writer goes on from it."""
    two, one = new_pair("llama")
    text = some_tokens(400)
    for model in (two, one):
        model.forward(text, 0)
    state = two.snapshot()
    two.rollback(0)
    two.restore(state, text)
    assert list(two.cached) == list(two.writer.cached) == text
    assert agree(two, one, [*text, 3, 4])
