"""The rules: what is emitted follows the target's distribution, whatever was drafted; and the test can tell."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from fakes import DieDrafter, FakeModel, GreedyDrafter, chi_square, enumerate_replies, run

from speclocal.decoding.acceptance import CoupledRule, RatioRule, accepts, residual
from speclocal.decoding.drafters import NoDrafter
from speclocal.decoding.drafters.lookup import LookupDrafter
from speclocal.decoding.drafters.model import ModelDrafter
from speclocal.decoding.planner import FixedPlanner
from speclocal.decoding.randomness import Use, uniform
from speclocal.decoding.types import (
    Distribution,
    Drafter,
    Fate,
    Logits,
    NeverStop,
    Plan,
    Planner,
    Round,
    Rule,
    SamplingParams,
    Verdict,
)
from speclocal.jobs.wrong_rules import OneDrawForBoth, TargetForResidual

pytestmark = pytest.mark.filterwarnings("error")

PROMPT = [0, 1, 0, 2, 0, 1]
PLAIN = SamplingParams(temperature=0.9, top_k=0, top_p=1)
FILTERED = SamplingParams(temperature=1.1, top_k=3, top_p=0.9, min_p=0.05, repeat_penalty=1.2)
FALSE_ALARM = 1e-4
LENGTH = 3


def dist(*probs: float) -> Distribution:
    """Return the distribution that gives token i the i-th probability."""
    dense = np.array(probs)
    return Distribution(np.flatnonzero(dense), dense[dense > 0])


def random_pair(seed: int) -> tuple[Distribution, Distribution]:
    """Return two distributions over up to 12 tokens with supports of their own."""
    rng = np.random.default_rng(seed)

    def one() -> Distribution:
        ids = np.sort(rng.choice(12, rng.integers(1, 13), replace=False))
        return Distribution(ids, rng.dirichlet(np.full(ids.size, 0.5)).clip(1e-12))

    return one(), one()


def target() -> FakeModel:
    return FakeModel(vocab_size=4, sharpness=1.0)


def p_value(
    make_rule: Callable[[int], Rule],
    make_planner: Callable[[], Planner],
    params: SamplingParams = PLAIN,
    num_samples: int = 1200,
) -> float:
    """Return the p-value of the first tokens of many replies, one per seed, against the enumerated distribution."""
    planner, model = make_planner(), target()
    observed: Counter[tuple[int, ...]] = Counter()
    for seed in range(num_samples):
        tokens = list(PROMPT)
        for _ in run(model, tokens, planner, make_rule(seed), params, budget=LENGTH):
            pass
        observed[tuple(tokens[len(PROMPT) :])] += 1
    return chi_square(observed, enumerate_replies(model, PROMPT, params, LENGTH))


def fixed(drafter: Drafter) -> Planner:
    return FixedPlanner(drafter, LENGTH - 1)


class Picky(NeverStop):
    """Keeps a second token where the draft model is sure enough."""

    def wants_token(self, index: int, logits: Logits) -> bool:
        return index == 0 or bool(logits.max() - logits.mean() > 1)


class NosyPlanner:
    """Chooses the next draft length by everything it has seen: emitted tokens, rejected tokens, chance itself."""

    def __init__(self, drafter: Drafter) -> None:
        self.drafter = drafter
        self.last: Round | None = None

    def begin(self, tokens: Sequence[int]) -> None:
        self.drafter.begin(tokens)
        self.last = None

    def plan(self, tokens: Sequence[int], limit: int) -> Plan:
        if self.last is None:
            return Plan(self.drafter, 2, stop=Picky())
        seen = [*self.last.proposal.tokens[len(self.last.tokens) :], *self.last.tokens]
        return Plan(self.drafter, 0 if seen[0] < 2 else 1)

    def observe(self, round_: Round) -> None:
        self.last = round_


PLANNERS: dict[str, Callable[[], Planner]] = {
    "nothing": lambda: fixed(NoDrafter()),
    "sampled": lambda: fixed(ModelDrafter(FakeModel(vocab_size=4, sharpness=1.0, noise=1.0))),
    "argmax": lambda: fixed(GreedyDrafter(FakeModel(vocab_size=4, sharpness=1.0, noise=1.0))),
    "lookup": lambda: fixed(LookupDrafter()),
    "die": lambda: fixed(DieDrafter(dist(0.1, 0.2, 0.3, 0.4))),
    "nosy planner": lambda: NosyPlanner(DieDrafter(dist(0.1, 0.2, 0.3, 0.4))),
    "nosy planner, sampled": lambda: NosyPlanner(ModelDrafter(FakeModel(vocab_size=4, sharpness=1.0, noise=1.0))),
}


@pytest.mark.parametrize("drafted", ["nothing", "sampled", "argmax", "lookup", "die", "nosy planner, sampled"])
def test_ratio_rule_follows_the_target(drafted: str) -> None:
    """The first tokens follow the target's distribution; a right rule fails once in 10,000 sets of seeds."""
    assert p_value(RatioRule, PLANNERS[drafted]) > FALSE_ALARM


