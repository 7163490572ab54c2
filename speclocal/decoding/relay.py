"""A round of the draft model, and of the text where the draft model leads into a copy.

Knows what drafts are worth, and decides within the round; learns from how the round went.
"""

from __future__ import annotations

from collections.abc import Sequence

from speclocal.decoding.drafters.lookup import LookupDrafter
from speclocal.decoding.drafters.model import ModelDrafter
from speclocal.decoding.drafters.suffixes import Match
from speclocal.decoding.pricing import Option, Pricing
from speclocal.decoding.sampling import confidence
from speclocal.decoding.types import Fate, Logits, Proposal, Round, Rule, SamplingParams, StopRule


class Relay:
    """Drafts with the model as long as that is worth it, then copies on where its guesses occurred before.

    A guess of the model that agrees with a match is strong evidence for the copy, and copied tokens cost no steps.
    sizes: the lengths the draft may have. stops_early: whether the model may stop before the longest of them.
    """

    name = "draft"

    def __init__(
        self,
        pricing: Pricing,
        lookup: LookupDrafter,
        draft: ModelDrafter,
        sizes: Sequence[int],
        backlog: int,
        *,
        stops_early: bool,
    ) -> None:
        self._pricing = pricing
        self._lookup = lookup
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

    def propose(self, tokens: Sequence[int], size: int, params: SamplingParams, rule: Rule, stop: StopRule) -> Proposal:
        guessed = self._draft.propose(tokens, size, params, rule, self)
        if not self._stops_early or not guessed.tokens:
            return guessed
        self._led_into, option = self._copying(guessed.tokens)
        if self._led_into is None or option.size == 0:
            return guessed
        copied = Proposal.copied(self._lookup.copy(self._led_into, option.size))
        return Proposal(guessed.tokens + copied.tokens, guessed.distributions + copied.distributions)

    def wants_step(self, drafted: Sequence[int]) -> bool:
        worth_it = True
        if drafted and self._stops_early:  # a copy is worth 0 or more, so this also asks whether going on pays at all
            worth_it = self._going_on(self._chance, len(drafted)) > self._copying(drafted)[1].worth
        self._num_steps += worth_it
        return worth_it

    def wants_token(self, index: int, logits: Logits) -> bool:
        sure = confidence(logits)
        chance = self._chance * self._pricing.draft_acceptance.rate(sure)
        lost_seconds = (self._chance - chance) * self._pricing.rejection_seconds(index + 1, index)
        place = self._pricing.price * (self._pricing.added_seconds(1, index) + lost_seconds)
        if self._stops_early and chance - place + self._going_on(chance, index + 1) <= 0:
            return False
        self._chance = chance
        self._confidences.append(sure)
        return True

    def learn(self, round_: Round) -> None:
        """Take the outcome of the round into the draft model's costs and the estimates of acceptance."""
        costs, num_guessed = self._pricing.draft_costs, len(self._confidences)
        expected = costs.seconds(self._backlog) + (self._num_steps - 1) * costs.seconds(1)
        costs.rescale(expected, round_.draft_seconds)
        judged = [verdict.fate is Fate.ACCEPTED for verdict in round_.verdicts if verdict.drafted is not None]
        for sure, accepted in zip(self._confidences, judged, strict=False):
            self._pricing.draft_acceptance.observe(sure, accepted)
        if self._led_into:
            for index, accepted in enumerate(judged[num_guessed:]):
                self._pricing.lookup_acceptance.observe_led(self._led_into, index, accepted)

    def _going_on(self, chance: float, already: int) -> float:
        """Return the worth of more steps of the model."""
        return self._pricing.drafting_on(chance, already, self._sizes).worth

    def _copying(self, drafted: Sequence[int]) -> tuple[Match | None, Option]:
        """Return the match that `drafted` leads into, and the best copy from there."""
        match = self._lookup.match_ahead(drafted)
        return match, self._pricing.copying_on(match, self._chance, len(drafted), self._sizes)
