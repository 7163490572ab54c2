"""Processed prompts on disk: what a model has read once it need not read again.

Knows token ids and the caches they lead to, not texts. The longest beginning that a kept prompt shares with a new one
is used, so a question behind a document finds the document read. Not for models that cannot roll back, nor for those
with a sliding window, whose state is the window alone.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from speclocal.decoding.loop import common_prefix
from speclocal.errors import ModelError
from speclocal.jobs.keys import digest, origin_in_any_layout
from speclocal.jobs.store import PROMPTS
from speclocal.llama.grants import free_memory
from speclocal.llama.layouts import TwoLayouts
from speclocal.llama.model import LlamaModel, kv_bytes
from speclocal.llama.weights import Weights

_WORTH_KEEPING = 256
"""Tokens from which on reading them again takes longer than the disk does."""
_DAMAGED = (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile)


@dataclass(frozen=True)
class Kept:
    """A processed prompt on disk."""

    path: Path
    num_tokens: int
    num_shared: int  # how many leading tokens it shares with the prompt that is wanted


def find_kept(weights: Weights, tokens: Sequence[int]) -> Kept | None:
    """Return the kept prompt that shares the longest beginning with `tokens`, None where none is worth it."""
    return _longest(_family(weights), tokens)


class KeptPrompts:
    """The kept prompts of one model, and the context they are brought into."""

    def __init__(self, model: LlamaModel | TwoLayouts) -> None:
        self._model = model
        self._family = _family(model.weights)
        self._possible = model.can_rollback and not model.weights.has_sliding_window

    def recall(self, tokens: Sequence[int]) -> None:
        """Put the kept prompt that shares most with `tokens` into the cache, if that is worth it."""
        found = _longest(self._family, tokens)
        if found is None or found.num_shared < common_prefix(self._model.cached, tokens) + _WORTH_KEEPING:
            return
        try:
            with np.load(found.path) as file:
                self._model.restore(file["state"], file["tokens"].tolist())
        except (*_DAMAGED, ModelError):  # llama.cpp may refuse it too
            return
        PROMPTS.use(found.path)

    def keep(self, num_read: int) -> None:
        """Keep what the cache holds, if `num_read` of its tokens were read for it."""
        weights, tokens = self._model.weights, np.array(self._model.cached, dtype=np.int32)
        room = min(PROMPTS.limit_bytes, free_memory() // 2)
        if self._possible and num_read >= _WORTH_KEEPING and len(tokens) * kv_bytes(weights) < room:
            name = f"{self._family}-{digest(tokens.tolist())}.npz"
            PROMPTS.write(name, partial(np.savez, tokens=tokens, state=self._model.snapshot()))


def _family(weights: Weights) -> str:
    """Return what the names of a model's prompts begin with."""
    return digest(origin_in_any_layout(weights))


def _longest(family: str, tokens: Sequence[int]) -> Kept | None:
    found = (_compared(path, list(tokens)) for path in PROMPTS.folder.glob(f"{family}-*.npz"))
    worthy = (kept for kept in found if kept and kept.num_shared >= _WORTH_KEEPING)
    return max(worthy, key=lambda kept: kept.num_shared, default=None)


def _compared(path: Path, tokens: list[int]) -> Kept | None:
    """Return how much a file shares with `tokens`, None where it is damaged."""
    try:
        with np.load(path) as file:
            held = file["tokens"].tolist()
            return Kept(path, len(held), common_prefix(held, tokens))
    except _DAMAGED:
        return None
