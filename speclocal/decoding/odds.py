"""How likely a drafted token is to be accepted, by the evidence for it, learned as the text grows.

Knows matches, confidences and outcomes, not costs.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

from speclocal.decoding.drafters.suffixes import Match


class Odds:
    """A belief about acceptance for every kind of evidence: successes among trials, old ones counting less.

    priors: the acceptance rate to begin with, one per kind; it weighs as much as `weight` trials.
    """

    _MEMORY = 0.97  # what a trial still counts for after one more of its kind: about the last 30 matter

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

    _MOODINESS = 0.07  # how far one surprise shifts all odds of this text, as a log-odds ratio
    _LENGTHS = (2, 3, 4, 5, 6, 8, 11, 16, 24, 40)  # where a new kind of evidence begins
    _LONE = (0.24, 0.37, 0.49, 0.69, 0.82, 0.88, 0.90, 0.90, 0.90, 0.92, 0.99)  # occurred once before
    _REPEATED = (0.55, 0.60, 0.66, 0.82, 0.85, 0.90, 0.94, 0.94, 0.94, 0.94, 0.99)  # always went on like this
    _NEAR = (0.64, 0.77, 0.82, 0.83, 0.85, 0.88, 0.90, 0.90, 0.90, 0.92, 0.99)  # where the text was copied from
    _DISPUTED = (0.15, *[0.20] * 10)  # also went on otherwise
    _DISPUTED_NEAR = (0.40, *[0.50] * 10)
    _LED = (0.19, 0.38, 0.56, 0.63, 0.73, 0.80, 0.88, 0.88, 0.88, 0.88, 0.985)  # a draft model led into it
    _LATER = (0.35, 0.40, 0.56, 0.69, 0.69, 0.77, 0.88, 0.88, 0.88, 0.88, 0.99)  # not the first token of a copy

    def __init__(self) -> None:
        lone, repeated, near, disputed, disputed_near, self._later = (
            Odds(priors, weight=4)
            for priors in (self._LONE, self._REPEATED, self._NEAR, self._DISPUTED, self._DISPUTED_NEAR, self._LATER)
        )
        self._mood = 0.0
        self._led = Odds(self._LED, weight=4)
        self._first = {
            (False, False): (lone, repeated),
            (False, True): (near, near),
            (True, False): (disputed, disputed),
            (True, True): (disputed_near, disputed_near),
        }

    def rate(self, match: Match, index: int) -> float:
        """Return the odds of token number `index` of a copy, given that those before it were right."""
        return self._in_mood(self._odds(match, index), match.length + index)

    def rate_led(self, match: Match, index: int) -> float:
        """Return the same for a copy that a draft model led into: the last tokens of the match are its guesses."""
        return self._in_mood(self._led, match.length + index)

    def observe(self, match: Match, copied: Sequence[int], emitted: Sequence[int]) -> None:
        """Learn from what a copy would have been, drafted or not, and the tokens that really came."""
        for index, (guess, token) in enumerate(zip(copied, emitted, strict=False)):
            self._learn(self._odds(match, index), match.length + index, guess == token)
            if guess != token:
                break

    def observe_led(self, match: Match, index: int, accepted: bool) -> None:
        """Learn from a judged token of a copy that a draft model led into."""
        self._learn(self._led, match.length + index, accepted)

    def _in_mood(self, odds: Odds, length: int) -> float:
        rate = min(odds.rate(self._kind(length)), 0.999)
        return 1 / (1 + (1 - rate) / rate * math.exp(-self._mood))

    def _learn(self, odds: Odds, length: int, accepted: bool) -> None:
        self._mood += self._MOODINESS * (accepted - self._in_mood(odds, length))
        odds.observe(self._kind(length), accepted)

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
    _TYPICAL = 0.8  # acceptance of a token whose confidence is not known yet, to begin with
    _MOOD = 0.95  # what one token still counts for in the typical acceptance after one more

    def __init__(self) -> None:
        self._odds = Odds(self._PRIORS, weight=4)
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
