"""The formulas of speculative decoding: what acceptance, draft length and costs promise.

Knows numbers, not models. alpha is the acceptance rate of one drafted token, gamma the draft length, c the cost ratio:
seconds of one draft step / seconds of one target pass over one token. verify_ratio(n) is the cost of a target pass
over n tokens relative to one; the textbook takes it to be 1. (Leviathan et al. 2023, arXiv:2211.17192)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from speclocal.decoding.types import Distribution

VerifyRatio = Callable[[int], float]


def flat(_num_tokens: int) -> float:
    """The textbook's verify ratio: a pass costs the same however many tokens it checks."""
    return 1.0


def acceptance_rate(p: Distribution, q: Distribution) -> float:
    """Return sum(min(p, q)), the chance that the ratio rule keeps a token drawn from q."""
    return float(np.minimum(p.probs_of(q.ids), q.probs).sum())


def total_variation(p: Distribution, q: Distribution) -> float:
    """Return half the summed difference of two distributions; 1 - it is the acceptance rate."""
    ids = np.union1d(p.ids, q.ids)
    return float(0.5 * np.abs(p.probs_of(ids) - q.probs_of(ids)).sum())


def expected_tokens(alpha: float, gamma: int) -> float:
    """Return the tokens one round emits: 1 + alpha + alpha^2 + ... + alpha^gamma.

    For alpha 0.7 and gamma 4: 2.7731.
    """
    return float(sum(alpha**i for i in range(gamma + 1)))


def round_cost(gamma: int, c: float, verify_ratio: VerifyRatio = flat) -> float:
    """Return what a round costs, in target passes over one token."""
    return gamma * c + verify_ratio(gamma + 1)


def speedup(alpha: float, gamma: int, c: float, verify_ratio: VerifyRatio = flat) -> float:
    """Return tokens per unit of time relative to plain decoding. For alpha 0.7, gamma 4, c 0.1: 1.981."""
    return expected_tokens(alpha, gamma) / round_cost(gamma, c, verify_ratio)


def best_length(alpha: float, c: float, verify_ratio: VerifyRatio = flat, longest: int = 64) -> int:
    """Return the draft length with the highest speedup; 0 when drafting does not pay.

    Of equals it is the longest: where drafts cost nothing, longer ones gain more and more, though less than is counted.
    """
    best = max(range(longest + 1), key=lambda gamma: (speedup(alpha, gamma, c, verify_ratio), gamma))
    return best if speedup(alpha, best, c, verify_ratio) > 1 else 0


def break_even(gamma: int, c: float, verify_ratio: VerifyRatio = flat) -> float | None:
    """Return the acceptance rate at which drafts of `gamma` tokens run as fast as plain decoding; None if none does."""
    if speedup(1.0, gamma, c, verify_ratio) < 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(60):  # the speedup grows with alpha: halve the interval
        middle = (low + high) / 2
        low, high = (low, middle) if speedup(middle, gamma, c, verify_ratio) >= 1 else (middle, high)
    return high
