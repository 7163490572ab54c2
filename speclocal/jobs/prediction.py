"""What drafts are worth by the formulas: the calculator.

Knows numbers a person gives or measured; needs no model. Letters as in decoding/theory.py.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from speclocal.decoding.costs import WIDEST, Calibration, Exactness, PassCosts
from speclocal.decoding.theory import (
    VerifyRatio,
    best_length,
    break_even,
    expected_tokens,
    flat,
    round_cost,
    speedup,
)
from speclocal.errors import UsageError
from speclocal.jobs.modes import MAX_DRAFT_TOKENS

_COSTLIEST = 1_000_000
_CURVE = re.compile(r"[\d.,:\s]+")
_HOW = (
    "write it as width:cost pairs, for example 1:1,2:1.57,4:2.56, or name a file made by "
    "`speclocal calibrate --json > curve.json`"
)


@dataclass(frozen=True)
class Prediction:
    """What drafts of one length are worth, and which length would be best.

    Costs are in target passes over one token. break_even: None where even perfect drafts lose.
    """

    alpha: float
    gamma: int
    cost_ratio: float
    verify_ratio: float  # of a pass over gamma + 1 tokens
    tokens_per_round: float
    round_cost: float
    speedup: float
    best_gamma: int
    best_speedup: float
    break_even: float | None


def predict(alpha: float, gamma: int | None, cost_ratio: float, verify_ratio: VerifyRatio = flat) -> Prediction:
    """Return what drafts of `gamma` tokens are worth, None for those of the best length.

    For alpha 0.7, gamma 4 and a cost ratio of 0.1: 2.7731 tokens per round at a cost of 1.4, so 1.981x.
    """
    if not 0 <= alpha <= 1:
        raise UsageError(f"the acceptance rate is {alpha}", "give a number from 0 to 1")
    check_cost_ratio(cost_ratio)
    best = best_length(alpha, cost_ratio, verify_ratio, MAX_DRAFT_TOKENS)
    length = best if gamma is None else gamma
    return Prediction(
        alpha=alpha,
        gamma=length,
        cost_ratio=cost_ratio,
        verify_ratio=verify_ratio(length + 1),
        tokens_per_round=expected_tokens(alpha, length),
        round_cost=round_cost(length, cost_ratio, verify_ratio),
        speedup=speedup(alpha, length, cost_ratio, verify_ratio),
        best_gamma=best,
        best_speedup=speedup(alpha, best, cost_ratio, verify_ratio),
        break_even=break_even(length, cost_ratio, verify_ratio),
    )


def check_cost_ratio(cost_ratio: float) -> None:
    """Raise UsageError for what a step of a draft model cannot cost, in target passes."""
    if not 0 <= cost_ratio <= _COSTLIEST:
        raise UsageError(f"the cost ratio is {cost_ratio}", f"give a number from 0 to {_COSTLIEST:,}")


@dataclass(frozen=True)
class Curve:
    """The verify ratios by width; cost_ratio: of a draft model that was measured along with it."""

    ratios: Mapping[int, float]
    cost_ratio: float | None = None

    def verify_ratio(self, width: int) -> float:
        """Return the cost of a pass over `width` tokens: interpolated, and in proportion beyond the widest."""
        return self._costs.seconds(width)

    @cached_property
    def _costs(self) -> PassCosts:
        widest = max(self.ratios)
        return PassCosts(Calibration(self.ratios, self.ratios[widest] / widest, (Exactness(0, (1,)),)))


def read_curve(text: str) -> Curve:
    """Return a pass-cost curve that was written as width:cost pairs, or printed by `speclocal calibrate --json`.

    Costs may be in any unit; without a width of 1 they are relative to it. Raises UsageError.
    """
    return curve_of_pairs(text) if looks_like_pairs(text) else _curve_of_calibration(text)


def looks_like_pairs(text: str) -> bool:
    """Return whether a text is a curve written as width:cost pairs, rightly or not."""
    return bool(_CURVE.fullmatch(text))


def curve_of_pairs(text: str) -> Curve:
    """Return the curve of width:cost pairs."""
    costs: dict[int, float] = {}
    for pair in text.split(","):
        width, colon, cost = pair.partition(":")
        try:
            if not colon or int(width) in costs:
                raise ValueError
            costs[int(width)] = float(cost)
        except ValueError:
            raise UsageError(f"`{pair.strip()}` is no width:cost pair, or one too many", _HOW) from None
    return Curve(_ratios({1: 1.0, **costs}))


def _curve_of_calibration(text: str) -> Curve:
    """Return the curve of the first model that was calibrated, the target; a second one is its draft model."""
    try:
        models: list[Any] = list(json.loads(text)["models"].values())
        curves = [{int(width): float(seconds) for width, seconds in model["seconds"].items()} for model in models]
        ratios = [_ratios(curve) for curve in curves]
        return Curve(ratios[0], curves[1][1] / curves[0][1] if len(curves) > 1 else None)
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        raise UsageError("this is not what `speclocal calibrate --json` prints", _HOW) from None


def _ratios(costs: Mapping[int, float]) -> dict[int, float]:
    one = costs[1]
    for width, cost in costs.items():
        if not 1 <= width <= WIDEST:
            raise UsageError(f"a curve has passes over 1 to {WIDEST} tokens", _HOW)
        if not 0 < cost < math.inf or not 0 < one < math.inf or not 1 / _COSTLIEST < cost / one < _COSTLIEST:
            raise UsageError(f"a pass over {width} tokens cannot cost {cost}", _HOW)
    return {width: cost / one for width, cost in costs.items()}


@dataclass(frozen=True)
class Saving:
    """The time that many tokens save together."""

    tokens_per_day: float
    ms_saved_per_token: float

    @property
    def hours_per_day(self) -> float:
        """For 750,000,000 tokens a day and 20 ms saved on each: 4,167."""
        return self.tokens_per_day * self.ms_saved_per_token / 1000 / 3600