@pytest.mark.parametrize("drafted", ["argmax", "lookup", "nosy planner, sampled"])
def test_ratio_rule_follows_the_filtered_target(drafted: str) -> None:
    """The same where penalty, top-k, top-p and min-p differ between p and q; false alarm once in 10,000."""
    assert p_value(RatioRule, PLANNERS[drafted], FILTERED) > FALSE_ALARM


@pytest.mark.parametrize("drafted", ["nothing", "sampled", "lookup", "nosy planner"])
def test_coupled_rule_follows_the_target(drafted: str) -> None:
    """Over seeds, the first tokens follow the target's distribution; false alarm once in 10,000 sets of seeds."""
    assert p_value(CoupledRule, PLANNERS[drafted]) > FALSE_ALARM


class DraftDrawForAccept(RatioRule):
    """Accepts with the number that drafted."""

    def draft(self, q: Distribution, position: int, start: int) -> int:
        return q.draw(uniform(self.seed, Use.ACCEPT, position))


class AlwaysAccepts(RatioRule):
    """Believes the drafter."""

    def judge(self, p: Distribution, q: Distribution, drafted: int, position: int) -> Verdict:
        return Verdict(drafted, Fate.ACCEPTED, drafted)


class AcceptsByTargetAlone(RatioRule):
    """Accepts with probability p(x), as if q were one-hot."""

    def judge(self, p: Distribution, q: Distribution, drafted: int, position: int) -> Verdict:
        if uniform(self.seed, Use.ACCEPT, position) < p.prob(drafted):
            return Verdict(drafted, Fate.ACCEPTED, drafted)
        return Verdict(self.choose(residual(p, q), position), Fate.CORRECTION, drafted)


class AcceptsTheLikeliest(RatioRule):
    """Accepts what is the target's most likely token."""

    def judge(self, p: Distribution, q: Distribution, drafted: int, position: int) -> Verdict:
        if drafted == p.ids[p.probs.argmax()]:
            return Verdict(drafted, Fate.ACCEPTED, drafted)
        return Verdict(self.choose(p, position), Fate.CORRECTION, drafted)


@pytest.mark.parametrize(
    ("wrong", "drafted"),
    [
        (TargetForResidual, "sampled"),
        (TargetForResidual, "argmax"),
        (TargetForResidual, "lookup"),
        (OneDrawForBoth, "sampled"),
        (OneDrawForBoth, "argmax"),
        (DraftDrawForAccept, "sampled"),
        (AlwaysAccepts, "sampled"),
        (AlwaysAccepts, "argmax"),
        (AlwaysAccepts, "lookup"),
        (AcceptsByTargetAlone, "sampled"),
        (AcceptsTheLikeliest, "sampled"),
        (AcceptsTheLikeliest, "lookup"),
    ],
)
def test_wrong_rules_are_caught(wrong: type[RatioRule], drafted: str) -> None:
    """The test of the ratio rule rejects rules with one mistake in them, even with fewer samples."""
    assert p_value(wrong, PLANNERS[drafted], num_samples=500) < FALSE_ALARM / 100


class DraftsAgain(RatioRule):
    """Drafts a position with the same number in every round."""

    def draft(self, q: Distribution, position: int, start: int) -> int:
        return super().draft(q, position, 0)


def test_planner_that_saw_a_rejected_draft_needs_new_draws() -> None:
    """A position drafted twice with one number is biased by a planner that looks at the first draft.

    With a new number in every round it is not: false alarm once in 10,000 sets of seeds.
    """
    assert p_value(DraftsAgain, PLANNERS["nosy planner"], num_samples=3000) < FALSE_ALARM / 100
    assert p_value(RatioRule, PLANNERS["nosy planner"], num_samples=3000) > FALSE_ALARM


def test_first_worked_example_is_accepted() -> None:
    """Draft A with q .6 and p .3: kept below the threshold .5, so at r = .3."""
    assert accepts(p=0.3, q=0.6, u=0.3)
    assert accepts(p=0.3, q=0.6, u=0.4999)
    assert not accepts(p=0.3, q=0.6, u=0.5)


def test_second_worked_example_is_corrected() -> None:
    """Draft B with q .5 and p .1: rejected at r = .6 (threshold .2), and the residual leaves C alone."""
    p, q = dist(0.1, 0.1, 0.8), dist(0.2, 0.5, 0.3)
    assert not accepts(p.prob(1), q.prob(1), u=0.6)
    left = residual(p, q)
    assert left.ids.tolist() == [2]
    assert left.probs.tolist() == pytest.approx([1])


