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
    """Acceptance of a copied token, by how many tokens before it match, and how well the first one is supported.

    A copy that was right for j tokens is a match that is j tokens longer: one belief by length serves every position
    of a draft. The priors are the shares measured over the twelve replies of benchmarks/traces.json.
    """

    _LENGTHS = (2, 3, 4, 5, 6, 8, 11, 16, 24, 40)  # where a new kind of evidence begins
    _LONE = (0.28, 0.42, 0.54, 0.73, 0.85, 0.90, 0.92, 0.92, 0.92, 0.93, 0.99)  # occurred once before
    _REPEATED = (0.60, 0.65, 0.70, 0.85, 0.87, 0.92, 0.95, 0.95, 0.95, 0.95, 0.99)  # always went on like this
    _NEAR = (0.68, 0.80, 0.85, 0.86, 0.87, 0.90, 0.92, 0.92, 0.92, 0.93, 0.99)  # where the text was copied from
    _DISPUTED = (0.15, *[0.20] * 10)  # also went on otherwise
    _DISPUTED_NEAR = (0.40, *[0.50] * 10)
    _LATER = (0.50, 0.55, 0.70, 0.80, 0.80, 0.86, 0.93, 0.93, 0.93, 0.93, 0.995)  # not the first token of a copy

    def __init__(self) -> None:
        lone, repeated, near, disputed, disputed_near, self._later = (
            Odds(priors, weight=8)
            for priors in (self._LONE, self._REPEATED, self._NEAR, self._DISPUTED, self._DISPUTED_NEAR, self._LATER)
        )
        self._first = {
            (False, False): (lone, repeated),
            (False, True): (near, near),
            (True, False): (disputed, disputed),
            (True, True): (disputed_near, disputed_near),
        }

    def rate(self, match: Match, index: int) -> float:
        """Return the odds of token number `index` of a copy, given that those before it were right."""
        return self._odds(match, index).rate(self._kind(match.length + index))

    def observe(self, match: Match, copied: Sequence[int], emitted: Sequence[int]) -> None:
        """Learn from what a copy would have been, drafted or not, and the tokens that really came."""
        for index, (guess, token) in enumerate(zip(copied, emitted, strict=False)):
            self._odds(match, index).observe(self._kind(match.length + index), guess == token)
            if guess != token:
                break

    def _odds(self, match: Match, index: int) -> Odds:
        if index:
            return self._later
        return self._first[match.disputed, match.near][match.num_seen > 1]

    def _kind(self, length: int) -> int:
        return bisect_right(self._LENGTHS, length)


class DraftOdds:
    """Acceptance of a draft model's token, by the probability the draft model gave its likeliest token."""

    _CONFIDENCES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
    _PRIORS = (0.20, 0.33, 0.41, 0.53, 0.58, 0.66, 0.80, 0.91, 0.95, 0.99, 0.998)
    _TYPICAL = 0.85  # acceptance of a token whose confidence is not known yet, to begin with
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
