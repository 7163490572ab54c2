"""The round: the text is the target's own, the caches are consistent, and nothing is emitted twice or too much."""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import product

import numpy as np
import pytest
from fakes import DRAFTERS, GREEDY, MODES, FakeModel, plain_greedy, reply, run

from speclocal.decoding.acceptance import CoupledRule, RatioRule
from speclocal.decoding.drafters import NoDrafter
from speclocal.decoding.drafters.lookup import LookupDrafter
from speclocal.decoding.drafters.model import ModelDrafter
from speclocal.decoding.loop import common_prefix, reading
from speclocal.decoding.planner import FixedPlanner
from speclocal.decoding.types import Fate, Finish, Logits, Rule, SamplingParams
from speclocal.errors import LogitsError

pytestmark = pytest.mark.filterwarnings("error")

PROMPTS = ([0], [3, 3, 3], [5, 0, 4, 4, 1, 5, 0], [0, 1, 2, 3, 4, 5, 0, 1, 2, 0, 1])
every_mode = pytest.mark.parametrize("mode", MODES)
every_rule = pytest.mark.parametrize("rule", [RatioRule(7), CoupledRule(7)], ids=["ratio", "coupled"])


def stop_after(num_tokens: int) -> Callable[[int], Finish | None]:
    """Return an `ends` that makes the given number of tokens the whole reply."""
    asked: list[int] = []
    return lambda token: Finish.EOS if asked.append(token) or len(asked) == num_tokens else None


@every_mode
@pytest.mark.parametrize("size", range(9))
def test_greedy_text_is_plain_greedy_text(mode: str, size: int) -> None:
    """At temperature 0 every mode, draft length, budget and prompt gives the target's most likely tokens."""
    for prompt in PROMPTS:
        expected = plain_greedy(prompt)
        for budget in range(13):
            rule = (RatioRule, CoupledRule)[budget % 2](size)
            assert reply(MODES[mode](size), rule, prompt, budget=budget) == expected[:budget], (prompt, budget)


@every_mode
@pytest.mark.parametrize("size", [0, 3, 8])
def test_nothing_follows_the_token_that_ends_the_reply(mode: str, size: int) -> None:
    """Wherever the reply ends, even inside an accepted draft, later tokens are not emitted, counted or cached."""
    for prompt, num_tokens in product(PROMPTS, range(1, 13)):
        target, tokens = FakeModel(), list(prompt)
        rounds = list(run(target, tokens, MODES[mode](size), RatioRule(1), ends=stop_after(num_tokens)))
        assert tokens[len(prompt) :] == plain_greedy(prompt, num_tokens)
        assert [token for round_ in rounds for token in round_.tokens] == tokens[len(prompt) :]
        assert [round_.finish for round_ in rounds] == [None] * (len(rounds) - 1) + [Finish.EOS]
        assert target.cached == tokens[:-1]


@cache
def plain_coupled(seed: int, prompt: tuple[int, ...], params: SamplingParams, budget: int) -> list[int]:
    return reply(MODES["off"](0), CoupledRule(seed), prompt, params, budget)


@pytest.mark.parametrize("temperature", [0, 5e-324, 1e-300, 0.8, 5])
@every_mode
def test_coupled_text_is_the_same_in_every_mode(mode: str, temperature: float) -> None:
    """Same seed, same text, whatever drafts and however many, under all sampling parameters."""
    filters = product((0, 1, 5), (0, 0.5, 1), (0, 0.1, 1), (1, 1.3))
    for i, (top_k, top_p, min_p, penalty) in enumerate(filters):
        params = SamplingParams(temperature, top_k, top_p, min_p, penalty)
        prompt = tuple(PROMPTS[i % len(PROMPTS)])
        text = reply(MODES[mode](1 + i % 8), CoupledRule(i), prompt, params, budget=7)
        assert text == plain_coupled(i, prompt, params, budget=7), (prompt, params)


def test_seeds_give_different_texts() -> None:
    """The seed decides the text: 20 seeds do not agree on one reply, under either rule."""
    params = SamplingParams(temperature=1)
    for make in (RatioRule, CoupledRule):
        assert len({tuple(reply(MODES["off"](0), make(seed), [0], params)) for seed in range(20)}) > 10


@pytest.mark.parametrize("size", range(4))
@every_rule
def test_reply_depends_on_seed_alone(rule: Rule, size: int) -> None:
    """The same call gives the same text again, under the ratio rule too."""
    params = SamplingParams(temperature=1)
    first, second = (reply(MODES["similar model"](size), rule, [0], params) for _ in range(2))
    assert first == second