def test_worked_examples_make_a_round_of_a_and_c() -> None:
    """With r = (.3, .6) the rule keeps A, rejects B, and emits C in its place."""
    p1, q1 = dist(0.3, 0.5, 0.2), dist(0.6, 0.3, 0.1)
    p2, q2 = dist(0.1, 0.1, 0.8), dist(0.2, 0.5, 0.3)
    draws = {seed: [uniform(seed, Use.ACCEPT, position) for position in (0, 1)] for seed in range(5000)}
    seed = min(draws, key=lambda seed: abs(draws[seed][0] - 0.3) + abs(draws[seed][1] - 0.6))
    assert draws[seed] == pytest.approx([0.3, 0.6], abs=0.02)
    first, second = RatioRule(seed).judge(p1, q1, 0, 0), RatioRule(seed).judge(p2, q2, 1, 1)
    assert (first.token, first.fate, first.p, first.q) == (0, Fate.ACCEPTED, 0.3, 0.6)
    assert (second.token, second.fate, second.p, second.q) == (2, Fate.CORRECTION, 0.1, 0.5)
    assert [first.draw, second.draw] == draws[seed]


@pytest.mark.parametrize("seed", range(50))
def test_accepting_and_residual_add_up_to_the_target(seed: int) -> None:
    """For every token: min(p, q) + (1 - sum of min(p, q)) * residual = p, and the residual is a distribution."""
    p, q = random_pair(seed)
    left = residual(p, q)
    kept = {token: min(p.prob(token), q.prob(token)) for token in range(12)}
    rejected = 1 - sum(kept.values())
    for token, chance in kept.items():
        assert chance + rejected * left.prob(token) == pytest.approx(p.prob(token), abs=1e-9)
    assert left.probs.sum() == pytest.approx(1)
    assert (left.probs > 0).all()
    assert (np.diff(left.ids) > 0).all()


@pytest.mark.parametrize("seed", range(20))
def test_equal_distributions_always_accept(seed: int) -> None:
    """Where p is q, both rules keep every drafted token, and the residual falls back to p."""
    p, _ = random_pair(seed)
    for position in range(50):
        for rule in (RatioRule(seed), CoupledRule(seed)):
            drafted = rule.draft(p, position, 0)
            assert rule.judge(p, p, drafted, position).fate is Fate.ACCEPTED
    assert residual(p, p) is p


@pytest.mark.parametrize(
    ("p", "q"),
    [
        (dist(0.2, 0.8, 0, 0), dist(0, 0, 0.5, 0.5)),
        (dist(0, 0, 0.3, 0.7), dist(0.5, 0.5, 0, 0)),
        (dist(0.25, 0, 0.75, 0), dist(0, 1, 0, 0)),
        (dist(0, 1), dist(1, 0)),
    ],
)
def test_disjoint_distributions_always_reject(p: Distribution, q: Distribution) -> None:
    """Where p and q share no token, both rules reject every draft, and the residual is p."""
    for position in range(50):
        for rule in (RatioRule(1), CoupledRule(1)):
            verdict = rule.judge(p, q, rule.draft(q, position, 0), position)
            assert verdict.fate is Fate.CORRECTION
            assert verdict.token in p.ids
    assert residual(p, q).ids.tolist() == p.ids.tolist()
    assert residual(p, q).probs == pytest.approx(p.probs)


def test_residual_of_rounding_size_is_the_target() -> None:
    """A difference that is only rounding is not a distribution: the correction then comes from p."""
    p = dist(0.1, 0.2, 0.7)
    q = Distribution(p.ids, p.probs * (1 - 2**-53))
    assert residual(p, q) is p


def test_impossible_draft_is_rejected_even_by_a_drafter_that_denies_it() -> None:
    """A token outside p is never emitted, also when its q is zero."""
    p, q = dist(0, 0.5, 0.5), dist(0, 1)
    for seed in range(50):
        assert RatioRule(seed).judge(p, q, 0, 0).token != 0
        assert CoupledRule(seed).judge(p, q, 0, 0).token != 0


@pytest.mark.parametrize("seed", range(20))
def test_coupled_rule_emits_the_choice_of_the_target(seed: int) -> None:
    """The token does not depend on what was drafted, from which q or in which round."""
    p, q = random_pair(seed)
    rule = CoupledRule(seed)
    for position in range(20):
        choice = rule.choose(p, position)
        assert {rule.judge(p, q, drafted, position).token for drafted in range(12)} == {choice}
        assert len({rule.draft(q, position, start) for start in range(5)}) == 1


def test_coupled_rule_survives_probabilities_near_zero() -> None:
    """A token of the smallest positive probability is a candidate like any other, without a warning."""
    p = Distribution(np.arange(3), np.array([5e-324, 1.0, 1e-310]))
    assert {CoupledRule(seed).choose(p, 0) for seed in range(50)} == {1}


def test_ratio_rule_accepts_more_than_the_coupled_rule() -> None:
    """Over random pairs the ratio rule keeps sum(min(p, q)) of the drafts, the coupled rule a little less."""
    kept, promised = {RatioRule: 0, CoupledRule: 0}, 0.0
    for seed in range(2000):
        p, q = random_pair(seed)
        promised += sum(min(p.prob(token), q.prob(token)) for token in range(12))
        for make in kept:
            rule = make(seed)
            kept[make] += rule.judge(p, q, rule.draft(q, 0, 0), 0).fate is Fate.ACCEPTED
    assert kept[RatioRule] == pytest.approx(promised, abs=4 * 2000**0.5 / 2)
    assert promised / 2 < kept[CoupledRule] < kept[RatioRule]
