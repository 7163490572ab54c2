"""The auto planner under a clock that goes by a curve: what it decides, and that its decisions change no text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from test_costs import Clock, TimedModel

from speclocal.decoding.acceptance import CoupledRule, RatioRule
from speclocal.decoding.costs import Calibration, Exactness, PassCosts
from speclocal.decoding.drafters import NoDrafter
from speclocal.decoding.drafters.lookup import LookupDrafter
from speclocal.decoding.drafters.model import ModelDrafter
from speclocal.decoding.loop import decode, read
from speclocal.decoding.planner import AutoPlanner, FixedPlanner
from speclocal.decoding.types import Planner, Round, Rule, SamplingParams

BUDGET = 300
PROMPT = [0, 1, 2, 3]
Curve = Callable[[int], float]


def flat(width: int) -> float:
    """A GPU: a pass costs the same up to 64 tokens."""
    return 1.0 if width <= 64 else width / 64


def steep(width: int) -> float:
    """A slow CPU: every token of a pass costs nearly as much as the first."""
    return 0.1 + 0.9 * width


def stepped(width: int) -> float:
    """Kernels that switch at 4 and 8 rows: 5 tokens cost what 8 do."""
    return 1.0 + 0.9 * (width > 1) + 0.9 * (width > 4) + 0.8 * max(0, width - 8)


CURVES = [flat, steep, stepped]


def calibration(curve: Curve, factor: float = 1.0) -> Calibration:
    seconds = {width: factor * curve(width) for width in range(1, 65)}
    return Calibration(seconds, seconds[64] / 64, (Exactness(0, (1,)),), rollback_seconds=0.1 * seconds[1])


@dataclass
class Run:
    """What a simulated reply came to."""

    tokens: list[int]
    rounds: list[Round]
    seconds: float
    widths: list[int]

    @property
    def drafters(self) -> set[str]:
        return {round_.drafter for round_ in self.rounds if round_.num_drafted}


def simulate(
    curve: Curve,
    make: Callable[[ModelDrafter], Planner],
    *,
    rule: Rule | None = None,
    params: SamplingParams | None = None,
    draft_factor: float = 0.1,
    noise: float = 0.5,
    prompt: Sequence[int] = PROMPT,
    budget: int = BUDGET,
    tail: int | None = None,
    can_rollback: bool = True,
) -> Run:
    """Run a reply on fake models whose passes take the time of a curve, the draft model's `draft_factor` of it."""
    clock = Clock()
    target = TimedModel(clock, curve, can_rollback=can_rollback)
    small = TimedModel(clock, lambda width: draft_factor * curve(width), noise=noise, can_rollback=can_rollback)
    planner = make(ModelDrafter(small, tail=tail))
    tokens = list(prompt)
    read(target, tokens[:-1])
    clock.now = 0.0
    target.widths.clear()
    rounds = list(
        decode(target, tokens, planner, rule or RatioRule(1), params or SamplingParams(), budget=budget, clock=clock)
    )
    return Run(tokens[len(prompt) :], rounds, clock.now, target.widths)


def auto(
    curve: Curve, *, draft_factor: float | None = 0.1, num_droppable: int = 100
) -> Callable[[ModelDrafter], Planner]:
    """Return a maker of the auto planner, without a draft model for a `draft_factor` of None."""
    return lambda drafter: AutoPlanner(
        PassCosts(calibration(curve)),
        LookupDrafter(min_match=1),
        None if draft_factor is None else drafter,
        None if draft_factor is None else PassCosts(calibration(curve, draft_factor)),
        num_droppable=num_droppable,
    )


def off(drafter: ModelDrafter) -> Planner:
    return FixedPlanner(NoDrafter(), 0)


def fixed_settings() -> list[Callable[[ModelDrafter], Planner]]:
    lookups = [lambda drafter, g=g: FixedPlanner(LookupDrafter(), g) for g in (1, 2, 4, 8, 16)]
    drafts = [lambda drafter, g=g: FixedPlanner(drafter, g) for g in (1, 2, 4, 8)]
    return [off, *lookups, *drafts]


