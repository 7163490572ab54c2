"""The chi-square test: the textbook's tail, and verdicts on samples that fit and that do not."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2, chisquare

from speclocal.jobs.goodness import chi_square_tail, fit

CHANCES = {"a": 0.5, "b": 0.3, "c": 0.15, "d": 0.04, "e": 0.01}


def drawn(seed: int, chances: dict[str, float], num_samples: int = 1000) -> Counter[str]:
    cells = np.random.default_rng(seed).choice(list(chances), num_samples, p=list(chances.values()))
    return Counter(cells.tolist())


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 10, 37, 64])
@pytest.mark.parametrize("statistic", [0.0, 1e-9, 0.3, 1, 4.7, 20, 90, 700])
def test_the_tail_is_that_of_scipy(freedom: int, statistic: float) -> None:
    """For odd and even degrees of freedom, from certain to impossible."""
    assert chi_square_tail(statistic, freedom) == pytest.approx(chi2.sf(statistic, freedom), rel=1e-12)


def test_a_statistic_far_out_has_no_chance() -> None:
    """Underflow is a tail of zero, not an error."""
    assert chi_square_tail(1e6, 5) == 0


def test_cells_are_pooled_and_tested_as_scipy_does() -> None:
    """The rarest cell, with 10 expected samples, is merged with the next."""
    observed = drawn(1, CHANCES)
    found = fit(observed, CHANCES)
    counts = [observed["e"] + observed["d"], observed["c"], observed["b"], observed["a"]]
    assert found.num_cells == 4
    assert found.p_value == pytest.approx(chisquare(counts, [50, 150, 300, 500]).pvalue)


def test_p_values_of_right_samples_are_uniform() -> None:
    """Of 400 tests of right samples about a tenth fall below 0.1: between 5 and 16 %, false alarm once in 1,000."""
    low = sum(fit(drawn(seed, CHANCES), CHANCES).p_value < 0.1 for seed in range(400))
    assert 20 <= low <= 64


def test_samples_of_something_else_do_not_fit() -> None:
    """Seven hundredths of the mass in the wrong place shows in 4,000 samples, also as the largest gap."""
    found = fit(drawn(2, {**CHANCES, "a": 0.43, "b": 0.37}, 4000), CHANCES)
    assert found.p_value < 1e-9
    assert found.largest_gap == pytest.approx(0.07, abs=0.02)
    assert found.gap_deviation < 0.01


def test_an_impossible_outcome_does_not_fit() -> None:
    """One sample outside of the distribution is enough."""
    observed = drawn(3, CHANCES)
    assert fit(observed, CHANCES).p_value > 0.001
    observed["f"] += 1
    assert fit(observed, CHANCES).p_value == 0


def test_certainty_fits_itself() -> None:
    """A distribution of one outcome leaves nothing to test but that it occurs."""
    assert fit(Counter({"a": 50}), {"a": 1.0}).p_value == 1
