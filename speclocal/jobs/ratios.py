"""How sure a measured ratio is: paired runs, their geometric mean, and an interval on it.

Knows numbers, not what was measured.

Runs that were made close together share what the machine did meanwhile, so ratios are taken pair by pair and averaged
as logarithms: 2x and 0.5x cancel. The interval is Student's t on those logarithms, at 95 %. It assumes that the
logarithms of the ratios scatter like a normal distribution, which a few pairs cannot show to be wrong; with two pairs
it is as wide as it has to be (12.7 standard errors), and with one there is none.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

_T = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622)
"""The 97.5 % points of Student's t with 1, 2, ... 9 degrees of freedom."""
_Z = 1.959964
"""That of the normal distribution."""


class Standing(Enum):
    """What a ratio says about 1."""

    ABOVE = "above"
    BELOW = "below"
    WITHIN_NOISE = "within noise"  # the interval holds 1
    UNSURE = "measured once"  # there is no interval


@dataclass(frozen=True)
class Ratio:
    """A measured ratio. error: the standard error of its logarithm, None where it was measured once."""

    value: float
    error: float | None
    freedom: int  # degrees of freedom of the error

    @classmethod
    def of_pairs(cls, ratios: Sequence[float]) -> Ratio:
        """Return the geometric mean of paired ratios.

        For 1.0, 2.0 and 4.0: 2.0, with a standard error of ln 2 / sqrt 3 and so from 0.357 to 11.2.
        """
        logs = [math.log(ratio) for ratio in ratios]
        error = statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else None
        return cls(math.exp(statistics.fmean(logs)), error, len(logs) - 1)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval."""
        if self.error is None:
            return None
        reach = student_t(self.freedom) * self.error
        return self.value * math.exp(-min(reach, 700)), self.value * math.exp(min(reach, 700))

    @property
    def standing(self) -> Standing:
        if self.interval is None:
            return Standing.UNSURE
        low, high = self.interval
        return Standing.ABOVE if low > 1 else Standing.BELOW if high < 1 else Standing.WITHIN_NOISE

    def over(self, other: Ratio) -> Ratio:
        """Return this ratio relative to one measured independently (Welch 1947, doi:10.1093/biomet/34.1-2.28)."""
        value = self.value / other.value
        if self.error is None or other.error is None:
            return Ratio(value, None, 0)
        own, others = self.error**2, other.error**2
        spread = own**2 / self.freedom + others**2 / other.freedom
        freedom = (own + others) ** 2 / spread if spread else self.freedom + other.freedom
        return Ratio(value, math.sqrt(own + others), max(1, math.floor(freedom)))


def student_t(freedom: int) -> float:
    """Return the 97.5 % point of Student's t: a table, and from 10 degrees on Fisher's expansion, within 0.0003."""
    if freedom <= len(_T):
        return _T[freedom - 1]
    z = _Z
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )
