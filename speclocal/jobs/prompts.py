"""Processed prompts on disk: what a model has read once it need not read again.

Knows token ids and the caches they lead to, not texts. The longest beginning that a kept prompt shares with a new one
is used, so a question after a document finds the document read. A recurrent state cannot be taken back to where two
prompts part: the last checkpoints before its end are kept with it. That of a sliding window, which has none, serves a
prompt that begins with all of the kept one.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from speclocal.decoding.loop import common_prefix
from speclocal.errors import ModelError
from speclocal.jobs.keys import digest, origin_in_any_layout
from speclocal.jobs.store import PROMPTS
from speclocal.llama.context import kv_bytes
from speclocal.llama.grants import free_memory
from speclocal.llama.layouts import TwoLayouts
from speclocal.llama.model import LlamaModel
from speclocal.llama.weights import Weights

_WORTH_KEEPING = 256
"""Tokens from which on reading them again takes longer than the disk does."""
_NUM_CHECKPOINTS = 2
"""Checkpoints to keep: one stands where the last 512 tokens begin, where a question may begin too."""
_CHECKPOINT = "checkpoint_"
_DAMAGED = (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile)


@dataclass(frozen=True)
class Kept:
    """A processed prompt on disk."""

    path: Path
    num_tokens: int
    num_shared: int  # how many leading tokens of the prompt that is wanted need not be read


def find_kept(weights: Weights, tokens: Sequence[int]) -> Kept | None:
    """Return the kept prompt that shares the longest beginning with `tokens`, None where none is worth it."""
    return _longest(weights, tokens)


class KeptPrompts:
    """The kept prompts of one model, and the context they are brought into."""

    def __init__(self, model: LlamaModel | TwoLayouts) -> None:
        self._model = model

    def recall(self, tokens: Sequence[int]) -> None:
        """Put the kept prompt that shares most with `tokens` into the cache, if that is worth it."""
        found = _longest(self._model.weights, tokens)
        if found is None or found.num_shared < self._num_held(tokens) + _WORTH_KEEPING:
            return
        try:
            with np.load(found.path) as file:
                checkpoints = {place: file[_checkpoint(place)] for place in _places(file)}
                self._model.restore(file["state"], file["tokens"].tolist(), checkpoints)
        except (*_DAMAGED, ModelError):  # llama.cpp may refuse it too
            return
        PROMPTS.use(found.path)

    def keep(self, num_read: int) -> None:
        """Keep what the cache holds, if `num_read` of its tokens were read for it."""
        weights, tokens = self._model.weights, np.array(self._model.cached, dtype=np.int32)
        room = min(PROMPTS.limit_bytes, free_memory() // 2)
        if num_read >= _WORTH_KEEPING and len(tokens) * kv_bytes(weights) < room:
            name = f"{_family(weights)}-{digest(tokens.tolist())}.npz"
            states = self._model.checkpoints()
            places = [place for place in states if place < len(tokens)][-_NUM_CHECKPOINTS:]
            arrays: dict[str, Any] = {_checkpoint(place): states[place] for place in places}
            PROMPTS.write(name, partial(np.savez, tokens=tokens, state=self._model.snapshot(), **arrays))

    def _num_held(self, tokens: Sequence[int]) -> int:
        return self._model.nearest(common_prefix(self._model.cached, tokens))


def _checkpoint(place: int) -> str:
    return f"{_CHECKPOINT}{place}"


def _places(file: Any) -> list[int]:
    """Return the places of the checkpoints in a file."""
    return [int(name.removeprefix(_CHECKPOINT)) for name in file.files if name.startswith(_CHECKPOINT)]


def _family(weights: Weights) -> str:
    """Return what the names of a model's prompts begin with."""
    return digest(origin_in_any_layout(weights))


def _longest(weights: Weights, tokens: Sequence[int]) -> Kept | None:
    found = (_compared(path, list(tokens), weights) for path in PROMPTS.folder.glob(f"{_family(weights)}-*.npz"))
    worthy = (kept for kept in found if kept and kept.num_shared >= _WORTH_KEEPING)
    return max(worthy, key=lambda kept: kept.num_shared, default=None)


def _compared(path: Path, tokens: list[int], weights: Weights) -> Kept | None:
    """Return how much of `tokens` a file spares reading, None where it is damaged."""
    try:
        with np.load(path) as file:
            held = file["tokens"].tolist()
            num_shared = common_prefix(held, tokens)
            if not weights.keeps_every_token and num_shared < len(held):
                num_shared = max((place for place in _places(file) if place <= num_shared), default=0)
            return Kept(path, len(held), num_shared)
    except _DAMAGED:
        return None
