"""Rules with a mistake in them, to show that a test of the right rule would notice.

Knows what the right rule does. Nothing that is ever answered is judged by these.
"""

from __future__ import annotations

from speclocal.decoding.acceptance import RatioRule, residual
from speclocal.decoding.types import Distribution, Fate, Verdict


class TargetForResidual(RatioRule):
    """Replaces a rejected token by one drawn from p, not from the residual."""

    def judge(self, p: Distribution, q: Distribution, drafted: int, position: int) -> Verdict:
        verdict = super().judge(p, q, drafted, position)
        if verdict.fate is Fate.ACCEPTED:
            return verdict
        return Verdict(self.choose(p, position), Fate.CORRECTION, drafted)


class OneDrawForBoth(RatioRule):
    """Replaces a rejected token with the very random number that rejected it."""

    def judge(self, p: Distribution, q: Distribution, drafted: int, position: int) -> Verdict:
        verdict = super().judge(p, q, drafted, position)
        if verdict.fate is Fate.ACCEPTED or verdict.draw is None:
            return verdict
        return Verdict(residual(p, q).draw(verdict.draw), Fate.CORRECTION, drafted)


class LikeliestOwn(RatioRule):
    """Takes what the target itself adds, after a draft or without one, to be its likeliest token."""

    def choose(self, p: Distribution, position: int) -> int:
        return int(p.ids[p.probs.argmax()])


WRONG_RULES: dict[str, type[RatioRule]] = {
    "corrections drawn from p, not from the residual": TargetForResidual,
    "one random number to reject and to correct": OneDrawForBoth,
    "the target's own tokens always its likeliest": LikeliestOwn,
}
"""Every wrong rule, by what is wrong with it."""
