"""What is recorded of a reply foretells what any plan would take for it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from fakes import FakeModel

from speclocal.decoding.acceptance import RatioRule
from speclocal.decoding.costs import NARROW, READ, WIDE, Calibration, Exactness, PassCosts, curve_here
from speclocal.decoding.drafters import NoDrafter
from speclocal.decoding.drafters.lookup import LookupDrafter
from speclocal.decoding.drafters.model import ModelDrafter
from speclocal.decoding.loop import decode, read
from speclocal.decoding.planner import AutoPlanner, FixedPlanner
from speclocal.decoding.recording import Guesses, Recording, record_guesses, record_reply
from speclocal.decoding.replay import Clock, Machine, MakePlanner, Trace, replay
from speclocal.decoding.types import Finish, SamplingParams

EXACT = (Exactness(0, (1,)),)
COSTS = Calibration({width: 1 + 0.3 * (width - 1) for width in sorted((*NARROW, *WIDE))}, 0.2, EXACT)
CHEAP = Calibration({width: 0.1 + 0.02 * (width - 1) for width in sorted((*NARROW, *WIDE))}, 0.02, EXACT)
PROMPT = [1, 2, 3, 4, 5, 0, 1, 3, 5, 2, 4, 0, 3, 2, 1]
NUM_TOKENS = 70

PLANS: dict[str, MakePlanner] = {
    "off": lambda model: FixedPlanner(NoDrafter(), 0),
    **{f"lookup:{n}": lambda model, n=n: FixedPlanner(LookupDrafter(), n) for n in (1, 3, 8)},  # type: ignore[misc]
    **{f"draft:{n}": lambda model, n=n: FixedPlanner(model(None), n) for n in (1, 2, 4, 7)},  # type: ignore[misc]
    "auto alone": lambda model: AutoPlanner(PassCosts(COSTS), LookupDrafter(min_match=1)),
    "auto": lambda model: AutoPlanner(PassCosts(COSTS), LookupDrafter(min_match=1), model(8), PassCosts(CHEAP)),
}


class TimedModel(FakeModel):
    """A fake model whose passes move a clock."""

    def __init__(self, clock: Clock, costs: Calibration, **kwargs: float) -> None:
        super().__init__(**{"context_size": 600, "max_pass": 128, "max_rows": 128, **kwargs})  # type: ignore[arg-type]
        self._clock, self._costs = clock, PassCosts(costs)

    def _read(self, tokens: Sequence[int]) -> None:
        self._clock.now += self._costs.seconds(len(tokens))
        super()._read(tokens)


def never(token: int) -> str:
    return ""


def recorded(clock: Clock, target: FakeModel, prompt: Sequence[int] = PROMPT, known: Calibration = COSTS) -> Recording:
    return record_reply(target, prompt, NUM_TOKENS, never, known, clock)


def trace_of(recording: Recording, guesses: Guesses) -> Trace:
    return Trace.compact(
        {
            "name": "reply",
            "prompt": recording.prompt,
            "emitted": recording.emitted,
            "draft": guesses.tokens,
            "confidence": guesses.confidences,
        }
    )


def real_seconds(target: FakeModel, draft: FakeModel, make: MakePlanner, clock: Clock) -> float:
    """Return what decoding really takes by the models' clock; both have read the prompt."""
    for model in (target, draft):
        model.rollback(0)
        read(model, PROMPT[:-1])
    tokens, began = list(PROMPT), clock.now
    planner = make(lambda tail: ModelDrafter(draft, tail=tail))
    for _ in decode(target, tokens, planner, RatioRule(0), SamplingParams(), budget=NUM_TOKENS, clock=clock):
        pass
    return clock.now - began


@pytest.mark.parametrize("noise", [0.0, 0.4])
@pytest.mark.parametrize("plan", [name for name in PLANS if name != "auto"])
def test_a_replay_takes_what_the_reply_takes(plan: str, noise: float) -> None:
    """By the clock of the models, every plan takes in a replay exactly what it really takes."""
    clock = Clock()
    target = TimedModel(clock, COSTS)
    draft = TimedModel(clock, CHEAP, noise=noise)
    recording = recorded(clock, target)
    guesses = record_guesses(draft, recording, 6, CHEAP, clock)
    machine = Machine("fake", recording.costs, guesses.costs)
    played = replay(trace_of(recording, guesses), machine, PLANS[plan], draft_has_read=True)
    assert played.tokens == NUM_TOKENS
    assert played.decode_seconds == pytest.approx(real_seconds(target, draft, PLANS[plan], clock))


