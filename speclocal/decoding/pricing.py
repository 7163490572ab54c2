"""What a draft is worth here, in tokens: those it is expected to save, against the seconds it adds.

Knows measured costs and estimates of acceptance, all in expectation; who drafts is the planner's business.

Time has a price: at a rate of r tokens per second, a second spent costs r tokens. A draft is worth its expected
accepted tokens minus r times the seconds it adds to plain decoding; drafting nothing is worth 0. (Maximizing
tokens - r * seconds, with the r that is really reached, maximizes r itself: Dinkelbach 1967, doi:10.1287/mnsc.13.7.492)
Where the target cannot simply drop rejected tokens, a rejection costs going back and reading the accepted ones again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, repeat

from speclocal.decoding.costs import PassCosts
from speclocal.decoding.drafters.suffixes import Match
from speclocal.decoding.estimates import DecayedRatio, DraftAcceptance, LookupAcceptance
from speclocal.decoding.theory import speedup
from speclocal.decoding.types import Round

_NEGLIGIBLE = 0.02  # a chance of getting this far in a draft that is not worth looking at
_LONGEST_ALONE = 16  # tokens of a draft for which the draft model alone is judged


@dataclass(frozen=True, order=True)
class Option:
    """A draft of `size` tokens, and its worth in tokens."""

    worth: float = 0.0
    size: int = 0


def best_option(
    rates: Iterable[float],
    seconds: Callable[[int], float],
    price: float,
    sizes: Sequence[int],
    reached: float = 1.0,
    reread: Callable[[int], float] = lambda num_accepted: 0.0,
    num_droppable: int = 0,
) -> Option:
    """Return the most worthwhile of `sizes`, ascending draft lengths; the empty option if none is worth anything.

    rates: the acceptance rates of the first, second, ... token, given that those before it are accepted. seconds(size):
    what a draft of that size adds to the round. price: tokens a second is worth. reached: the chance that the first
    token matters at all. reread(n): the seconds it costs that the token after n accepted ones is rejected, unless it is
    one of the last `num_droppable`.
    """
    best, accepted = Option(), 0.0
    lost = [0.0]  # seconds expected to be lost by a rejection among the first 0, 1, 2, ... tokens
    for size, rate in zip(range(1, sizes[-1] + 1 if sizes else 1), rates, strict=False):
        lost.append(lost[-1] + reached * (1 - rate) * reread(size - 1))
        reached *= rate
        accepted += reached
        if size in sizes:
            added = seconds(size) + lost[max(0, size - num_droppable)]
            best = max(best, Option(accepted - price * added, size))
        if reached < _NEGLIGIBLE:
            break
    return best


class Pricing:
    """Costs of passes, estimates of acceptance, and the price of time; all three follow what really happens."""

    def __init__(self, costs: PassCosts, draft_costs: PassCosts, num_droppable: int) -> None:
        """num_droppable: how many tokens of a pass the target drops at no cost."""
        self.costs = costs
        self.draft_costs = draft_costs
        self.num_droppable = num_droppable
        self.lookup_acceptance = LookupAcceptance()
        self.draft_acceptance = DraftAcceptance()
        # tokens and seconds of late, to begin with those of 16 plain rounds
        self._reached = DecayedRatio(16.0, 16 * costs.seconds(1), memory=0.97)

    def observe(self, round_: Round) -> None:
        """Learn what a pass costs and at what rate tokens are written; acceptance is learned where it is estimated."""
        self.costs.observe(round_.num_drafted + 1, round_.verify_seconds)
        self._reached.add(len(round_.verdicts), round_.seconds)

    @property
    def price(self) -> float:
        """Tokens a second is worth: the rate reached of late, and never less than that of plain decoding."""
        return max(self._reached.value, 1 / self.costs.seconds(1))

    def plain_seconds(self, num_tokens: int) -> float:
        """Return the seconds that plain decoding would take for `num_tokens`."""
        return num_tokens * self.costs.seconds(1)

    def added_seconds(self, size: int, already: int = 0) -> float:
        """Return what `size` tokens add to a pass that checks `already` drafted tokens."""
        return self.costs.seconds(already + size + 1) - self.costs.seconds(already + 1)

    def rejection_seconds(self, size: int, num_accepted: int) -> float:
        """Return what it costs that a draft of `size` tokens is rejected after its first `num_accepted`."""
        return self._reread_seconds(num_accepted) if size - num_accepted > self.num_droppable else 0.0

    def copying(self, match: Match, num_tokens: int, sizes: Sequence[int]) -> Option:
        """Return how far to copy what followed a match, where `num_tokens` could be copied."""
        rates = (self.lookup_acceptance.rate(match, index) for index in range(num_tokens))
        return self._best(rates, self.added_seconds, sizes)

    def copying_on(self, match: Match | None, reached: float, already: int, sizes: Sequence[int]) -> Option:
        """Return how far to copy after `already` tokens of the draft model that lead into `match`."""
        if match is None or match.disputed:
            return Option()
        return self._best(
            map(partial(self.lookup_acceptance.rate_led, match), count()),
            lambda size: self.added_seconds(size, already),
            [size - already for size in sizes if size > already],
            reached,
            already,
        )

    def leading_into(self, match: Match | None, sizes: Sequence[int]) -> Option:
        """Return the worth of one step of the draft model that, if it agrees with a match, leads into a copy."""
        if match is None:
            return Option()
        typical, agrees = self.draft_acceptance.typical, self.lookup_acceptance.rate(match, 0)
        led_into = replace(match, length=match.length + 1, num_followed=1, num_seen=1)
        copied = self.copying_on(led_into, typical, 1, sizes)
        lost_seconds = (1 - typical) * self.rejection_seconds(1 + copied.size, 0)
        step = self.price * (self.draft_costs.seconds(1) + self.added_seconds(1) + lost_seconds)
        return max(Option(), Option(typical - step + agrees * copied.worth, 1 + copied.size))

    def drafting_on(self, reached: float, already: int, sizes: Sequence[int]) -> Option:
        """Return how far the draft model should go on after `already` tokens, all right with the chance `reached`."""
        step = self.draft_costs.seconds(1)
        return self._best(
            repeat(self.draft_acceptance.typical),
            lambda size: size * step + self.added_seconds(size, already),
            [size - already for size in sizes if size > already],
            reached,
            already,
        )

    def draft_model_speedup(self) -> float:
        """Return how fast the draft model alone would run here, at its best length, relative to plain decoding."""
        one, rate = self.costs.seconds(1), self.draft_acceptance.typical

        def verify_ratio(width: int) -> float:
            lost = (rate**kept * (1 - rate) * self.rejection_seconds(width - 1, kept) for kept in range(width - 1))
            return (self.costs.seconds(width) + sum(lost)) / one

        cost_ratio = self.draft_costs.seconds(1) / one
        return max(speedup(rate, size, cost_ratio, verify_ratio) for size in range(1, _LONGEST_ALONE + 1))

    def _best(
        self,
        rates: Iterable[float],
        seconds: Callable[[int], float],
        sizes: Sequence[int],
        reached: float = 1.0,
        already: int = 0,
    ) -> Option:
        """Return the best option after `already` drafted tokens, what rejections would cost included."""
        return best_option(
            rates,
            seconds,
            self.price,
            sizes,
            reached,
            lambda num_accepted: self._reread_seconds(already + num_accepted),
            self.num_droppable,
        )

    def _reread_seconds(self, num_accepted: int) -> float:
        """Return the seconds of going back and reading again the token before a draft and what was accepted of it."""
        return self.costs.rollback_seconds + self.costs.seconds(num_accepted + 1)
