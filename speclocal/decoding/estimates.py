"""How likely a drafted token is to be accepted, by the evidence for it, learned as the text grows.

Knows matches, confidences and outcomes, not costs.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

from speclocal.decoding.drafters.suffixes import Match


class DecayedRatio:
    """A ratio of two sums in which older terms count less.

    memory: what a term still counts for after one more.
    """

    def __init__(self, numerator: float, denominator: float, memory: float) -> None:
        self.numerator = numerator
        self.denominator = denominator
        self._memory = memory

    @property
    def value(self) -> float:
        return self.numerator / self.denominator

    def add(self, numerator: float, denominator: float = 1.0) -> None:
        self.numerator = self.numerator * self._memory + numerator
        self.denominator = self.denominator * self._memory + denominator


class AcceptanceEstimate:
    """The acceptance rate of drafted tokens for every kind of evidence: successes among trials, old ones counting less.

    priors: the rate to begin with, one per kind; it weighs as much as `weight` trials.
    """

    _MEMORY = 0.97  # about the last 30 trials of a kind matter

    def __init__(self, priors: Sequence[float], weight: float) -> None:
        self._priors = tuple(priors)
        self._weight = weight
        self._trials = [DecayedRatio(0.0, 0.0, self._MEMORY) for _ in priors]

    def rate(self, kind: int) -> float:
        """Return the expected acceptance rate of a kind of evidence."""
        trials, weight = self._trials[kind], self._weight
        return (trials.numerator + weight * self._priors[kind]) / (trials.denominator + weight)

    def observe(self, kind: int, accepted: bool) -> None:
        """Learn from one judged token."""
        self._trials[kind].add(accepted)


class LookupAcceptance:
    """Acceptance of a copied token, by how many tokens before it match, and how well the first one is supported.

    A copy that was right for j tokens is a match that is j tokens longer: one estimate by length serves every position
    of a draft. The priors are the shares measured over the twelve replies of benchmarks/traces.json.
    """

    _SURPRISE = 0.07  # how far one surprise shifts all rates of this text, as a log-odds ratio
    _LENGTHS = (2, 3, 4, 5, 6, 8, 11, 16, 24, 40)  # where a new kind of evidence begins
    _LONE = (0.24, 0.37, 0.49, 0.69, 0.82, 0.88, 0.90, 0.90, 0.90, 0.92, 0.99)  # occurred once before
    _REPEATED = (0.55, 0.60, 0.66, 0.82, 0.85, 0.90, 0.94, 0.94, 0.94, 0.94, 0.99)  # always went on like this
    _NEAR = (0.64, 0.77, 0.82, 0.83, 0.85, 0.88, 0.90, 0.90, 0.90, 0.92, 0.99)  # where the text was copied from
    _DISPUTED = (0.15, *[0.20] * 10)  # also went on otherwise
    _DISPUTED_NEAR = (0.40, *[0.50] * 10)
    _LED = (0.19, 0.38, 0.56, 0.63, 0.73, 0.80, 0.88, 0.88, 0.88, 0.88, 0.985)  # a draft model led into it
    _LATER = (0.35, 0.40, 0.56, 0.69, 0.69, 0.77, 0.88, 0.88, 0.88, 0.88, 0.99)  # not the first token of a copy

    def __init__(self) -> None:
        lone, repeated, near, disputed, disputed_near, self._later, self._led = (
            AcceptanceEstimate(priors, weight=4)
            for priors in (
                *(self._LONE, self._REPEATED, self._NEAR, self._DISPUTED, self._DISPUTED_NEAR),
                *(self._LATER, self._LED),
            )
        )
        self._log_odds_shift = 0.0  # of this text: copying goes better here than elsewhere, or worse
        self._first = {
            (False, False): (lone, repeated),
            (False, True): (near, near),
            (True, False): (disputed, disputed),
            (True, True): (disputed_near, disputed_near),
        }

    def rate(self, match: Match, index: int) -> float:
        """Return the acceptance rate of token number `index` of a copy, given that those before it were right."""
        return self._shifted(self._estimate(match, index), match.length + index)

    def rate_led(self, match: Match, index: int) -> float:
        """Return the same for a copy that a draft model led into: the last tokens of the match are its guesses."""
        return self._shifted(self._led, match.length + index)

    def observe(self, match: Match, copied: Sequence[int], emitted: Sequence[int]) -> None:
        """Learn from what a copy would have been, drafted or not, and the tokens that really came."""
        for index, (guess, token) in enumerate(zip(copied, emitted, strict=False)):
            self._learn(self._estimate(match, index), match.length + index, guess == token)
            if guess != token:
                break

    def observe_led(self, match: Match, index: int, accepted: bool) -> None:
        """Learn from a judged token of a copy that a draft model led into."""
        self._learn(self._led, match.length + index, accepted)

    def _shifted(self, estimate: AcceptanceEstimate, length: int) -> float:
        rate = min(estimate.rate(self._kind(length)), 0.999)
        return 1 / (1 + (1 - rate) / rate * math.exp(-self._log_odds_shift))

    def _learn(self, estimate: AcceptanceEstimate, length: int, accepted: bool) -> None:
        self._log_odds_shift += self._SURPRISE * (accepted - self._shifted(estimate, length))
        estimate.observe(self._kind(length), accepted)

    def _estimate(self, match: Match, index: int) -> AcceptanceEstimate:
        if index:
            return self._later
        return self._first[match.disputed, match.near][match.num_seen > 1]

    def _kind(self, length: int) -> int:
        return bisect_right(self._LENGTHS, length)


class DraftAcceptance:
    """Acceptance of a draft model's token, by the probability the draft model gave its likeliest token."""

    _CONFIDENCES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
    _PRIORS = (0.20, 0.33, 0.41, 0.53, 0.58, 0.66, 0.80, 0.91, 0.95, 0.99, 0.998)
    _TYPICAL = 0.8  # acceptance of a token whose confidence is not known yet, to begin with
    _TYPICAL_WEIGHT = 8.0  # tokens, as which that counts
    _MEMORY = 0.95  # about the last 20 tokens make up the typical acceptance

    def __init__(self) -> None:
        self._by_confidence = AcceptanceEstimate(self._PRIORS, weight=4)
        self._recent = DecayedRatio(self._TYPICAL * self._TYPICAL_WEIGHT, self._TYPICAL_WEIGHT, self._MEMORY)

    @property
    def typical(self) -> float:
        """The acceptance rate of the next token before it is drafted."""
        return self._recent.value

    def rate(self, confidence: float) -> float:
        """Return the acceptance rate of a token drafted with `confidence`."""
        return self._by_confidence.rate(self._kind(confidence))

    def observe(self, confidence: float, accepted: bool) -> None:
        """Learn from a judged token."""
        self._by_confidence.observe(self._kind(confidence), accepted)
        self._recent.add(accepted)

    def _kind(self, confidence: float) -> int:
        return bisect_right(self._CONFIDENCES, confidence)
