"""Logits to a distribution: one function for target and drafter, in one fixed order.

Knows one row of logits at a time, not where it came from.

Order: repeat penalty, temperature, top-k, top-p, min-p. Each filter sees what the one before it left.
Ties go to the lower token id. Temperature 0 is a one-hot distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from speclocal.decoding.types import Distribution, Floats, Ids, Logits, SamplingParams
from speclocal.errors import LogitsError

PENALTY_WINDOW = 64
"""How many of the last tokens the repeat penalty looks at (llama.cpp's default)."""


def distribution(logits: Logits, context: Sequence[int], params: SamplingParams) -> Distribution:
    """Return the distribution of the next token.

    logits: [V], left as they are. context: the tokens before; only the last PENALTY_WINDOW are read.
    Raises LogitsError when the largest logit is not finite (which any NaN makes it).
    """
    if params.repeat_penalty != 1:
        logits = _penalized(logits, context[-PENALTY_WINDOW:], params.repeat_penalty)
    best = int(logits.argmax())
    if not np.isfinite(logits[best]):
        raise LogitsError(
            f"the model returned {logits[best]} as the logit of token {best}",
            "the model file or its quantization may be damaged; try `--gpu-layers 0` or another file",
        )
    if params.temperature == 0:
        return Distribution.one_hot(best)

    ids, weights = _candidates(logits, float(logits[best]), params)
    kept = weights >= max(params.min_p, np.nextafter(0, 1))  # the best token weighs 1: always kept
    ids, weights = ids[kept], weights[kept]
    return Distribution(ids, weights / weights.sum())


def confidence(logits: Logits) -> float:
    """Return the probability of the likeliest token at temperature 1, before any filter."""
    return 1 / float(np.exp(logits - logits.max()).sum())


def _penalized(logits: Logits, context: Sequence[int], penalty: float) -> Logits:
    """Return a copy in which every token of `context` is less likely (Keskar et al. 2019, arXiv:1909.05858)."""
    seen = np.unique(np.asarray(context, dtype=np.int64))
    seen = seen[seen < logits.size]
    logits = logits.copy()
    logits[seen] = np.where(logits[seen] > 0, logits[seen] / penalty, logits[seen] * penalty)
    return logits


def _candidates(logits: Logits, best: float, params: SamplingParams) -> tuple[Ids, Floats]:
    """Return what temperature, top-k and top-p leave: token ids, ascending, and exp((logit - best) / temperature)."""

    def weigh(ids: Ids) -> Floats:
        with np.errstate(over="ignore"):  # a tiny temperature sends all but the best to -inf, as it should
            return np.exp((logits[ids].astype(np.float64) - best) / params.temperature)

    if params.top_k == 0 and params.top_p == 1:
        everything = _all_ids(logits.size)
        return everything, weigh(everything)
    if params.top_k:
        limit = size = min(params.top_k, logits.size)
        total = None
    else:  # look at few tokens first: they nearly always hold the mass, and sorting all of them is slow
        limit, size = logits.size, min(logits.size, 64)
        total = float(weigh(_all_ids(limit)).sum())
    while True:
        ids = _largest(logits, size)
        weights = weigh(ids)
        mass = weights.cumsum()
        wanted = params.top_p * (mass[-1] if total is None else total)
        if size == limit or mass[-1] >= wanted:
            break
        size = min(limit, size * 8)
    count = ids.size if params.top_p == 1 else 1 + int(mass[:-1].searchsorted(wanted))
    order = ids[:count].argsort()
    return ids[:count][order], weights[:count][order]


def _largest(logits: Logits, k: int) -> Ids:
    """Return the ids of the k largest logits, largest first.

    The maximum of a block is one of the logits, so k blocks with maxima at or above a floor hold k logits at or above
    it: the k-th largest block maximum bounds the k-th largest logit from below, and few logits need to be sorted.
    """
    num_columns = logits.size // 64
    if num_columns < k:
        candidates = _all_ids(logits.size)
    else:
        maxima = logits[: 64 * num_columns].reshape(64, num_columns).max(axis=0)
        floor = np.partition(maxima, num_columns - k)[num_columns - k]
        candidates = np.flatnonzero(logits >= floor)
    return candidates[np.argsort(-logits[candidates], kind="stable")[:k]]


@lru_cache(maxsize=4)
def _all_ids(num_tokens: int) -> Ids:
    ids = np.arange(num_tokens, dtype=np.int64)
    ids.flags.writeable = False
    return ids
