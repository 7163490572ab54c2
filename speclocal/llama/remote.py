"""A context whose model is spread over workers: any call to it may end with the loss of one.

Knows which calls reach the workers; what they do is model.py's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from speclocal.decoding.types import Logits
from speclocal.errors import WorkerError
from speclocal.llama.checkpoints import State
from speclocal.llama.model import LlamaModel
from speclocal.llama.weights import Weights


class RemoteModel(LlamaModel):
    """A KV cache on workers. Passes and snapshots raise WorkerError when a worker goes away, and ever after."""

    def __init__(self, weights: Weights, context_size: int) -> None:
        weights.run(super().__init__, weights, context_size)

    def forward(self, tokens: Sequence[int], num_rows: int) -> Logits:
        return self.weights.run(super().forward, tokens, num_rows)

    def rollback(self, length: int) -> None:
        """Do as any context does; of a cache that is lost nothing is left to drop."""
        if not self.weights.lost:
            self.weights.run(super().rollback, length)

    def snapshot(self) -> State:
        return self.weights.run(super().snapshot)

    def restore(self, state: State, tokens: Sequence[int], checkpoints: Mapping[int, State] | None = None) -> None:
        self.weights.run(super().restore, state, tokens, checkpoints)

    def copy_from(self, other: LlamaModel) -> None:
        self.weights.run(super().copy_from, other)

    def close(self) -> None:
        """Free the context, unless it was lost."""
        if not self.weights.lost:
            with suppress(WorkerError):
                self.weights.run(super().close)


def open_context(weights: Weights, context_size: int) -> LlamaModel:
    """Return a new context over weights, wherever they are."""
    return RemoteModel(weights, context_size) if weights.workers else LlamaModel(weights, context_size)
