"""Ratios and their intervals, by numbers worked by hand, by scipy and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import t

from speclocal.jobs.ratios import Ratio, Standing, student_t


def test_students_t_is_that_of_the_tables() -> None:
    for freedom in (*range(1, 60), 100, 1000, 10**6):
        assert student_t(freedom) == pytest.approx(t.ppf(0.975, freedom), abs=0.0003)


def test_the_worked_example() -> None:
    """1, 2 and 4: the mean of the logarithms is ln 2, their deviation ln 2, and 4.3027 ln 2 / sqrt 3 is 1.7219."""
    ratio = Ratio.of_pairs([1.0, 2.0, 4.0])
    assert ratio.value == pytest.approx(2.0)
    assert ratio.error == pytest.approx(math.log(2) / math.sqrt(3))
    assert ratio.interval == pytest.approx((2 / math.exp(1.7219), 2 * math.exp(1.7219)), rel=1e-4)
    assert ratio.standing is Standing.WITHIN_NOISE


def test_twice_as_fast_and_twice_as_slow_cancel() -> None:
    assert Ratio.of_pairs([2.0, 0.5]).value == pytest.approx(1.0)


def test_one_pair_has_no_interval_and_is_never_sure() -> None:
    ratio = Ratio.of_pairs([17.0])
    assert (ratio.value, ratio.interval, ratio.standing) == (pytest.approx(17.0), None, Standing.UNSURE)


def test_two_pairs_are_hardly_ever_sure() -> None:
    """1.5 and 1.6 lie 13 standard errors above 1, 1.5 and 1.7 lie 7.5: two pairs need 12.7."""
    assert Ratio.of_pairs([1.5, 1.6]).standing is Standing.ABOVE
    assert Ratio.of_pairs([1.5, 1.7]).standing is Standing.WITHIN_NOISE
    low, high = Ratio.of_pairs([1e-300, 1e300]).interval or (1, 1)
    assert 0 <= low < 1e-300 < 1e300 < high


def test_a_ratio_and_its_inverse_stand_on_opposite_sides() -> None:
    above, below = Ratio.of_pairs([1.5, 1.55, 1.52]), Ratio.of_pairs([1 / 1.5, 1 / 1.55, 1 / 1.52])
    assert (above.standing, below.standing) == (Standing.ABOVE, Standing.BELOW)
    low, high = above.interval or (0, 0)
    assert below.interval == pytest.approx((1 / high, 1 / low))


def test_equal_pairs_have_an_interval_without_width() -> None:
    assert Ratio.of_pairs([1.5] * 3).interval == pytest.approx((1.5, 1.5))
    assert Ratio.of_pairs([1.0] * 3).standing is Standing.WITHIN_NOISE


def test_the_interval_holds_the_truth_19_times_in_20() -> None:
    """4,000 comparisons of three pairs with a true ratio of 1.3: 95 % of the intervals hold it.

    The number that do has a standard deviation of 13.8 around 3,800; more than 60 away happens once in 70,000 seeds.
    """
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(4000):
        low, high = Ratio.of_pairs((1.3 * np.exp(rng.normal(0, 0.1, 3))).tolist()).interval or (0, 0)
        held += low <= 1.3 <= high
    assert abs(held - 3800) < 60


def test_two_measurements_are_compared_by_welch() -> None:
    """With equal errors of 0.1 on 2 degrees each: 4 degrees together, an error of 0.1414, and 2.7764 of them."""
    change = Ratio(1.2, 0.1, 2).over(Ratio(1.0, 0.1, 2))
    assert change == Ratio(pytest.approx(1.2), pytest.approx(0.1 * math.sqrt(2)), 4)
    assert change.standing is Standing.WITHIN_NOISE
    assert Ratio(2.0, 0.1, 2).over(Ratio(1.0, 0.1, 2)).standing is Standing.ABOVE
    assert Ratio(2.0, 0.1, 2).over(Ratio(1.0, None, 0)).standing is Standing.UNSURE
    assert Ratio(2.0, 0.0, 2).over(Ratio(1.0, 0.0, 2)).interval == pytest.approx((2.0, 2.0))
