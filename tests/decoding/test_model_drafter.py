"""A draft model: drafts by the target's own book, and keeps its own cache in order."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from fakes import GREEDY, DieDrafter, FakeModel, plain_greedy, run

from speclocal.decoding.acceptance import CoupledRule, RatioRule
from speclocal.decoding.drafters.model import ModelDrafter
from speclocal.decoding.planner import FixedPlanner
from speclocal.decoding.sampling import PENALTY_WINDOW, distribution
from speclocal.decoding.types import Distribution, Drafter, Fate, Logits, NeverStop, Plan, Round, Rule, SamplingParams

pytestmark = pytest.mark.filterwarnings("error")

HOT = SamplingParams(temperature=1, top_k=0, top_p=1)
PENALIZED = replace(HOT, repeat_penalty=1.3)
FILTERED = SamplingParams(temperature=0.8, top_k=4, top_p=0.9, min_p=0.05, repeat_penalty=1.3)
every_params = pytest.mark.parametrize(
    "params", [GREEDY, HOT, PENALIZED, FILTERED], ids=["greedy", "hot", "penalized", "filtered"]
)
WINDOW = [5, *[0, 1] * ((PENALTY_WINDOW - 2) // 2), 0]  # token 5 is in the window, and leaves it next
every_rule = pytest.mark.parametrize("rule", [RatioRule(3), CoupledRule(3)], ids=["ratio", "coupled"])


class Turns:
    """Takes one drafter after the other, with drafts of the given sizes, then begins again."""

    def __init__(self, *turns: tuple[Drafter, int]) -> None:
        self.turns = turns
        self.num_rounds = 0

    def begin(self, tokens: Sequence[int]) -> None:
        for drafter, _ in self.turns:
            drafter.begin(tokens)

    def plan(self, tokens: Sequence[int], limit: int) -> Plan:
        return Plan(*self.turns[self.num_rounds % len(self.turns)])

    def observe(self, round_: Round) -> None:
        self.num_rounds += 1


@every_rule
@every_params
@pytest.mark.parametrize("prompt", [[0], WINDOW, [2, *WINDOW]], ids=["short", "window", "longer"])
def test_target_accepts_all_of_its_own_drafts(rule: Rule, params: SamplingParams, prompt: list[int]) -> None:
    """A model that drafts for itself has q = p: same penalties, drafted tokens in the context, same filters."""
    drafter = ModelDrafter(FakeModel(context_size=200))
    rounds = list(run(FakeModel(context_size=200), list(prompt), FixedPlanner(drafter, 3), rule, params, budget=40))
    assert len(rounds) == 10
    assert all(round_.num_accepted == round_.num_drafted == 3 for round_ in rounds)
    assert all(verdict.p == verdict.q for round_ in rounds for verdict in round_.verdicts)


@every_rule
@every_params
def test_each_q_is_what_its_token_was_drawn_from(rule: Rule, params: SamplingParams) -> None:
    """q is the draft model's distribution after the text and the tokens drafted before, and holds the token."""
    model, tokens = FakeModel(seed=4), [0, 1, 2, 3, 3]
    drafter = ModelDrafter(model)
    drafter.begin(tokens)
    proposal = drafter.propose(tokens, 6, params, rule, NeverStop())
    assert len(proposal.tokens) == len(proposal.distributions) == 6
    for i, (token, q) in enumerate(zip(proposal.tokens, proposal.distributions, strict=True)):
        context = [*tokens, *proposal.tokens[:i]]
        expected = distribution(model.logits_after(context), context, params)
        assert q.ids.tolist() == expected.ids.tolist()
        assert q.probs.tolist() == expected.probs.tolist()
        assert token == rule.draft(q, len(context), len(tokens))


def test_nothing_is_read_twice() -> None:
    """Without rejections the draft model reads every token once, in passes as wide as it allows."""
    model, tokens = FakeModel(max_pass=5), [0, 1, 2, 3, 4, 5, 0, 1]
    list(run(FakeModel(), tokens, FixedPlanner(ModelDrafter(model), 3), RatioRule(1), budget=12))
    assert sum(model.widths) == len(model.cached)
    assert max(model.widths) == 5


def test_rejected_drafts_are_dropped_from_the_cache() -> None:
    """After rejections the draft model reads the correction, not the whole text again."""
    model = FakeModel(seed=9)
    rounds = list(run(FakeModel(), [0, 1, 2, 3], FixedPlanner(ModelDrafter(model), 3), RatioRule(1), budget=20))
    assert any(round_.num_accepted < round_.num_tested for round_ in rounds)
    assert sum(model.widths) <= 3 + sum(max(1, len(round_.tokens)) + round_.num_drafted for round_ in rounds)


