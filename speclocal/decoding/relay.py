"""A round of the draft model, and of the text where the draft model leads into a copy.

Knows the planner's prices and odds, and decides within the round; learns from how the round went.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from speclocal.decoding.drafters.model import ModelDrafter
from speclocal.decoding.drafters.suffixes import Match
from speclocal.decoding.sampling import confidence
from speclocal.decoding.types import Fate, Logits, Proposal, Round, Rule, SamplingParams, Worth

if TYPE_CHECKING:
    from speclocal.decoding.planner import AutoPlanner, Option


class Relay:
    """Drafts with the model as long as that is worth it, then copies on where its guesses occurred before.

    A guess of the model that agrees with a match is strong evidence for the copy, and copied tokens cost no steps.
    sizes: the lengths the draft may have. stops_early: whether the model may stop before the longest of them.
    """

    name = "draft"

    def __init__(
        self, planner: AutoPlanner, draft: ModelDrafter, sizes: Sequence[int], backlog: int, *, stops_early: bool
    ) -> None:
        self._planner = planner
        self._draft = draft
        self.longest = sizes[-1]
        self._sizes = sizes
        self._backlog = backlog
        self._stops_early = stops_early
        self._chance = 1.0  # that every token so far is accepted
        self._confidences: list[float] = []
        self._num_steps = 0
        self._led_into: Match | None = None

    def begin(self, tokens: Sequence[int]) -> None:
        pass

    def propose(self, tokens: Sequence[int], size: int, params: SamplingParams, rule: Rule, worth: Worth) -> Proposal:
        guessed = self._draft.propose(tokens, size, params, rule, self)
        if not self._stops_early or not guessed.tokens:
            return guessed
        self._led_into, option = self._copying(guessed.tokens)
        if self._led_into is None or option.size == 0:
            return guessed
        copied = Proposal.copied(self._planner.lookup.copy(self._led_into, option.size))
        return Proposal(guessed.tokens + copied.tokens, guessed.distributions + copied.distributions)

    def drafting(self, drafted: Sequence[int]) -> bool:
        worth_it = True
        if drafted and self._stops_early:  # a copy is worth 0 or more, so this also asks whether going on pays at all
            worth_it = self._going_on(self._chance, len(drafted)) > self._copying(drafted)[1].worth
        self._num_steps += worth_it
        return worth_it

    def keeping(self, index: int, logits: Logits) -> bool:
        sure = confidence(logits)
        chance = self._chance * self._planner.draft_odds.rate(sure)
        lost_seconds = (self._chance - chance) * self._planner.rejection_seconds(index + 1, index)
        place = self._planner.price * (self._planner.added_seconds(1, index) + lost_seconds)
        if self._stops_early and chance - place + self._going_on(chance, index + 1) <= 0:
            return False
        self._chance = chance
        self._confidences.append(sure)
        return True

    def learn(self, round_: Round) -> None:
        """Take the outcome of the round into the planner's costs and odds."""
        costs, num_guessed = self._planner.draft_costs, len(self._confidences)
        expected = costs.seconds(self._backlog) + (self._num_steps - 1) * costs.seconds(1)
        costs.rescale(expected, round_.draft_seconds)
        judged = [verdict.fate is Fate.ACCEPTED for verdict in round_.verdicts if verdict.drafted is not None]
        for sure, accepted in zip(self._confidences, judged, strict=False):
            self._planner.draft_odds.observe(sure, accepted)
        if self._led_into:
            for index, accepted in enumerate(judged[num_guessed:]):
                self._planner.lookup_odds.observe_led(self._led_into, index, accepted)

    def _going_on(self, chance: float, already: int) -> float:
        """Return the worth of more steps of the model."""
        return self._planner.draft_on(chance, already, self._sizes).worth

    def _copying(self, drafted: Sequence[int]) -> tuple[Match | None, Option]:
        """Return the match that `drafted` leads into, and the best copy from there."""
        match = self._planner.lookup.match_ahead(drafted)
        return match, self._planner.copy_on(match, self._chance, len(drafted), self._sizes)
