"""How well samples fit the distribution they should come from: Pearson's chi-square test.

Knows counts and chances, not what they are of.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

Cell = TypeVar("Cell", bound=Hashable)

_FEWEST = 20.0  # samples expected in a cell: with fewer the test's own distribution is a poor approximation


@dataclass(frozen=True)
class Fit:
    """The outcome of a test.

    p_value: how often samples of the right distribution look at least as bad. largest_gap: between the share of a cell
    and its chance, before cells are pooled; gap_deviation: the standard deviation of such a gap, in the same cell.
    """

    num_samples: int
    num_cells: int
    p_value: float
    largest_gap: float
    gap_deviation: float


def fit(observed: Counter[Cell], chances: Mapping[Cell, float]) -> Fit:
    """Test samples against the chances of their cells, which sum to 1. An impossible outcome has p-value 0."""
    num_samples = observed.total()
    gaps = {cell: abs(observed[cell] / num_samples - chances.get(cell, 0.0)) for cell in {**chances, **observed}}
    worst = max(gaps, key=lambda cell: gaps[cell])
    chance = chances.get(worst, 0.0)
    pooled = _pooled(observed, chances, num_samples)
    statistic = sum((count - expected) ** 2 / expected for count, expected in pooled)
    possible = all(chances.get(cell, 0.0) > 0 for cell in observed)
    return Fit(
        num_samples=num_samples,
        num_cells=len(pooled),
        p_value=chi_square_tail(statistic, len(pooled) - 1) if possible else 0.0,
        largest_gap=gaps[worst],
        gap_deviation=math.sqrt(chance * (1 - chance) / num_samples),
    )


def chi_square_tail(statistic: float, degrees_of_freedom: int) -> float:
    """Return the chance that a chi-square variable of so many degrees of freedom exceeds `statistic`.

    With h = statistic / 2 it is a finite sum of h^a e^-h / gamma(a + 1), over a = 0, 1, ... below half of them for even
    degrees, and over a = 1/2, 3/2, ... with erfc(sqrt(h)) in front for odd ones. (Abramowitz and Stegun 26.4.4, 26.4.5)
    """
    half = statistic / 2
    if degrees_of_freedom <= 0 or half <= 0:
        return 1.0
    odd = degrees_of_freedom % 2
    powers = (a + odd / 2 for a in range(degrees_of_freedom // 2))
    terms = (math.exp(a * math.log(half) - half - math.lgamma(a + 1)) for a in powers)
    return (math.erfc(math.sqrt(half)) if odd else 0.0) + sum(terms)


def _pooled(observed: Counter[Cell], chances: Mapping[Cell, float], num_samples: int) -> list[tuple[float, float]]:
    """Return counts and expectations of cells, the rarest merged until enough samples are expected in each."""
    pooled, count, expected = [], 0.0, 0.0
    for cell, chance in sorted(chances.items(), key=lambda item: item[1]):
        count += observed[cell]
        expected += chance * num_samples
        if expected >= _FEWEST:
            pooled.append((count, expected))
            count = expected = 0.0
    if expected and pooled:
        last_count, last_expected = pooled.pop()
        count, expected = count + last_count, expected + last_expected
    return [*pooled, (count, expected)] if expected else pooled