def test_pauses_are_caught_up() -> None:
    """A draft model that sat out some rounds reads what it missed."""
    drafter = ModelDrafter(FakeModel())
    tokens = [0, 1]
    planner = Turns((drafter, 3), (DieDrafter(Distribution.one_hot(5)), 2), (drafter, 0), (drafter, 2))
    list(run(FakeModel(), tokens, planner, RatioRule(1), budget=30))
    assert tokens[2:] == plain_greedy([0, 1], 30)
    assert drafter.model.cached == tokens[: len(drafter.model.cached)]


@pytest.mark.parametrize("can_rollback", [True, False])
def test_text_may_change_between_replies(can_rollback: bool) -> None:
    """A text that was cut or replaced is read again from where it differs, and drafts are as from a new model."""
    drafter = ModelDrafter(FakeModel(can_rollback=can_rollback))
    for tokens in ([0, 1, 2, 3, 4], [0, 1, 2], [5, 4, 3, 2, 1, 0], [0], [5, 4, 3, 2, 0, 0, 0]):
        drafter.begin(tokens)
        proposal = drafter.propose(tokens, 3, GREEDY, RatioRule(0), NeverStop())
        assert list(proposal.tokens) == plain_greedy(tokens, 3)
        assert drafter.model.cached == [*tokens, *proposal.tokens[:-1]]


class Until(NeverStop):
    """Drafts or keeps tokens up to number `end`, and writes down what it was asked."""

    def __init__(self, end: int, question: str) -> None:
        self.end, self.question = end, question
        self.asked: list[tuple[str, int]] = []
        self.seen: list[Logits] = []

    def wants_step(self, drafted: Sequence[int]) -> bool:
        index = len(drafted)
        self.asked.append(("drafting", index))
        return self.question != "drafting" or index < self.end

    def wants_token(self, index: int, logits: Logits) -> bool:
        self.asked.append(("keeping", index))
        self.seen.append(logits.copy())
        return self.question != "keeping" or index < self.end


@pytest.mark.parametrize("question", ["drafting", "keeping"])
@pytest.mark.parametrize("end", range(5))
def test_drafting_stops_when_it_is_not_worth_it(end: int, question: str) -> None:
    """Before every step and before every draw it is asked, in turn; no token is drawn after a no."""
    model, worth = FakeModel(), Until(end, question)
    drafter = ModelDrafter(model)
    drafter.begin([0, 1])
    proposal = drafter.propose([0, 1], 4, HOT, RatioRule(0), worth)
    assert len(proposal.tokens) == min(end, 4)
    in_turn = [(question, i) for i in range(4) for question in ("drafting", "keeping")]
    assert worth.asked == in_turn[: len(worth.asked)]
    assert len(worth.asked) == min(8, 2 * end + (1 if question == "drafting" else 2))
    for i, logits in enumerate(worth.seen):
        assert logits.tolist() == model.logits_after([0, 1, *proposal.tokens[:i]]).tolist()


TEXT = [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0]


def is_part(part: Sequence[int], text: Sequence[int]) -> bool:
    return any(list(text[i : i + len(part)]) == list(part) for i in range(len(text)))


@pytest.mark.parametrize("context_size", range(2, 9))
def test_text_longer_than_the_context_is_drafted_from_its_end(context_size: int) -> None:
    """A small draft model reads as much as fits, and its drafts still follow the text."""
    for num_tokens in range(1, len(TEXT)):
        drafter, tokens = ModelDrafter(FakeModel(context_size=context_size)), TEXT[:num_tokens]
        drafter.begin(tokens)
        drafted = list(drafter.propose(tokens, 4, GREEDY, RatioRule(0), NeverStop()).tokens)
        assert 1 <= len(drafted) <= 4
        assert is_part(drafter.model.cached, [*tokens, *drafted])
        if context_size >= 4:  # the fake model looks back two tokens, and so far it has read
            assert drafted == plain_greedy(tokens, 4)[: len(drafted)]


