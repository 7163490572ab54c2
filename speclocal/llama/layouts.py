"""One model in two weight layouts: one context reads long texts, another does everything else.

Knows two contexts of the same model, and which one is up to date. Implements the core's Model protocol.

Reading a prompt and writing a token use different kernels, and the layout that is fast for one can be slow for the
other. The KV cache is the same in both, so a prompt read in one layout is handed over to the other. Not for models
with a sliding window: what llama.cpp hands over is the window alone, which cannot be rolled back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from speclocal.decoding.types import Logits
from speclocal.llama.checkpoints import State
from speclocal.llama.model import LlamaModel

_LONG = 128
"""Tokens in a pass without logits from which on handing the cache over is worth it."""


class TwoLayouts:
    """A model that reads with `reader` and does everything else with `writer`."""

    def __init__(self, writer: LlamaModel, reader: LlamaModel) -> None:
        if writer.weights.has_sliding_window:
            raise ValueError("the cache of a model with a sliding window cannot be handed over")
        self.writer = writer
        self.reader = reader
        self.weights = writer.weights
        self.vocab_size = writer.vocab_size
        self.context_size = min(writer.context_size, reader.context_size)
        self.max_pass = min(writer.max_pass, reader.max_pass)
        self.max_rows = writer.max_rows
        self.can_rollback = writer.can_rollback
        self.num_droppable = writer.num_droppable
        self._current = writer

    @property
    def cached(self) -> Sequence[int]:
        return self._current.cached

    def forward(self, tokens: Sequence[int], num_rows: int) -> Logits:
        reading = num_rows == 0 and (len(tokens) >= _LONG or self._current is self.reader)
        self._switch(self.reader if reading else self.writer)
        return self._current.forward(tokens, num_rows)

    def nearest(self, length: int) -> int:
        return self._current.nearest(length)

    def rollback(self, length: int) -> None:
        self._current.rollback(length)

    def snapshot(self) -> State:
        """Return the cache as bytes, for `restore` in any context of the same model."""
        return self._current.snapshot()

    def checkpoints(self) -> dict[int, State]:
        """Return the states that are kept because the text may return to their places, by these places."""
        return self._current.checkpoints()

    def restore(self, state: State, tokens: Sequence[int], checkpoints: Mapping[int, State] | None = None) -> None:
        """Replace the cache by one that held `tokens` when its snapshot was taken."""
        self.writer.restore(state, tokens, checkpoints)
        self._current = self.writer

    def close(self) -> None:
        self.reader.close()
        self.writer.close()

    def _switch(self, model: LlamaModel) -> None:
        if model is not self._current:
            model.copy_from(self._current)
            self._current = model