def test_a_rejection_is_a_return_and_a_pass() -> None:
    """Going back costs what was measured, reading again a pass; tokens that can be dropped cost nothing."""
    planner = auto(stepped, num_droppable=3)(ModelDrafter(TimedModel(Clock(), flat)))
    assert isinstance(planner, AutoPlanner)
    assert planner.pricing.rejection_seconds(5, 1) == pytest.approx(0.1 + stepped(2))
    assert planner.pricing.rejection_seconds(5, 2) == 0
    assert planner.pricing.rejection_seconds(3, 0) == 0


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize(("draft_factor", "noise"), [(0.05, 0.1), (0.1, 0.5), (0.4, 1.0), (0.9, 3.0)])
@pytest.mark.parametrize("temperature", [0.7, 1.5])
def test_auto_is_hardly_slower_where_rejections_cost_a_pass(
    curve: Curve, draft_factor: float, noise: float, temperature: float
) -> None:
    """Caches that cannot drop tokens: under 5 % of plain decoding's time is lost, where the planner knows of it."""
    given: dict[str, Any] = {
        "params": SamplingParams(temperature=temperature, top_k=0, top_p=1),
        "rule": CoupledRule(3),
        "draft_factor": draft_factor,
        "noise": noise,
        "can_rollback": False,
    }
    reply = simulate(curve, auto(curve, draft_factor=draft_factor, num_droppable=0), **given)
    plain = simulate(curve, off, **given)
    assert reply.tokens == plain.tokens
    assert reply.seconds <= 1.05 * plain.seconds


def test_drafts_that_often_fail_pay_only_where_rejections_are_free() -> None:
    """A draft model that is right half the time is used on a flat curve, and hardly where a rejection costs a pass."""

    def drafted(num_droppable: int) -> int:
        make = auto(flat, num_droppable=num_droppable)
        reply = simulate(flat, make, params=noisy(), noise=1.5, can_rollback=num_droppable > 0)
        return sum(round_.num_drafted for round_ in reply.rounds)

    assert drafted(100) > 5 * drafted(0)


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("noise", [0.0, 0.3, 3.0])
def test_plans_change_no_greedy_text(curve: Curve, noise: float) -> None:
    """Whatever the clock makes the planner do, the text is that of plain decoding."""
    assert simulate(curve, auto(curve), noise=noise).tokens == simulate(curve, off).tokens


@pytest.mark.parametrize("temperature", [0.8, 2.0])
def test_plans_change_no_seeded_text(temperature: float) -> None:
    """Under the coupled rule three clocks give one text."""
    params = SamplingParams(temperature=temperature, top_k=0, top_p=1)
    replies = [simulate(curve, auto(curve), rule=CoupledRule(7), params=params) for curve in CURVES]
    assert replies[0].tokens == replies[1].tokens == replies[2].tokens
    assert len({len(reply.rounds) for reply in replies}) > 1, "the plans should differ, or nothing was shown"


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize(("draft_factor", "noise"), [(0.1, 0.1), (0.4, 1.0), (0.9, 3.0)])
def test_auto_is_hardly_slower_than_plain(curve: Curve, draft_factor: float, noise: float) -> None:
    """A draft model that is too slow, or wrong, costs no more than learning so: under 5 % of 300 tokens' time."""
    params = SamplingParams(temperature=1.5, top_k=0, top_p=1)  # hardly predictable
    seconds = simulate(curve, auto(curve, draft_factor=draft_factor), params=params, noise=noise).seconds
    assert seconds <= 1.05 * simulate(curve, off, params=params).seconds


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize(("draft_factor", "noise"), [(0.05, 0.1), (0.2, 0.5), (0.6, 1.0)])
@pytest.mark.parametrize("can_rollback", [True, False])
def test_auto_keeps_up_with_the_best_fixed_setting(
    curve: Curve, draft_factor: float, noise: float, can_rollback: bool
) -> None:
    """Without being told which: within 12 % over 300 tokens, learning included; 16 % where rejections cost passes."""
    params, rule = SamplingParams(temperature=0.7), CoupledRule(3)  # one text for all
    given: dict[str, Any] = {
        "params": params,
        "rule": rule,
        "draft_factor": draft_factor,
        "noise": noise,
        "can_rollback": can_rollback,
    }
    best = min(simulate(curve, make, **given).seconds for make in fixed_settings())
    make = auto(curve, draft_factor=draft_factor, num_droppable=100 if can_rollback else 0)
    assert simulate(curve, make, **given).seconds <= (1.12 if can_rollback else 1.16) * best


def test_a_free_and_perfect_draft_model_is_used() -> None:
    """On a flat curve, a draft model that agrees drafts long and often."""
    reply = simulate(flat, auto(flat, draft_factor=0.01), draft_factor=0.01, noise=0.0)
    assert "draft" in reply.drafters
    assert len(reply.rounds) < BUDGET / 8


def test_repetition_is_copied_in_long_drafts() -> None:
    """A text that repeats itself is copied dozens of tokens at a time where passes are cheap."""
    reply = simulate(flat, auto(flat, draft_factor=None), prompt=PROMPT * 2)  # greedy fakes fall into a cycle
    assert reply.drafters == {"lookup"}
    assert max(round_.num_accepted for round_ in reply.rounds) > 30


