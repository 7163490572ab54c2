"""The two acceptance rules: the drafter guesses, the target's distribution decides.

Knows probabilities, not models.

p is the target's distribution and q the drafter's, both after the same sampling parameters. Whatever q is, the emitted
token follows p. A copied or greedy draft token has a one-hot q; greedy decoding has a one-hot p.
"""

from __future__ import annotations

import numpy as np

from speclocal.decoding.randomness import Use, uniform, uniforms
from speclocal.decoding.types import Distribution, Fate, Verdict


def accepts(p: float, q: float, u: float) -> bool:
    """Return whether a token of probability q in the draft and p in the target is kept, for u drawn from (0, 1).

    True with probability min(1, p / q), without dividing. (Leviathan et al. 2023, arXiv:2211.17192)
    """
    return u * q < p


def residual(p: Distribution, q: Distribution) -> Distribution:
    """Return norm(max(0, p - q)), the distribution that repairs a rejection.

    Returns p when rounding leaves nothing of the difference. (Leviathan et al. 2023, arXiv:2211.17192)
    """
    left = np.maximum(0, p.probs - q.probs_of(p.ids))
    mass = left.sum()
    if mass <= left.size * np.finfo(np.float64).eps:
        return p
    kept = left > 0
    return Distribution(p.ids[kept], left[kept] / mass)


class RatioRule:
    """Accept with min(1, p/q), else draw from the residual: the highest acceptance any rule can have.

    Accepts with probability sum(min(p, q)) = 1 - total variation distance.
    (Leviathan et al. 2023, arXiv:2211.17192; Chen et al. 2023, arXiv:2302.01318)
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def draft(self, q: Distribution, position: int, start: int) -> int:
        # `start` is new in every round: a position that is drafted twice must not see its first draw again, or what
        # that draw led to (a longer draft, another plan) would bias the second.
        return q.draw(uniform(self.seed, Use.DRAFT, position, start))

    def judge(self, p: Distribution, q: Distribution, drafted: int, position: int) -> Verdict:
        p_drafted, q_drafted = p.prob(drafted), q.prob(drafted)
        u = uniform(self.seed, Use.ACCEPT, position)
        if accepts(p_drafted, q_drafted, u):
            return Verdict(drafted, Fate.ACCEPTED, drafted, p_drafted, q_drafted, u)
        token = self.choose(residual(p, q), position)
        return Verdict(token, Fate.CORRECTION, drafted, p_drafted, q_drafted, u)

    def choose(self, p: Distribution, position: int) -> int:
        return p.draw(uniform(self.seed, Use.TARGET, position))


class CoupledRule:
    """Drafter and target choose with the same noise; the emitted token is always the target's own choice.

    The text depends on the seed and the target alone: the same in every drafting mode. Accepts a little less often
    than the ratio rule. (Daliri, Musco, Suresh 2024, "Coupling without Communication and Drafter-Invariant
    Speculative Decoding", arXiv:2408.07978)
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def draft(self, q: Distribution, position: int, start: int) -> int:
        return self.choose(q, position)

    def judge(self, p: Distribution, q: Distribution, drafted: int, position: int) -> Verdict:
        token = self.choose(p, position)
        fate = Fate.ACCEPTED if token == drafted else Fate.CORRECTION
        return Verdict(token, fate, drafted, p.prob(drafted), q.prob(drafted))

    def choose(self, p: Distribution, position: int) -> int:
        """Return the winner of a race in which token i needs Exponential(1) / p_i seconds.

        Token i wins with probability p_i. This is the Gumbel-max trick without its outer logarithm.
        """
        if p.ids.size == 1:
            return int(p.ids[0])
        with np.errstate(over="ignore"):  # the time of a hardly possible token may be infinite
            times = -np.log(uniforms(self.seed, Use.NOISE, position, p.ids)) / p.probs
        return int(p.ids[times.argmin()])