@pytest.mark.parametrize("plan", ["off", "lookup:3", "draft:2", "draft:7", "auto alone"])
def test_a_rejection_costs_what_going_back_costs(plan: str) -> None:
    """A target that cannot drop tokens reads again what was accepted; a replay counts that pass."""
    clock = Clock()
    target = TimedModel(clock, COSTS, can_rollback=False)
    draft = TimedModel(clock, CHEAP, noise=0.4)
    recording = recorded(clock, target)
    guesses = record_guesses(draft, recording, 6, CHEAP, clock)
    machine = Machine("fake", recording.costs, guesses.costs, num_droppable=0)
    played = replay(trace_of(recording, guesses), machine, PLANS[plan], draft_has_read=True)
    assert played.decode_seconds == pytest.approx(real_seconds(target, draft, PLANS[plan], clock))


def test_a_replay_of_auto_comes_close() -> None:
    """Auto also looks at how sure the draft model is after its own wrong guesses, which no trace can hold."""
    clock = Clock()
    target, draft = TimedModel(clock, COSTS), TimedModel(clock, CHEAP, noise=0.4)
    recording = recorded(clock, target)
    guesses = record_guesses(draft, recording, 6, CHEAP, clock)
    machine = Machine("fake", recording.costs, guesses.costs)
    played = replay(trace_of(recording, guesses), machine, PLANS["auto"], draft_has_read=True)
    assert played.drafted_by_drafter.get("draft", 0) > 0
    assert played.decode_seconds == pytest.approx(real_seconds(target, draft, PLANS["auto"], clock), rel=0.05)


def test_reading_the_prompt_costs_the_draft_model_time() -> None:
    """A draft model that has not read the prompt reads it within the reply, at what its passes take."""
    trace = Trace("t", [0] * 300, [1] * 20, [1] * 20, [0.9] * 20, 3)
    machine = Machine("fake", COSTS, CHEAP)
    before = replay(trace, machine, PLANS["draft:4"], draft_has_read=True).decode_seconds
    within = replay(trace, machine, PLANS["draft:4"]).decode_seconds
    assert within - before == pytest.approx(PassCosts(CHEAP).seconds(300) - PassCosts(CHEAP).seconds(1))


def test_a_reply_is_recorded_up_to_its_end() -> None:
    """The recorded ids are those of plain greedy decoding; an end-of-generation token is the last."""
    clock = Clock()
    target = TimedModel(clock, COSTS)
    whole = recorded(clock, target)
    assert len(whole.emitted) == NUM_TOKENS
    end = whole.emitted[5]
    cut = record_reply(target, PROMPT, NUM_TOKENS, lambda token: Finish.EOS if token == end else None, COSTS, clock)
    assert cut.emitted == whole.emitted[: whole.emitted.index(end) + 1]


def test_costs_are_those_of_the_place() -> None:
    """Passes are measured where the reply stands; what a short context costs does not count there."""
    clock = Clock()
    elsewhere = Calibration({width: 10 * seconds for width, seconds in COSTS.seconds.items()}, 2.0, EXACT)
    costs = recorded(clock, TimedModel(clock, COSTS), known=elsewhere).costs
    for width, seconds in COSTS.seconds.items():
        assert costs.seconds[width] == pytest.approx(seconds)
    assert costs.exact == EXACT


def test_a_short_reply_leaves_wide_passes_to_what_is_known() -> None:
    """Widths that did not fit are scaled as the one-token pass is."""
    clock = Clock()
    known = Calibration({1: 2.0, 2: 2.6, 64: 30.0}, 0.4, EXACT)
    costs = record_reply(TimedModel(clock, COSTS), PROMPT, 1, never, known, clock).costs
    assert costs.seconds == pytest.approx({1: 1.0, 64: 15.0, 2: 1.3})


@pytest.mark.parametrize("start", [0, 20])
def test_measuring_here_leaves_the_cache_as_it_was(start: int) -> None:
    clock = Clock()
    model = TimedModel(clock, COSTS)
    text = (PROMPT * 10)[: start + 40]
    if start:
        model.forward(text[:start], 0)
    assert curve_here(model, text, clock)[5] == pytest.approx(COSTS.seconds[5])
    assert model.cached == text[:start]


