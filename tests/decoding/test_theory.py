"""The figures of the textbook, recomputed."""

from itertools import product

import numpy as np
import pytest

from speclocal.decoding.theory import (
    acceptance_rate,
    best_length,
    break_even,
    expected_tokens,
    flat,
    round_cost,
    speedup,
    total_variation,
)
from speclocal.decoding.types import Distribution


@pytest.mark.parametrize(
    ("alpha", "gamma", "tokens"),
    [(0.7, 4, 2.7731), (0.75, 4, 3.05), (0.2, 6, 1.2499), (0, 8, 1), (1, 8, 9), (0.5, 0, 1)],
)
def test_expected_tokens(alpha: float, gamma: int, tokens: float) -> None:
    """One round emits 1 + alpha + ... + alpha^gamma tokens."""
    assert expected_tokens(alpha, gamma) == pytest.approx(tokens, abs=0.002)
    if alpha < 1:
        assert expected_tokens(alpha, gamma) == pytest.approx((1 - alpha ** (gamma + 1)) / (1 - alpha))


@pytest.mark.parametrize(
    ("alpha", "gamma", "c", "expected"),
    [(0.7, 4, 0.1, 1.981), (0.75, 4, 0.15, 1.91), (0.9, 0, 0.5, 1), (1, 4, 0, 5)],
)
def test_speedup(alpha: float, gamma: int, c: float, expected: float) -> None:
    """Tokens of a round over its cost; drafting nothing is exactly as fast as plain decoding."""
    assert speedup(alpha, gamma, c) == pytest.approx(expected, abs=0.005)


def test_costs_of_wider_passes_count() -> None:
    """With a verify ratio the round costs gamma * c + v(gamma + 1), which can turn a gain into a loss."""
    assert round_cost(4, 0.1) == pytest.approx(1.4)
    assert round_cost(4, 0.1, lambda n: 1 + n / 10) == pytest.approx(1.9)
    assert speedup(0.7, 4, 0.1, lambda n: n / 1) < 1 < speedup(0.7, 4, 0.1, flat)


@pytest.mark.parametrize(
    ("alpha", "c", "length"),
    [(0.75, 0.15, 4), (0.2, 0.3, 0), (0.0, 0.0, 0), (1.0, 0.1, 64), (0.5, 1.0, 0), (0.5, 0.0, 64)],
)
def test_best_length(alpha: float, c: float, length: int) -> None:
    """By hand: 4 for alpha .75 and c .15; 64, the longest, where drafts are free; 0 where drafting loses."""
    assert best_length(alpha, c) == length


def test_best_length_is_the_best() -> None:
    """No other length is faster, no longer one as fast, and it pays or is 0."""
    for alpha, c, steep in product((0.1, 0.5, 0.8, 0.95), (0, 0.05, 0.3), (0, 0.1, 0.9)):

        def verify_ratio(n: int, steep: float = steep) -> float:
            return 1 + steep * (n - 1)

        best = best_length(alpha, c, verify_ratio, longest=20)
        gains = [speedup(alpha, gamma, c, verify_ratio) for gamma in range(21)]
        assert gains[best] == max(gains)
        assert best == 0 or gains[best] > max(1, *gains[best + 1 :], 1)


@pytest.mark.parametrize(("gamma", "c"), [(1, 0.1), (4, 0.1), (4, 0.5), (8, 0.9)])
def test_break_even_is_where_drafting_starts_to_pay(gamma: int, c: float) -> None:
    """At the break-even rate the speedup is 1; above it more, below it less."""
    alpha = break_even(gamma, c)
    assert alpha is not None
    assert speedup(alpha, gamma, c) == pytest.approx(1)
    assert speedup(alpha - 0.01, gamma, c) < 1 < speedup(alpha + 0.01, gamma, c)


def test_break_even_does_not_always_exist() -> None:
    """Where even perfect drafts lose there is no break-even; drafts that cost nothing pay from the start."""
    assert break_even(4, 1.5) is None
    assert break_even(4, 0) == pytest.approx(0)


@pytest.mark.parametrize("seed", range(30))
def test_acceptance_rate_is_one_minus_total_variation(seed: int) -> None:
    """sum(min(p, q)) = 1 - TV(p, q), also for different supports."""
    rng = np.random.default_rng(seed)
    p, q = (
        Distribution(np.sort(rng.choice(9, size, replace=False)), rng.dirichlet(np.ones(size)))
        for size in rng.integers(1, 10, size=2)
    )
    assert acceptance_rate(p, q) == pytest.approx(1 - total_variation(p, q), abs=1e-12)
    assert acceptance_rate(p, q) == pytest.approx(acceptance_rate(q, p), abs=1e-12)


def test_acceptance_rate_by_hand() -> None:
    """p = (.3, .5, .2) and q = (.6, .3, .1) share .3 + .3 + .1."""
    p = Distribution(np.arange(3), np.array([0.3, 0.5, 0.2]))
    q = Distribution(np.arange(3), np.array([0.6, 0.3, 0.1]))
    assert acceptance_rate(p, q) == pytest.approx(0.7)
    assert acceptance_rate(p, p) == pytest.approx(1)
    assert acceptance_rate(p, Distribution.one_hot(8)) == 0
