"""How fast something grows just now.

Knows amounts and times, not what they are of.
"""

import time
from collections import deque

_SPAN = 10.0  # seconds that are looked back on
_SHORTEST = 0.5  # seconds below which nothing is said


class Speedometer:
    """Tell it how far something is; it tells the speed over the last seconds. What comes first is taken as given."""

    def __init__(self) -> None:
        self._reached: deque[tuple[float, float]] = deque()

    def reached(self, amount: float) -> None:
        """Take notice of how much there is now. An amount that goes back, as a new start does, begins anew."""
        now = time.monotonic()
        if self._reached and amount < self._reached[-1][1]:
            self._reached.clear()
        self._reached.append((now, amount))
        while now - self._reached[0][0] > _SPAN and len(self._reached) > 2:
            self._reached.popleft()

    @property
    def per_second(self) -> float | None:
        """The speed, None until there is something to tell."""
        if not self._reached:
            return None
        (begin, before), (end, after) = self._reached[0], self._reached[-1]
        return (after - before) / (end - begin) if end - begin >= _SHORTEST else None
