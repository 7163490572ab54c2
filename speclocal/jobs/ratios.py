"""How sure a measured ratio is: paired runs, their geometric mean, and an interval on it.

Knows numbers, not what was measured.

Runs that were made close together share what the machine did meanwhile, so ratios are taken pair by pair and averaged
as logarithms: 2x and 0.5x cancel. Whoever measures again finds another ratio, and two things stand between the two
results:

- what differs from pair to pair: the scatter of the logarithms, which is assumed to be normal;
- what differs from one minute to another, and is the same for pairs made in the same: other programs come and go, a
  processor warms up, and plain decoding, which waits for memory, feels it more than wide passes do. The pairs of half a
  minute do not show it, so a usual drift stands in for it, the less the longer was measured.

Each has a 95 % interval, the first by Student's t; the root of the sum of their squares is that of both, never narrower
than either (Howe 1974, Journal of the American Statistical Association 69, 789-794). With two pairs that scatter it is
as wide as it has to be (12.7 standard errors), and with one there is none.
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
DRIFT = 0.05
"""By how much the logarithm of a speedup drifts on a machine in use (its standard deviation): 0.03 to 0.05 by
benchmarks/drift.py, on a shared machine."""
DRIFT_SECONDS = 60.0
"""How long such a drift lasts: after that much time a good third of it is left."""


class Standing(Enum):
    """What a ratio says about 1."""

    ABOVE = "above"
    BELOW = "below"
    WITHIN_NOISE = "within noise"  # the interval holds 1
    UNSURE = "measured once"  # there is no interval


@dataclass(frozen=True)
class Ratio:
    """A measured ratio.

    reach: of the 95 % interval of its logarithm, to either side; None where it was measured once.
    """

    value: float
    reach: float | None
    num_pairs: int

    @classmethod
    def of_pairs(cls, ratios: Sequence[float], drift: float = 0.0) -> Ratio:
        """Return the geometric mean of paired ratios.

        drift: the standard error of its logarithm that all pairs have in common. For 1.0, 2.0 and 4.0 without drift:
        2.0, with a standard error of ln 2 / sqrt 3 and so from 0.357 to 11.2.
        """
        logs = [math.log(ratio) for ratio in ratios]
        reach = None
        if len(logs) > 1:
            scatter = student_t(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
            reach = math.hypot(scatter, _Z * drift)
        return cls(math.exp(statistics.fmean(logs)), reach, len(logs))

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval."""
        if self.reach is None:
            return None
        reach = min(self.reach, 700)  # the largest whose exponential is finite, for two pairs far apart
        return self.value * math.exp(-reach), self.value * math.exp(reach)

    @property
    def is_narrow(self) -> bool:
        """Whether the interval says something: it does not reach further than to ten times, or a tenth."""
        return self.reach is not None and self.reach < math.log(10)

    @property
    def is_decisive(self) -> bool:
        """Whether the interval is narrow enough to call a ratio within it noise: no further than to 1.5 times."""
        return self.reach is not None and self.reach < math.log(1.5)

    @property
    def standing(self) -> Standing:
        if self.interval is None:
            return Standing.UNSURE
        low, high = self.interval
        return Standing.ABOVE if low > 1 else Standing.BELOW if high < 1 else Standing.WITHIN_NOISE

    def over(self, other: Ratio) -> Ratio:
        """Return this ratio relative to one measured at another time."""
        reach = None if self.reach is None or other.reach is None else math.hypot(self.reach, other.reach)
        return Ratio(self.value / other.value, reach, min(self.num_pairs, other.num_pairs))


def usual_drift(seconds: float) -> float:
    """Return how far the mean over a measurement is off by the drift of the machine: a standard error, of a logarithm.

    seconds: that the measurement took. The drift is taken to be forgotten at a steady rate (an Ornstein-Uhlenbeck
    process): all of DRIFT is left in a short measurement, 0.86 of it in one of DRIFT_SECONDS, 0.42 in ten times that.
    """
    times = seconds / DRIFT_SECONDS
    if times < 1e-3:
        return DRIFT  # where the difference below is lost to rounding
    return DRIFT * math.sqrt(2 * (times - 1 + math.exp(-times))) / times


def student_t(degrees_of_freedom: int) -> float:
    """Return the 97.5 % point of Student's t: a table, and from 10 degrees on Fisher's expansion, within 0.0003."""
    if degrees_of_freedom <= len(_T):
        return _T[degrees_of_freedom - 1]
    z = _Z
    return (
        z
        + (z**3 + z) / (4 * degrees_of_freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees_of_freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * degrees_of_freedom**3)
    )