@every_mode
@every_rule
def test_caches_are_consistent_after_every_round(mode: str, rule: Rule) -> None:
    """The target has read every token but the last; a draft model a prefix of the text and its own last guesses."""
    for prompt, size, temperature in product(PROMPTS, (1, 4), (0, 1)):
        target, tokens, planner = FakeModel(), list(prompt), MODES[mode](size)
        guessed = before = list(tokens)
        for round_ in run(target, tokens, planner, rule, SamplingParams(temperature)):
            assert target.cached == tokens[:-1]
            if isinstance(drafter := getattr(planner, "drafter", None), ModelDrafter):
                guessed = [*before, *round_.proposal.tokens] if round_.num_drafted else guessed
                cached, start = drafter.model.cached, drafter._start
                assert cached == guessed[start : start + len(cached)]
            before = list(tokens)


@every_mode
def test_consumer_may_stop_after_any_round(mode: str) -> None:
    """A closed generator leaves a consistent cache, and another one goes on as if nothing had happened."""
    expected = plain_greedy([0, 1])
    for num_rounds in range(1, 5):
        target, tokens, planner = FakeModel(), [0, 1], MODES[mode](2)
        rounds = run(target, tokens, planner, RatioRule(1))
        for _ in range(num_rounds):
            next(rounds, None)
        rounds.close()
        assert target.cached == tokens[:-1]
        list(run(target, tokens, planner, RatioRule(1), budget=14 - len(tokens)))
        assert tokens[2:] == expected


class FailingModel(FakeModel):
    """Fails in pass number `failing`, before or after it changed the cache, or returns NaN in one row of it."""

    def __init__(self, failing: int, how: str) -> None:
        super().__init__()
        self.failing, self.how = failing, how
        self.num_passes = 0

    def forward(self, tokens: Sequence[int], num_rows: int) -> Logits:
        failing = self.num_passes == self.failing
        self.num_passes += 1
        if failing and self.how == "before":
            raise OSError("no device")
        logits = super().forward(tokens, num_rows)
        if failing and self.how == "after":
            raise OSError("no device")
        if failing and self.how == "nan":
            logits[0, -1] = np.nan
        return logits


@every_mode
@pytest.mark.parametrize(("how", "error"), [("before", OSError), ("after", OSError), ("nan", LogitsError)])
def test_failed_pass_changes_nothing(mode: str, how: str, error: type[Exception]) -> None:
    """After an error from the target, tokens and cache are those of the round before, and the reply can go on."""
    expected = plain_greedy([0, 1])
    for failing in range(1, 4):
        target, tokens, planner = FailingModel(failing, how), [0, 1], MODES[mode](1)
        before = []
        with pytest.raises(error):  # noqa: PT012
            for _ in run(target, tokens, planner, RatioRule(1)):
                before = list(tokens)
        assert tokens == (before or [0, 1])
        assert target.cached == tokens[:-1]
        list(run(target, tokens, planner, RatioRule(1), budget=14 - len(tokens)))
        assert tokens[2:] == expected


@pytest.mark.parametrize("failing", range(1, 9))
def test_failing_end_check_changes_nothing(failing: int) -> None:
    """An error from `ends`, inside an accepted draft or not, drops the whole round."""

    def ends(token: int) -> Finish | None:
        asked.append(token)
        if len(asked) == failing:
            raise KeyboardInterrupt
        return None

    asked: list[int] = []
    target, tokens, before = FakeModel(), [0, 1], [0, 1]
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        for _ in run(target, tokens, MODES["itself"](3), RatioRule(1), ends=ends):
            before = list(tokens)
    assert tokens == before
    assert target.cached == tokens[:-1]


@every_mode
@pytest.mark.parametrize("size", [0, 1, 4, 8])
def test_last_place_in_the_context_is_used(mode: str, size: int) -> None:
    """The text grows to one token more than the context holds, never further, and says why it ends."""
    for prompt, room in product(PROMPTS, range(7)):
        target, tokens = FakeModel(context_size=len(prompt) + room), list(prompt)
        rounds = list(run(target, tokens, MODES[mode](size), RatioRule(1), budget=99))
        assert tokens[len(prompt) :] == plain_greedy(prompt, room + 1)
        assert rounds[-1].finish is Finish.CONTEXT


def test_no_room_gives_no_round() -> None:
    """Without budget, or with a text already longer than the context, nothing is emitted."""
    planner = MODES["itself"](3)
    assert list(run(FakeModel(), [0, 1], planner, RatioRule(1), budget=0)) == []
    assert list(run(FakeModel(context_size=3), [0, 1, 2, 3], planner, RatioRule(1))) == []


def test_budget_names_the_finish_before_the_context_does() -> None:
    """A reply that uses up budget and context with the same token was ended by its budget; an end beats both."""
    rounds = list(run(FakeModel(context_size=4), [0, 1], MODES["off"](0), RatioRule(1), budget=3))
    assert rounds[-1].finish is Finish.LENGTH
    rounds = list(run(FakeModel(context_size=4), [0, 1], MODES["off"](0), RatioRule(1), budget=3, ends=stop_after(3)))
    assert rounds[-1].finish is Finish.EOS


