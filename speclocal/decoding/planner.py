"""Who drafts this round, and how many tokens: every round takes the plan that is worth most.

Knows drafters and what drafts are worth (pricing.py), all in expectation; what really happened it learns from finished
rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

from speclocal.decoding.costs import NARROW, PassCosts
from speclocal.decoding.drafters import NoDrafter
from speclocal.decoding.drafters.lookup import LookupDrafter
from speclocal.decoding.drafters.model import ModelDrafter
from speclocal.decoding.drafters.suffixes import Match
from speclocal.decoding.estimates import DecayedRatio
from speclocal.decoding.pricing import Option, Pricing
from speclocal.decoding.relay import Relay
from speclocal.decoding.types import Drafter, Plan, Round

_LONGEST = 62  # tokens of a draft: llama.cpp's attention computes other bits from 64 rows on
_SURE_LENGTH = 7  # tokens of a match with the prompt that is hardly ever a coincidence


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


class AutoPlanner:
    """The most worthwhile plan for every round.

    Keep one over several replies of the same models: what it learned stays. Its decisions rest on earlier rounds and
    on what is known before a token is drawn, never on a drawn token that is then dropped.
    """

    _TRIED_SHARE = 0.01  # of all time may go into trying a draft model that promises nothing
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
        self.pricing = Pricing(costs, draft_costs or costs, num_droppable)
        self.lookup = lookup
        self.draft = draft
        self.exact_widths = exact_widths
        self._nobody = Plan(NoDrafter(), 0)
        self._runs = DecayedRatio(8.0, 1.0, memory=0.8)  # rounds and times the draft model worked without a break
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
        self.pricing.observe(round_)
        if self._match:
            self.pricing.lookup_acceptance.observe(self._match, self._copy, round_.tokens)
        if self._drafting:
            self._run += 1
            self._drafting.learn(round_)
        elif self._run:
            self._runs.add(self._run)
            self._run = 0
        self._seconds += round_.seconds
        gain = self.pricing.plain_seconds(len(round_.verdicts)) - round_.seconds
        if self._drafting:
            self._draft_gain += gain
        elif round_.drafter == self.lookup.name:
            self._copy_gain += gain

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
        pricing = self.pricing
        stake = self._copy_gain + self._BEHIND_SHARE * self._seconds + pricing.plain_seconds(1)
        lost = (pricing.added_seconds(size) + pricing.rejection_seconds(size, 0) for size in sizes)
        return sizes[: sum(1 for _ in takewhile(lambda seconds: seconds <= stake, lost))]

    def _best_copy(self, tokens: Sequence[int], sizes: Sequence[int]) -> Option:
        self._match = match = self.lookup.match(tokens)
        if match is None:
            return Option()
        if match.length < _SURE_LENGTH or match.end >= self._num_given:
            sizes = self._affordable(sizes)
        self._copy = self.lookup.copy(match, max(sizes, default=1))
        return self.pricing.copying(match, len(self._copy), sizes)

    def _best_draft(self, tokens: Sequence[int], sizes: Sequence[int], copying: Option) -> Relay | None:
        """Return the draft model's round if it promises more than copying, or is due for a try."""
        assert self.draft
        pricing, seconds = self.pricing, self.pricing.draft_costs.seconds
        stake = self._draft_gain + self._BEHIND_SHARE * self._seconds + pricing.plain_seconds(self._BEHIND_PASSES)
        if pricing.rejection_seconds(1, 0) > max(0, stake):  # nothing is staked where a rejection costs no pass
            return None
        backlog = self.draft.backlog(tokens)
        if backlog is None:
            return None
        stops_early = self.exact_widths is None  # else a draft cut short could have a width that is not exact
        option = pricing.drafting_on(1.0, 0, sizes)
        if stops_early and backlog <= pricing.draft_costs.widest:  # to lead into copies is not worth a whole text
            option = max(option, pricing.leading_into(self._match if self._copy else None, sizes))
        advantage_seconds = (option.worth - copying.worth) / pricing.price
        if self._catches_up(backlog, advantage_seconds, seconds(backlog) - seconds(1)):
            lengths = sizes if stops_early else [option.size]
            return Relay(pricing, self.lookup, self.draft, lengths, backlog, stops_early=stops_early)
        return self._try(sizes, backlog)

    def _try(self, sizes: Sequence[int], backlog: int) -> Relay | None:
        """Return a short round of the draft model, which promises nothing, if its share of the time allows it."""
        assert self.draft
        pricing, seconds = self.pricing, self.pricing.draft_costs.seconds
        tried = [size for size in sizes if size <= self._TRIED_SIZE]
        if not tried:
            return None
        at_most = seconds(backlog) + tried[-1] * seconds(1) + pricing.added_seconds(tried[-1])
        at_most += pricing.rejection_seconds(tried[-1], 0)
        if self._tried_seconds + at_most > self._TRIED_SHARE * self._seconds:
            return None
        self._tried_seconds += at_most
        return Relay(pricing, self.lookup, self.draft, tried, backlog, stops_early=False)

    def _catches_up(self, backlog: int, advantage_seconds: float, extra_seconds: float) -> bool:
        """Return whether the draft model, better by `advantage_seconds` this round, should read its backlog now.

        Reading what others drafted is paid off by the rounds until others draft again, as many as of late. Reading a
        text for the first time is put off until the seconds missed without the draft model would have paid for it: so
        it costs a short reply nothing, and any reply at most twice what knowing its length would have cost.
        """
        if advantage_seconds <= 0:
            return False
        if backlog <= self.pricing.draft_costs.widest:
            return advantage_seconds * self._runs.value > extra_seconds
        self._missed_seconds += advantage_seconds
        return self._missed_seconds > extra_seconds
