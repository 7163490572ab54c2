"""Simulated replies: from the distributions of a model, by the real loop, and wrong rules show."""

from __future__ import annotations

from collections import Counter

import pytest
from fakes import FakeModel, enumerate_replies

from speclocal.decoding.acceptance import CoupledRule, RatioRule
from speclocal.decoding.randomness import Use, uniform
from speclocal.decoding.types import Distribution, Fate, SamplingParams, Verdict
from speclocal.jobs.goodness import fit
from speclocal.jobs.simulation import Place, distributions_along, rows_at, simulate, wrong_copy
from speclocal.jobs.wrong_rules import WRONG_RULES

TEXT = [0, 1, 0, 2, 0, 1]
WARM = SamplingParams(temperature=1.2, top_k=4)
SEEDS = range(2000)
FALSE_ALARM = 1e-4


def place(noise: float = 0.6, num_shared: int | None = None) -> Place:
    target = rows_at(FakeModel(), TEXT, WARM)
    firsts = target[()].ids.tolist()
    return Place(target, rows_at(FakeModel(noise=noise), TEXT, WARM, firsts, num_shared))


def copying() -> Place:
    target = rows_at(FakeModel(), TEXT, WARM)
    return Place(target, wrong_copy(target))


def test_the_chances_of_a_place_are_those_of_the_model() -> None:
    """First tokens and pairs have the chances that enumerating the model's replies gives."""
    assert place().first == pytest.approx(enumerate_replies(FakeModel(), TEXT, WARM, 1))
    assert place().pairs == pytest.approx(enumerate_replies(FakeModel(), TEXT, WARM, 2))


@pytest.mark.parametrize("where", [place(), place(num_shared=4), copying()], ids=["sampled", "smaller", "copied"])
@pytest.mark.parametrize("rule", [RatioRule, CoupledRule])
def test_right_rules_follow_the_target(where: Place, rule: type[RatioRule]) -> None:
    """Whatever drafts, one and two tokens follow p: false alarm once in 10,000 sets of seeds."""
    counts = simulate(where, rule, SEEDS)
    firsts: Counter[tuple[int, ...]] = Counter()
    for reply, count in counts.items():
        firsts[reply[:1]] += count
    assert counts.total() == len(SEEDS)
    assert fit(firsts, where.first).p_value > FALSE_ALARM
    assert fit(counts, where.pairs).p_value > FALSE_ALARM


@pytest.mark.parametrize("where", [place(), copying()], ids=["sampled", "copied"])
@pytest.mark.parametrize("mistake", WRONG_RULES)
def test_wrong_rules_do_not(where: Place, mistake: str) -> None:
    """The same samples of a rule with a mistake are far from p."""
    assert fit(simulate(where, WRONG_RULES[mistake], SEEDS), where.pairs).p_value < FALSE_ALARM / 100


class LikeliestWhereNothingWasDrafted(RatioRule):
    """Plain decoding, and the bonus after a draft, are greedy."""

    def choose(self, p: Distribution, position: int) -> int:
        return int(p.ids[p.probs.argmax()])

    def judge(self, p: Distribution, q: Distribution, drafted: int, position: int) -> Verdict:
        return RatioRule(self.seed).judge(p, q, drafted, position)


class BonusByTheLastDraw(LikeliestWhereNothingWasDrafted):
    """The bonus is drawn with the number that accepted the token before it."""

    def choose(self, p: Distribution, position: int) -> int:
        return p.draw(uniform(self.seed, Use.ACCEPT, position - 1))


class Credulous(RatioRule):
    """Accepts whatever is drafted."""

    def judge(self, p: Distribution, q: Distribution, drafted: int, position: int) -> Verdict:
        return Verdict(drafted, Fate.ACCEPTED, drafted)


def test_tokens_from_nowhere_are_impossible() -> None:
    """After a token that the target cannot emit, the tables know nothing: what is drafted then counts as no token."""
    target = rows_at(FakeModel(), TEXT, SamplingParams(temperature=1.2, top_k=2))
    where = Place(target, rows_at(FakeModel(noise=3.0), TEXT, WARM, target[()].ids.tolist()))
    counts = simulate(where, Credulous, SEEDS)
    assert counts.total() == len(SEEDS)
    assert any(-1 in reply for reply in counts)
    assert fit(counts, where.pairs).p_value == 0


@pytest.mark.parametrize("mistake", [LikeliestWhereNothingWasDrafted, BonusByTheLastDraw])
def test_mistakes_in_the_targets_own_tokens_show(mistake: type[RatioRule]) -> None:
    """Replies are drafted in several lengths, so tokens that nobody drafted are among the first two."""
    where = place(noise=0.3)
    assert fit(simulate(where, mistake, range(4000)), where.pairs).p_value < FALSE_ALARM / 100


def test_a_copy_is_certain_of_the_second_choice() -> None:
    """A copied draft is one-hot, and possible, and not what the target would choose first."""
    for start, p in rows_at(FakeModel(), TEXT, WARM).items():
        q = wrong_copy({start: p})[start]
        assert q.ids.size == 1
        assert sorted(p.probs.tolist())[-2] == p.prob(int(q.ids[0]))


def test_distributions_along_a_reply_are_those_at_its_tokens() -> None:
    """One pass over a reply gives what a pass at each of its places gives, for as many as fit into a pass."""
    reply = [3, 1, 4, 1, 5, 2, 0, 3]
    along = distributions_along(FakeModel(max_rows=5), TEXT, reply, WARM)
    assert len(along) == 5
    for i, p in enumerate(along):
        alone = rows_at(FakeModel(), [*TEXT, *reply[:i]], WARM, firsts=())[()]
        assert (p.ids.tolist(), p.probs.tolist()) == (alone.ids.tolist(), alone.probs.tolist())