def test_guesses_are_those_after_the_true_text() -> None:
    """Every guess is the draft model's likeliest token after all tokens before it, with its probability."""
    clock = Clock()
    draft = TimedModel(clock, CHEAP, noise=0.4)
    recording = recorded(clock, TimedModel(clock, COSTS))
    guesses = record_guesses(draft, recording, 6, CHEAP, clock)
    text = [*recording.prompt, *recording.emitted]
    first = len(recording.prompt)
    rows = [draft.logits_after(text[: first + i]) for i in range(NUM_TOKENS)]
    assert guesses.tokens == [int(row.argmax()) for row in rows]
    assert all(0 < sure <= 1 for sure in guesses.confidences)
    assert trace_of(recording, guesses).agreement == sum(
        guess == token for guess, token in zip(guesses.tokens, recording.emitted, strict=True)
    ) / len(recording.emitted)


def test_a_draft_model_is_never_fed_an_id_it_lacks() -> None:
    """From the first id that it lacks it guesses nothing more: the fake would raise. Nothing at all if that is read."""
    clock = Clock()
    target = TimedModel(clock, COSTS, vocab_size=12)
    draft = TimedModel(clock, CHEAP, vocab_size=8)
    recording = recorded(clock, target)
    lacking = next(i for i, token in enumerate(recording.emitted) if token >= 8)
    assert len(record_guesses(draft, recording, 8, CHEAP, clock).tokens) == lacking + 1
    odd = recorded(clock, target, prompt=[1, 9, 2])
    assert record_guesses(draft, odd, 8, CHEAP, clock) == Guesses([], [], CHEAP)


def test_where_guesses_end_drafting_ends() -> None:
    """A replay drafts no further than the trace has guesses, as the draft model would draft no further."""
    clock = Clock()
    target = TimedModel(clock, COSTS, vocab_size=12)
    draft = TimedModel(clock, CHEAP, vocab_size=8)
    recording = recorded(clock, target)
    guesses = record_guesses(draft, recording, 8, CHEAP, clock)
    machine = Machine("fake", recording.costs, guesses.costs)
    played = replay(trace_of(recording, guesses), machine, PLANS["draft:4"], draft_has_read=True)
    tokens = list(PROMPT)
    target.rollback(0)
    draft.rollback(0)
    for model in (target, draft):
        read(model, PROMPT[:-1])
    planner, began = FixedPlanner(ModelDrafter(draft, num_shared=8), 4), clock.now
    for _ in decode(target, tokens, planner, RatioRule(0), SamplingParams(), budget=NUM_TOKENS, clock=clock):
        pass
    assert 0 < len(guesses.tokens) < NUM_TOKENS
    assert played.decode_seconds == pytest.approx(clock.now - began, rel=0.02)


def test_a_larger_vocabulary_guesses_only_shared_ids() -> None:
    """The draft model's own ids are never among the guesses, though it would like them best."""
    clock = Clock()
    recording = recorded(clock, TimedModel(clock, COSTS))
    draft = TimedModel(clock, CHEAP, vocab_size=16)
    text = [*recording.prompt, *recording.emitted]
    assert any(draft.logits_after(text[: len(PROMPT) + i]).argmax() >= 6 for i in range(NUM_TOKENS))
    assert max(record_guesses(draft, recording, 6, CHEAP, clock).tokens) < 6


def test_a_short_context_ends_the_guesses() -> None:
    """Where the draft model's context is full, its guesses end."""
    clock = Clock()
    recording = recorded(clock, TimedModel(clock, COSTS))
    draft = TimedModel(clock, CHEAP, context_size=40)
    assert len(record_guesses(draft, recording, 6, CHEAP, clock).tokens) == 40 - len(PROMPT) + 1


def test_reading_speed_is_that_of_the_prompt() -> None:
    """A prompt longer than what a calibration reads shows how fast the draft model reads."""
    clock = Clock()
    slower = Calibration(CHEAP.seconds, 0.05, EXACT)
    recording = recorded(clock, TimedModel(clock, COSTS), prompt=[i % 6 for i in range(READ + 100)])
    guesses = record_guesses(TimedModel(clock, slower), recording, 6, CHEAP, clock)
    assert guesses.costs.read_seconds == pytest.approx(0.05, rel=0.05)
    assert (
        record_guesses(
            TimedModel(clock, slower), recorded(clock, TimedModel(clock, COSTS)), 6, CHEAP, clock
        ).costs.read_seconds
        == 0.02
    )
