"""Who drafts this round, and how many tokens: expected tokens against measured time.

Knows drafters, costs and odds, all in expectation; what really happened it learns from finished rounds.

Time has a price: at a rate of r tokens per second, a second spent costs r tokens. A draft is worth its expected
accepted tokens minus r times the seconds it adds to plain decoding; drafting nothing is worth 0. Every round takes the
plan that is worth most. Where the target cannot simply drop rejected tokens, a rejection costs going back and reading
the accepted ones again. (Maximizing tokens - r * seconds, with the r that is really reached, maximizes r itself:
Dinkelbach 1967, doi:10.1287/mnsc.13.7.492)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, repeat, takewhile

from speclocal.decoding.costs import NARROW, PassCosts
from speclocal.decoding.drafters import NoDrafter
from speclocal.decoding.drafters.lookup import LookupDrafter
from speclocal.decoding.drafters.model import ModelDrafter
from speclocal.decoding.drafters.suffixes import Match
from speclocal.decoding.odds import DraftOdds, LookupOdds
from speclocal.decoding.relay import Relay
from speclocal.decoding.theory import speedup
from speclocal.decoding.types import Drafter, Plan, Round

_LONGEST = 62  # tokens of a draft: llama.cpp's attention computes other bits from 64 rows on
_SURE_LENGTH = 7  # tokens of a match with the prompt that is hardly ever a coincidence
_NEGLIGIBLE = 0.02  # a chance of getting this far in a draft that is not worth looking at


class FixedPlanner:
    """The same drafter and the same length, round after round."""

    def __init__(self, drafter: Drafter, size: int) -> None:
        self.drafter = drafter
        self.size = size

    def begin(self, tokens: Sequence[int]) -> None:
        self.drafter.begin(tokens)

    def plan(self, tokens: Sequence[int], limit: int) -> Plan:
        return Plan(self.drafter, self.size)

    def observe(self, round_: Round) -> None:
        pass


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
    replay: Callable[[int], float] = lambda num_accepted: 0.0,
    num_droppable: int = 0,
) -> Option:
    """Return the most worthwhile of `sizes`, ascending draft lengths; the empty option if none is worth anything.

    rates: the odds of the first, second, ... token, given that those before it are accepted. seconds(size): what a
    draft of that size adds to the round. price: tokens a second is worth. reached: the chance that the first token
    matters at all. replay(n): what it costs that the token after `n` accepted ones is rejected, unless it is one of the
    last `num_droppable`.
    """
    best, accepted = Option(), 0.0
    lost = [0.0]  # seconds expected to be lost by a rejection among the first 0, 1, 2, ... tokens
    for size, rate in zip(range(1, sizes[-1] + 1 if sizes else 1), rates, strict=False):
        lost.append(lost[-1] + reached * (1 - rate) * replay(size - 1))
        reached *= rate
        accepted += reached
        if size in sizes:
            added = seconds(size) + lost[max(0, size - num_droppable)]
            best = max(best, Option(accepted - price * added, size))
        if reached < _NEGLIGIBLE:
            break
    return best


class AutoPlanner:
    """The most worthwhile plan for every round.

    Keep one over several replies of the same models: what it learned stays. Its decisions rest on earlier rounds and
    on what is known before a token is drawn, never on a drawn token that is then dropped.
    """

    _TRIED_SHARE = 0.01  # of all time may go into trying the draft model against the odds
    _TRIED_SIZE = 2  # tokens of such a try
    _BEHIND_SHARE = 0.015  # of the time may be lost against plain decoding
    _BEHIND_PASSES = 3  # passes over one token may be lost on top, by a draft model whose rejections cost passes

    def __init__(
        self,
        costs: PassCosts,
        lookup: LookupDrafter,
        draft: ModelDrafter | None = None,
        draft_costs: PassCosts | None = None,
        exact_widths: Callable[[int], Sequence[int]] | None = None,
        num_droppable: int = _LONGEST,
    ) -> None:
        """exact_widths: the widths a pass may have, by the tokens then in the cache; None allows every width.
        num_droppable: how many tokens of a pass the target drops at no cost.
        """
        self.costs = costs
        self.lookup = lookup
        self.draft = draft
        self.draft_costs = draft_costs or costs
        self.exact_widths = exact_widths
        self.num_droppable = num_droppable
        self.lookup_odds = LookupOdds()
        self.draft_odds = DraftOdds()
        self._nobody = Plan(NoDrafter(), 0)
        self._reached = _Recent(16.0, 16 * costs.seconds(1), memory=0.97)  # tokens, seconds: as after plain rounds
        self._runs = _Recent(8.0, 1.0, memory=0.8)  # rounds and times the draft model worked without a break
        self._run = 0
        self._num_given = 0  # tokens of the prompt: what follows repeats itself in form more than in content
        self._missed_seconds = 0.0
        self._seconds = self._tried_seconds = 0.0
        self._copy_gain = self._draft_gain = 0.0  # seconds won over plain decoding, by either drafter
        self._match: Match | None = None
        self._copy: list[int] = []
        self._drafting: Relay | None = None

    def begin(self, tokens: Sequence[int]) -> None:
        self.lookup.begin(tokens)
        self._num_given = len(tokens)
        if self.draft:
            self.draft.begin(tokens)
        self._missed_seconds = 0.0

    def plan(self, tokens: Sequence[int], limit: int) -> Plan:
        sizes = self._sizes(len(tokens), min(limit, _LONGEST))
        copying = self._best_copy(tokens, sizes)
        self._drafting = self._best_draft(tokens, sizes, copying) if self.draft and sizes else None
        if self._drafting:
            return Plan(self._drafting, self._drafting.longest)
        return Plan(self.lookup, copying.size) if copying.size else self._nobody

    def observe(self, round_: Round) -> None:
        self.costs.observe(round_.num_drafted + 1, round_.verify_seconds)
        if self._match:
            self.lookup_odds.observe(self._match, self._copy, round_.tokens)
        if self._drafting:
            self._run += 1
            self._drafting.learn(round_)
        elif self._run:
            self._runs.add(self._run, 1)
            self._run = 0
        self._reached.add(len(round_.verdicts), round_.seconds)
        self._seconds += round_.seconds
        gain = self.plain_seconds(len(round_.verdicts)) - round_.seconds
        if self._drafting:
            self._draft_gain += gain
        elif round_.drafter == self.lookup.name:
            self._copy_gain += gain

    def plain_seconds(self, num_tokens: int) -> float:
        """Return the seconds that plain decoding would take for `num_tokens`."""
        return num_tokens * self.costs.seconds(1)

    def draft_model_speedup(self) -> float:
        """Return how fast the draft model alone would run here, at its best length, relative to plain decoding."""
        one, rate = self.costs.seconds(1), self.draft_odds.typical
        ratio = self.draft_costs.seconds(1) / one

        def verify_ratio(width: int) -> float:
            lost = (rate**kept * (1 - rate) * self.rejection_seconds(width - 1, kept) for kept in range(width - 1))
            return (self.costs.seconds(width) + sum(lost)) / one

        return max(speedup(rate, size, ratio, verify_ratio) for size in range(1, 17))

    @property
    def price(self) -> float:
        """Tokens a second is worth: the rate reached of late, and never less than that of plain decoding."""
        return max(self._reached.ratio, 1 / self.costs.seconds(1))

    def added_seconds(self, size: int, already: int = 0) -> float:
        """Return what `size` tokens add to a pass that checks `already` drafted tokens."""
        return self.costs.seconds(already + size + 1) - self.costs.seconds(already + 1)

    def rejection_seconds(self, size: int, num_accepted: int) -> float:
        """Return what it costs that a draft of `size` tokens is rejected after its first `num_accepted`."""
        return self._replay_seconds(num_accepted) if size - num_accepted > self.num_droppable else 0.0

    def draft_on(self, reached: float, already: int, sizes: Sequence[int]) -> Option:
        """Return how far the draft model should go on after `already` tokens, all right with the chance `reached`."""
        step = self.draft_costs.seconds(1)
        return self._best(
            repeat(self.draft_odds.typical),
            lambda size: size * step + self.added_seconds(size, already),
            [size - already for size in sizes if size > already],
            reached,
            already,
        )

    def copy_on(self, match: Match | None, reached: float, already: int, sizes: Sequence[int]) -> Option:
        """Return how far to copy after `already` tokens of the draft model that lead into `match`."""
        if match is None or match.disputed:
            return Option()
        return self._best(
            map(partial(self.lookup_odds.rate_led, match), count()),
            lambda size: self.added_seconds(size, already),
            [size - already for size in sizes if size > already],
            reached,
            already,
        )

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
            lambda num_accepted: self._replay_seconds(already + num_accepted),
            self.num_droppable,
        )

    def _replay_seconds(self, num_accepted: int) -> float:
        """Return the seconds of going back and reading again the token before a draft and what was accepted of it."""
        return self.costs.rollback_seconds + self.costs.seconds(num_accepted + 1)

    def _sizes(self, length: int, limit: int) -> Sequence[int]:
        """Return the draft lengths that are allowed, ascending."""
        if self.exact_widths is None:
            return range(1, limit + 1)
        allowed = self.exact_widths(length + max(NARROW))
        return [width - 1 for width in allowed if 1 < width <= limit + 1]

    def _affordable(self, sizes: Sequence[int]) -> Sequence[int]:
        """Return the lengths of a doubtful copy whose loss, if every token is rejected, leaves copying hardly behind.

        What copies gained over plain decoding may be staked, and a little more: gains come before large stakes.
        """
        stake = self._copy_gain + self._BEHIND_SHARE * self._seconds + self.costs.seconds(1)
        return list(takewhile(lambda size: self.added_seconds(size) + self.rejection_seconds(size, 0) <= stake, sizes))

    def _best_copy(self, tokens: Sequence[int], sizes: Sequence[int]) -> Option:
        self._match = match = self.lookup.match(tokens)
        if match is None:
            return Option()
        if match.length < _SURE_LENGTH or match.end >= self._num_given:
            sizes = self._affordable(sizes)
        self._copy = self.lookup.copy(match, max(sizes, default=1))
        rates = (self.lookup_odds.rate(match, index) for index in range(len(self._copy)))
        return self._best(rates, self.added_seconds, sizes)

    def _best_draft(self, tokens: Sequence[int], sizes: Sequence[int], copying: Option) -> Relay | None:
        """Return the draft model's round if it promises more than copying, or is due for a try."""
        assert self.draft
        stake = self._draft_gain + self._BEHIND_SHARE * self._seconds + self._BEHIND_PASSES * self.costs.seconds(1)
        if self.rejection_seconds(1, 0) > stake:
            return None
        backlog = self.draft.backlog(tokens)
        if backlog is None:
            return None
        catch_up_seconds = self.draft_costs.seconds(backlog)
        stops_early = self.exact_widths is None  # else a draft cut short could have a width that is not exact
        option = self.draft_on(1.0, 0, sizes)
        if stops_early and backlog <= self.draft_costs.widest:  # leading into copies alone is not worth a whole text
            option = max(option, self._led_copy(sizes))
        extra_seconds = catch_up_seconds - self.draft_costs.seconds(1)
        if self._catches_up(backlog, (option.worth - copying.worth) / self.price, extra_seconds):
            lengths = sizes if stops_early else [option.size]
            return Relay(self, self.draft, lengths, backlog, stops_early=stops_early)

        tried = [size for size in sizes if size <= self._TRIED_SIZE]
        if not tried:
            return None
        at_most = catch_up_seconds + tried[-1] * self.draft_costs.seconds(1) + self.added_seconds(tried[-1])
        at_most += self.rejection_seconds(tried[-1], 0)
        if self._tried_seconds + at_most > self._TRIED_SHARE * self._seconds:
            return None
        self._tried_seconds += at_most
        return Relay(self, self.draft, tried, backlog, stops_early=False)

    def _led_copy(self, sizes: Sequence[int]) -> Option:
        """Return the worth of one step of the draft model that, if it agrees with the match, leads into a copy."""
        if self._match is None or not self._copy:
            return Option()
        typical, agrees = self.draft_odds.typical, self.lookup_odds.rate(self._match, 0)
        led_into = replace(self._match, length=self._match.length + 1, num_followed=1, num_seen=1)
        copied = self.copy_on(led_into, typical, 1, sizes)
        lost_seconds = (1 - typical) * self.rejection_seconds(1 + copied.size, 0)
        step = self.price * (self.draft_costs.seconds(1) + self.added_seconds(1) + lost_seconds)
        return max(Option(), Option(typical - step + agrees * copied.worth, 1 + copied.size))

    def _catches_up(self, backlog: int, advantage_seconds: float, extra_seconds: float) -> bool:
        """Return whether the draft model, better by `advantage_seconds` this round, should read its backlog now.

        Reading what others drafted is paid off by the rounds until others draft again, as many as of late. Reading a
        text for the first time is put off until the seconds missed without the draft model would have paid for it: so
        it costs a short reply nothing, and any reply at most twice what knowing its length would have cost.
        """
        if advantage_seconds <= 0:
            return False
        if backlog <= self.draft_costs.widest:
            return advantage_seconds * self._runs.ratio > extra_seconds
        self._missed_seconds += advantage_seconds
        return self._missed_seconds > extra_seconds


class _Recent:
    """A ratio of two sums in which older terms count less."""

    def __init__(self, numerator: float, denominator: float, memory: float) -> None:
        self._numerator = numerator
        self._denominator = denominator
        self._memory = memory

    @property
    def ratio(self) -> float:
        return self._numerator / self._denominator

    def add(self, numerator: float, denominator: float) -> None:
        self._numerator = self._numerator * self._memory + numerator
        self._denominator = self._denominator * self._memory + denominator