@pytest.mark.parametrize("tail", [2, 3, 5])
@pytest.mark.parametrize("max_pass", [2, 16])
def test_tail_limits_what_is_read_at_once(tail: int, max_pass: int) -> None:
    """With a tail, no more tokens than that are read before the first guess, and no more than `backlog` promised."""
    model = FakeModel(max_pass=max_pass)
    drafter = ModelDrafter(model, tail=tail)
    drafter.begin(TEXT[:1])
    for num_tokens in (1, 3, 9, 10, 13):
        tokens = TEXT[:num_tokens]
        promised, before = drafter.backlog(tokens), sum(model.widths)
        drafted = list(drafter.propose(tokens, 1, GREEDY, RatioRule(0), NeverStop()).tokens)
        assert sum(model.widths) - before <= promised <= tail
        assert drafted == plain_greedy(tokens, 1)
        assert is_part(model.cached, tokens)


@pytest.mark.parametrize("second", [[0], [0, 1], [2, 2], TEXT[:6], [*TEXT, 1, 1, 1], [5, *TEXT[1:]]])
def test_text_may_change_after_only_its_tail_was_read(second: list[int]) -> None:
    """A shorter, longer or other text after one of which only the end was read is drafted like any."""
    for options in ({"tail": 3}, {"tail": None}):
        drafter = ModelDrafter(FakeModel(context_size=8), **options)
        for tokens in (TEXT, second):
            drafter.begin(tokens)
            drafted = list(drafter.propose(tokens, 1, GREEDY, RatioRule(0), NeverStop()).tokens)
        assert drafted == plain_greedy(second, 1)
        assert is_part(drafter.model.cached, second)


def test_ids_that_are_not_shared_are_never_drafted() -> None:
    """Of a larger vocabulary only the shared ids get probability, and they add up to one."""
    drafter = ModelDrafter(FakeModel(vocab_size=12), num_shared=6)
    drafter.begin([0, 1])
    proposal = drafter.propose([0, 1], 8, HOT, RatioRule(0), NeverStop())
    assert max(q.ids.max() for q in proposal.distributions) < 6
    assert [q.probs.sum() for q in proposal.distributions] == pytest.approx([1] * 8)


@pytest.mark.parametrize("prompt", [[0, 5], [5, 0], [0, 5, 1, 2]])
def test_text_the_drafter_cannot_read_gets_no_draft(prompt: list[int]) -> None:
    """An id the drafter lacks is never fed to it, wherever it stands, until the next text."""
    drafter = ModelDrafter(FakeModel(vocab_size=4))
    drafter.begin(prompt)
    assert drafter.propose(prompt, 3, GREEDY, RatioRule(0), NeverStop()).tokens == ()
    assert drafter.propose([*prompt, 1], 3, GREEDY, RatioRule(0), NeverStop()).tokens == ()
    assert drafter.model.cached == []
    drafter.begin([0, 1])
    assert len(drafter.propose([0, 1], 3, GREEDY, RatioRule(0), NeverStop()).tokens) == 3


@pytest.mark.parametrize("pause", [1, 2, 3])
def test_id_the_drafter_lacks_may_come_while_another_drafts(pause: int) -> None:
    """An unreadable id in the middle of what the drafter missed is noticed too."""
    drafter = ModelDrafter(FakeModel(vocab_size=4))
    drafter.begin([0, 1])
    drafter.propose([0, 1], 2, GREEDY, RatioRule(0), NeverStop())
    tokens = [0, 1, 2, 5, *[3] * pause]
    assert drafter.propose(tokens, 2, GREEDY, RatioRule(0), NeverStop()).tokens == ()
    assert 5 not in drafter.model.cached


def test_smaller_vocabulary_still_drafts() -> None:
    """While the text stays within the shared ids, a smaller vocabulary drafts and is accepted."""
    model = FakeModel(vocab_size=5)
    target = FakeModel(vocab_size=5)
    rounds = list(run(target, [0], FixedPlanner(ModelDrafter(model, num_shared=5), 3), RatioRule(1), HOT, budget=16))
    assert len(rounds) == 4
    assert all(verdict.fate is Fate.ACCEPTED for round_ in rounds for verdict in round_.verdicts[:-1])


def test_failing_draft_model_leaves_the_target_alone() -> None:
    """An error while drafting comes before the pass: tokens and the target's cache stay as they were."""

    class Broken(FakeModel):
        def forward(self, tokens: Sequence[int], num_rows: int) -> np.ndarray:
            if len(self.widths) > 4:
                raise OSError("no device")
            return super().forward(tokens, num_rows)

    target, tokens, before = FakeModel(), [0, 1], [0, 1]
    with pytest.raises(OSError, match="no device"):  # noqa: PT012
        for _ in run(target, tokens, FixedPlanner(ModelDrafter(Broken()), 2), RatioRule(1)):
            before = list(tokens)
    assert tokens == before
    assert len(tokens) > 2
    assert target.cached == tokens[:-1]