@pytest.mark.parametrize("budget", [1, 2, 5])
def test_drafts_are_cut_to_the_budget(budget: int) -> None:
    """No token is drafted that the budget could not hold: one place is the target's own."""
    target, tokens = FakeModel(), [0]
    (round_,) = run(target, tokens, MODES["itself"](8), RatioRule(1), budget=budget)
    assert round_.num_drafted == budget - 1
    assert round_.num_accepted == budget - 1
    assert [verdict.fate for verdict in round_.verdicts] == [Fate.ACCEPTED] * (budget - 1) + [Fate.OWN]


def test_drafts_are_cut_to_the_rows_of_a_pass() -> None:
    """A pass returns one row for the last token and one for each drafted, and no more than the target can return."""
    target = FakeModel(max_rows=3)
    rounds = list(run(target, [0], MODES["itself"](8), RatioRule(1), budget=9))
    assert [round_.num_drafted for round_ in rounds] == [2, 2, 2]


@every_mode
def test_every_round_is_one_pass_and_at_least_one_token(mode: str) -> None:
    """Nothing is ever computed twice: one target pass a round, over the last token and the draft."""
    target, tokens = FakeModel(), [0]
    rounds = list(run(target, tokens, MODES[mode](4), RatioRule(1)))
    assert target.widths == [1 + round_.num_drafted for round_ in rounds]
    assert all(1 <= len(round_.tokens) <= 1 + round_.num_drafted for round_ in rounds)
    lengths = [len(round_.tokens) for round_ in rounds]
    assert [round_.position for round_ in rounds] == [1 + sum(lengths[:i]) for i in range(len(rounds))]


def test_empty_proposal_is_plain_decoding() -> None:
    """Drafting nothing, or a lookup that finds nothing, emits one token of the target's own per pass."""
    for drafter in (NoDrafter(), LookupDrafter(min_match=99), DRAFTERS["itself"]()):
        size = 0 if isinstance(drafter, ModelDrafter) else 5
        for round_ in run(FakeModel(), [0, 1], FixedPlanner(drafter, size), RatioRule(1)):
            assert [verdict.fate for verdict in round_.verdicts] == [Fate.OWN]
            assert round_.num_drafted == round_.num_tested == round_.num_accepted == 0


def test_rows_after_a_rejection_are_never_read() -> None:
    """A row of NaN after the first rejected token does no harm."""

    class Poisoned(FakeModel):
        def forward(self, tokens: Sequence[int], num_rows: int) -> Logits:
            logits = super().forward(tokens, num_rows)
            for i, token in enumerate(tokens[1:]):
                if logits[i].argmax() != token:
                    logits[i + 1 :] = np.nan
                    break
            return logits

    target, tokens = Poisoned(), [0]
    rounds = list(run(target, tokens, MODES["other model"](4), RatioRule(1)))
    assert tokens[1:] == plain_greedy([0])
    assert any(round_.num_tested < round_.num_drafted for round_ in rounds)


@pytest.mark.parametrize("can_rollback", [True, False])
def test_reading_keeps_what_is_shared(can_rollback: bool) -> None:
    """A new prompt reads only what differs; a cache that cannot drop its end starts again; progress is counted."""
    model = FakeModel(max_pass=4, can_rollback=can_rollback)
    assert list(reading(model, [0, 1, 2, 3, 4, 5])) == [0, 4, 6]
    assert list(reading(model, [0, 1, 2, 3, 4, 5, 5])) == [6, 7]
    assert list(reading(model, [0, 1, 2, 3, 4, 5, 5])) == [7]
    assert list(reading(model, [0, 1, 3])) == ([2, 3] if can_rollback else [0, 3])
    assert model.cached == [0, 1, 3]
    assert list(reading(model, [])) == [0]
    assert model.cached == []


def test_interrupted_reading_goes_on_where_it_stopped() -> None:
    """A consumer that stops between passes loses nothing."""
    model = FakeModel(max_pass=2)
    progress = reading(model, [0, 1, 2, 3, 4])
    assert [next(progress), next(progress)] == [0, 2]
    progress.close()
    assert list(reading(model, [0, 1, 2, 3, 4])) == [2, 4, 5]


@pytest.mark.parametrize(
    ("a", "b", "shared"),
    [([], [], 0), ([1], [], 0), ([1, 2], [1, 2], 2), ([1, 2], [1, 2, 3], 2), ([1, 9, 3], [1, 2, 3], 1), ([9], [1], 0)],
)
def test_common_prefix(a: list[int], b: list[int], shared: int) -> None:
    """It ends before the first difference, and does not look at what is known to agree."""
    assert common_prefix(a, b) == common_prefix(b, a) == shared
    assert all(common_prefix(a, b, agreed) == shared for agreed in range(shared + 1))


def test_defaults_are_greedy() -> None:
    """Without parameters the text is the most likely one."""
    assert GREEDY.temperature == 0
