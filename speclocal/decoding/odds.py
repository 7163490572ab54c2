"""How likely a drafted token is to be accepted, by the evidence for it, learned as the text grows.

Knows matches, confidences and outcomes, not costs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from speclocal.decoding.drafters.suffixes import Match


class Odds:
    """A belief about acceptance for every kind of evidence: successes among trials, old ones counting less.

    priors: the acceptance rate to begin with, one per kind; it weighs as much as `weight` trials.
    """

    _MEMORY = 0.98  # what a trial still counts for after one more of its kind: about the last 50 matter

    def __init__(self, priors: Sequence[float], weight: float) -> None:
        self._priors = tuple(priors)
        self._weight = weight
        self._successes = [0.0] * len(priors)
        self._trials = [0.0] * len(priors)

    def rate(self, kind: int) -> float:
        """Return the expected acceptance rate of a kind of evidence."""
        successes = self._successes[kind] + self._weight * self._priors[kind]
        return successes / (self._trials[kind] + self._weight)

    def observe(self, kind: int, accepted: bool) -> None:
        """Learn from one judged token."""
        self._successes[kind] = self._successes[kind] * self._MEMORY + accepted
        self._trials[kind] = self._trials[kind] * self._MEMORY + 1


class LookupOdds:
    """Acceptance of a copied token, by how many tokens before it match.

    A copy that was right for j tokens is a match that is j tokens longer: one belief by length serves every position
    of a draft. The first token of a copy is also judged by whether the matching text always went on that way.
    """

    _LENGTHS = (2, 3, 4, 5, 6, 8, 11, 16, 24, 40)  # where a new kind of evidence begins
    _PRIORS = (0.25, 0.40, 0.50, 0.58, 0.65, 0.72, 0.80, 0.86, 0.91, 0.95, 0.97)
    _DISPUTED = 0.5  # how much the odds of a continuation shrink that was not the only one

    def __init__(self) -> None:
        self._alike = Odds(self._PRIORS, weight=4)
        self._disputed = Odds([rate * self._DISPUTED for rate in self._PRIORS], weight=4)

    def rate(self, match: Match, index: int) -> float:
        """Return the odds of token number `index` of a copy, given that those before it were right."""
        odds = self._disputed if index == 0 and match.num_followed < match.num_seen else self._alike
        return odds.rate(self._kind(match.length + index))

    def observe(self, match: Match, copied: Sequence[int], emitted: Sequence[int]) -> None:
        """Learn from what a copy would have been, drafted or not, and the tokens that really came."""
        for index, (guess, token) in enumerate(zip(copied, emitted, strict=False)):
            odds = self._disputed if index == 0 and match.num_followed < match.num_seen else self._alike
            odds.observe(self._kind(match.length + index), guess == token)
            if guess != token:
                break

    def _kind(self, length: int) -> int:
        return bisect_right(self._LENGTHS, length)


class DraftOdds:
    """Acceptance of a draft model's token, by the probability the draft model gave its likeliest token."""

    _CONFIDENCES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
    _PRIORS = (0.15, 0.25, 0.35, 0.45, 0.55, 0.62, 0.70, 0.80, 0.88, 0.94, 0.98)
    _TYPICAL = 0.75  # acceptance of a token whose confidence is not known yet, to begin with
    _MOOD = 0.95  # what one token still counts for in the typical acceptance after one more

    def __init__(self) -> None:
        self._odds = Odds(self._PRIORS, weight=8)
        self._sum, self._count = self._TYPICAL * 8, 8.0

    @property
    def typical(self) -> float:
        """The odds of the next token before it is drafted."""
        return self._sum / self._count

    def rate(self, confidence: float) -> float:
        """Return the odds of a token drafted with `confidence`."""
        return self._odds.rate(self._kind(confidence))

    def observe(self, confidence: float, accepted: bool) -> None:
        """Learn from a judged token."""
        self._odds.observe(self._kind(confidence), accepted)
        self._sum = self._sum * self._MOOD + accepted
        self._count = self._count * self._MOOD + 1

    def _kind(self, confidence: float) -> int:
        return bisect_right(self._CONFIDENCES, confidence)
