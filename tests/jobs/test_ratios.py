"""Ratios and their intervals, by numbers worked by hand, by scipy and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import t

from speclocal.jobs.ratios import DRIFT, DRIFT_SECONDS, Ratio, Standing, student_t, usual_drift


def test_students_t_is_that_of_the_tables() -> None:
    for freedom in (*range(1, 60), 100, 1000, 10**6):
        assert student_t(freedom) == pytest.approx(t.ppf(0.975, freedom), abs=0.0003)


def test_the_worked_example() -> None:
    """1, 2 and 4: the mean of the logarithms is ln 2, their deviation ln 2, and 4.3027 ln 2 / sqrt 3 is 1.7219."""
    ratio = Ratio.of_pairs([1.0, 2.0, 4.0])
    assert ratio.value == pytest.approx(2.0)
    assert ratio.reach == pytest.approx(4.3027 * math.log(2) / math.sqrt(3))
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


def test_the_interval_holds_a_second_measurement_made_later() -> None:
    """2,000 pairs of measurements of three pairs each, on a machine that drifts: 95 % agree, or a few more.

    The noise from pair to pair is the lesser of the two, and hides the drift from who does not allow for it: then every
    third pair of measurements disagrees.
    """
    rng = np.random.default_rng(2)

    def agreeing(allowed: float) -> int:
        return sum(measured(allowed).over(measured(allowed)).standing is Standing.WITHIN_NOISE for _ in range(2000))

    def measured(allowed: float) -> Ratio:
        return Ratio.of_pairs((1.3 * np.exp(rng.normal(0, DRIFT) + rng.normal(0, DRIFT / 3, 3))).tolist(), allowed)

    assert 0.94 < agreeing(DRIFT) / 2000 < 0.99
    assert agreeing(0.0) / 2000 < 0.7


def test_the_drift_joins_the_scatter() -> None:
    """Where all pairs are equal the interval is that of the drift alone: 1.96 standard errors to either side."""
    ratio = Ratio.of_pairs([1.5] * 3, drift=0.05)
    assert ratio.interval == pytest.approx((1.5 * math.exp(-0.09800), 1.5 * math.exp(0.09800)), rel=1e-5)
    scattered = Ratio.of_pairs([1.0, 2.0, 4.0], drift=0.5)
    assert scattered.reach == pytest.approx(math.hypot(1.7219, 1.95996 * 0.5), rel=1e-4)
    assert Ratio.of_pairs([1.5], drift=0.05).interval is None


def test_a_long_measurement_sees_the_drift_pass() -> None:
    """All of it in a moment; by the integral over e^-|s-t| in the time in which it fades; falling from there on."""
    assert usual_drift(0) == usual_drift(1e-9) == DRIFT
    assert usual_drift(0.1) == pytest.approx(DRIFT, rel=1e-3)
    assert usual_drift(DRIFT_SECONDS) == pytest.approx(DRIFT * math.sqrt(2 / math.e))
    assert usual_drift(10 * DRIFT_SECONDS) == pytest.approx(DRIFT * math.sqrt(0.18), rel=1e-4)
    assert usual_drift(1e6) < 0.02 * DRIFT


def test_the_drift_of_a_mean_is_that_of_a_simulated_machine() -> None:
    """2,000 machines whose drift fades steadily, each looked at for twice that time: the means scatter as computed."""
    rng = np.random.default_rng(3)
    steps, times = 200, 2.0
    kept = math.exp(-times / steps)
    drift = rng.normal(0, DRIFT, 2000)
    total = np.zeros(2000)
    for _ in range(steps):
        total += drift
        drift = kept * drift + rng.normal(0, DRIFT * math.sqrt(1 - kept**2), 2000)
    assert np.std(total / steps) == pytest.approx(usual_drift(times * DRIFT_SECONDS), rel=0.06)


def test_two_measurements_differ_beyond_both_intervals_together() -> None:
    """Reaches of 0.3 and 0.4 make 0.5; with one that was measured once nothing is known."""
    change = Ratio(1.2, 0.3, 3).over(Ratio(1.0, 0.4, 2))
    assert change == Ratio(pytest.approx(1.2), pytest.approx(0.5), 2)
    assert change.standing is Standing.WITHIN_NOISE
    assert Ratio(2.0, 0.3, 3).over(Ratio(1.0, 0.4, 3)).standing is Standing.ABOVE
    assert Ratio(2.0, 0.3, 3).over(Ratio(1.0, None, 1)).standing is Standing.UNSURE
    assert Ratio(2.0, 0.0, 3).over(Ratio(1.0, 0.0, 3)).interval == pytest.approx((2.0, 2.0))