def test_costly_passes_are_not_widened() -> None:
    """Where a token in the pass costs as much as a pass, nobody drafts on weak evidence."""
    params = SamplingParams(temperature=3.0, top_k=0, top_p=1)
    reply = simulate(steep, auto(steep, draft_factor=None), params=params, budget=100)
    assert sum(round_.num_drafted for round_ in reply.rounds) < 15


def test_widths_that_a_step_makes_dear_are_avoided() -> None:
    """On a curve with steps drafts end where a step ends: 4 or 8 tokens in the pass, hardly ever 5."""
    widths = simulate(stepped, auto(stepped), noise=0.1, draft_factor=0.05).widths
    assert widths.count(5) + widths.count(6) < (widths.count(4) + widths.count(8)) / 2


def test_a_long_prompt_delays_the_draft_model() -> None:
    """The draft model's own reading is put off until the reply is long enough to win it back."""
    long_prompt = [i % 5 for i in range(600)]

    def slow_to_read(width: int) -> float:
        return 1.0 if width <= 8 else width / 8

    rounds = simulate(slow_to_read, auto(slow_to_read), prompt=long_prompt, noise=0.1, params=noisy()).rounds
    first = next((i for i, round_ in enumerate(rounds) if round_.drafter == "draft"), None)
    assert first is not None
    assert first >= 3
    short = simulate(slow_to_read, auto(slow_to_read), noise=0.1, params=noisy()).rounds
    assert next(i for i, round_ in enumerate(short) if round_.drafter == "draft") < first


def test_a_draft_model_that_lacks_a_token_is_passed_over() -> None:
    """While the part of the text it would read has an id that means nothing to it, auto runs as without it."""

    def lacking(drafter: ModelDrafter) -> Planner:
        drafter.num_shared = 5
        return auto(flat)(drafter)

    unread = [*PROMPT, 5, *PROMPT]
    alone = simulate(flat, auto(flat, draft_factor=None), prompt=unread, budget=20, noise=0.0)
    assert simulate(flat, lacking, prompt=unread, budget=20, noise=0.0, tail=30).rounds == alone.rounds


def test_a_draft_model_gets_another_chance() -> None:
    """After it failed for long, a small share of the time still goes into trying it, and so it is found good again."""
    clock = Clock()
    planner = auto(flat)(ModelDrafter(TimedModel(clock, flat)))
    assert isinstance(planner, AutoPlanner)
    for _ in range(200):
        planner.pricing.draft_acceptance.observe(0.5, False)
    assert planner.pricing.draft_acceptance.typical < 0.05
    target, tokens = TimedModel(clock, flat), list(PROMPT)
    target.forward(tokens[:-1], 0)
    rounds = list(decode(target, tokens, planner, RatioRule(0), noisy(), budget=600, clock=clock))
    assert sum(round_.drafter == "draft" for round_ in rounds) > 15
    assert planner.pricing.draft_acceptance.typical > 0.25


def test_one_draft_that_failed_is_no_reason_never_to_draft_again() -> None:
    """Reading a long prompt and a draft of another language cost 5 passes; where rejections are free, more are tried.

    The text is sampled at a high temperature: there is nothing to copy.
    """
    clock, prompt = Clock(), [i * i % 6 for i in range(900)]
    target, small = TimedModel(clock, flat), TimedModel(clock, lambda width: 0.3 * flat(width), seed=1)
    planner = auto(flat, draft_factor=0.3)(ModelDrafter(small))
    read(target, prompt[:-1])
    num_drafts = 0
    for round_ in decode(target, prompt, planner, CoupledRule(1), noisy(), budget=120, clock=clock):
        num_drafts += round_.drafter == "draft"
        if num_drafts:
            small.speak(0)
    assert num_drafts > 10


@pytest.mark.parametrize("allowed", [(1,), (1, 2, 3), (1, 4, 7)])
def test_strict_runs_exact_widths_only(allowed: tuple[int, ...]) -> None:
    """With exact widths given, no pass has another."""

    def make(drafter: ModelDrafter) -> Planner:
        planner = auto(flat)(drafter)
        assert isinstance(planner, AutoPlanner)
        planner.exact_widths = lambda held: allowed
        return planner

    reply = simulate(flat, make, noise=0.2)
    assert set(reply.widths) <= set(allowed)
    assert set(reply.widths) == {1} or len(allowed) > 1
    assert reply.tokens == simulate(flat, off).tokens


def noisy() -> SamplingParams:
    return SamplingParams(temperature=1.0, top_k=0, top_p=1)
