"""The calculator: figures of the textbook, curves in every form they are given in, and time saved."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

import pytest

from speclocal.decoding.costs import Calibration, Exactness
from speclocal.errors import UsageError
from speclocal.jobs.prediction import Saving, predict, read_curve

CURVE = "1:1,2:1.57,4:2.56"


def test_the_example_of_the_textbook() -> None:
    """alpha 0.7, gamma 4, c 0.1: 2.7731 tokens per round at a cost of 1.4 make 1.981, which no length beats."""
    found = predict(0.7, 4, 0.1)
    assert found.tokens_per_round == pytest.approx(2.7731)
    assert found.round_cost == pytest.approx(1.4)
    assert found.speedup == pytest.approx(1.981, abs=0.0005)
    assert (found.best_gamma, found.best_speedup) == (4, found.speedup)


def test_no_length_beats_the_best() -> None:
    """The best length is at least as fast as every other, and is taken where none is given."""
    best = predict(0.8, None, 0.05)
    assert best.gamma == best.best_gamma
    assert best.speedup == best.best_speedup == max(predict(0.8, gamma, 0.05).speedup for gamma in range(65))


def test_a_measured_curve_makes_rounds_dearer() -> None:
    """A pass over three tokens costs the mean of two and four, (1.57 + 2.56) / 2; so do rounds with drafts of two."""
    found = predict(0.7, 2, 0.1, read_curve(CURVE).verify_ratio)
    assert found.verify_ratio == pytest.approx(2.065)
    assert found.round_cost == pytest.approx(2.265)
    assert found.speedup == pytest.approx(2.19 / 2.265)
    assert (found.best_gamma, found.best_speedup) == (1, pytest.approx(1.7 / 1.67))
    assert predict(0.5, 2, 0.1, read_curve(CURVE).verify_ratio).best_gamma == 0


def test_perfect_drafts_that_lose_have_no_break_even() -> None:
    """Two tokens for the price of 2.1 are a loss, however well they are guessed."""
    assert predict(0.5, 1, 0, read_curve("2:2.1").verify_ratio).break_even is None


@pytest.mark.parametrize("width", [1, 2, 3, 4, 8, 40])
def test_a_curve_means_the_same_in_every_unit(width: int) -> None:
    """Only ratios count: relative costs, milliseconds, and without a pass over one token."""
    one = read_curve(CURVE).verify_ratio(width)
    assert read_curve(" 1: 20, 4 : 51.2, 2:31.4\n").verify_ratio(width) == pytest.approx(one)
    assert read_curve("2:1.57,4:2.56").verify_ratio(width) == pytest.approx(one)


def test_beyond_its_widest_pass_a_curve_grows_in_proportion() -> None:
    """Eight tokens cost two passes over four: nothing is promised that was not measured."""
    assert read_curve(CURVE).verify_ratio(8) == pytest.approx(2 * 2.56)


def test_a_calibration_is_a_curve_and_a_cost_ratio() -> None:
    """The first model of `calibrate --json` gives the curve, its draft model the cost ratio."""
    target, draft = (Calibration({1: one, 4: 2 * one}, one, (Exactness(4, (1,)),)) for one in (0.04, 0.01))
    printed = {"models": {"target": asdict(target), "draft": asdict(draft)}, "layouts": {}}
    curve = read_curve(json.dumps(printed))
    assert curve.verify_ratio(4) == pytest.approx(2)
    assert curve.cost_ratio == pytest.approx(0.25)
    del printed["models"]["draft"]
    assert read_curve(json.dumps(printed)).cost_ratio is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "1", "1:", "a:1", "1:1,1:2", "2:0", "0:1", "-1:2", "2:nan", "2:inf", "2.5:1", "{}", "[]"),
        *('{"models": {}}', '{"models": {"a": 1}}'),
        *('{"models": {"a": {"seconds": {"2": 1}}}}', '{"models": {"a": {"seconds": {"1": 0}}}}'),
    ],
)
def test_what_is_no_curve_is_refused(text: str) -> None:
    """An error says what is wrong and how a curve is written."""
    with pytest.raises(UsageError) as caught:
        read_curve(text)
    assert "1:1,2:1.57,4:2.56" in caught.value.hint


@pytest.mark.parametrize(("alpha", "cost_ratio"), [(math.nan, 0.1), (0.5, math.nan), (0.5, math.inf)])
def test_what_is_no_number_is_refused(alpha: float, cost_ratio: float) -> None:
    with pytest.raises(UsageError):
        predict(alpha, 4, cost_ratio)


def test_a_day_of_many_tokens() -> None:
    """750,000,000 tokens at 20 ms saved on each are 4,167 hours."""
    assert Saving(750_000_000, 20).hours_per_day == pytest.approx(4167, abs=0.5)
