"""How fast a model, alone or with a draft model, will answer here, by kind of task, before anyone commits to it.

Knows recordings, measured costs and the planners of every mode; where models are opened is doctor.py's.

The target's own reply to a task is recorded once, with what passes take there. Every mode is then replayed over it:
the real loop, planner and drafters, with a clock that goes by those passes. Speeds are those of decoding: the prompt is
read by then, by a draft model too where the mode is to draft with it, as when modes are compared.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from speclocal.decoding.costs import Calibration
from speclocal.decoding.drafters.model import ModelDrafter
from speclocal.decoding.planner import AutoPlanner
from speclocal.decoding.recording import Guesses, Recording
from speclocal.decoding.replay import Machine, MakePlanner, Trace, replay
from speclocal.jobs.drafting import AUTO_TAIL, FIXED_LENGTH, auto_planner, fixed_planner
from speclocal.jobs.modes import Mode
from speclocal.jobs.tasks import Task

LOOKUP_LENGTHS = (1, 2, 3, 4, 6, 8, 10, 12, 16, 24, 32)
DRAFT_LENGTHS = (1, 2, 3, 4, 5, 6, 8, 12)
"""Draft lengths that are tried; those that the modes have where none is asked for are among them."""


@dataclass(frozen=True)
class Outcome:
    """What one mode would do to one task. num_draft_tokens: None where the mode decides round by round."""

    mode: Mode
    num_draft_tokens: int | None
    decode_seconds: float
    speedup: float  # relative to plain decoding
    acceptance_rate: float | None
    tokens_per_round: float

    @property
    def name(self) -> str:
        return self.mode.value if self.num_draft_tokens is None else f"{self.mode.value}:{self.num_draft_tokens}"


@dataclass(frozen=True)
class TaskForecast:
    """What all modes would do to one task.

    agreement: the share of the target's tokens that the draft model guesses, given all before. cost_ratio: seconds of
    its step over seconds of a one-token pass, with this text in the caches. auto_alone: mode `auto` without a draft
    model.
    """

    task: str
    kind: str
    num_prompt_tokens: int
    num_tokens: int
    plain: Outcome
    lookups: tuple[Outcome, ...]
    auto_alone: Outcome
    drafts: tuple[Outcome, ...] = ()
    auto: Outcome | None = None
    agreement: float | None = None
    cost_ratio: float | None = None

    @property
    def best_lookup(self) -> Outcome:
        return max(self.lookups, key=lambda outcome: outcome.speedup)

    @property
    def best_draft(self) -> Outcome | None:
        return max(self.drafts, key=lambda outcome: outcome.speedup, default=None)

    @property
    def lookup(self) -> Outcome:
        """Mode `lookup` as it is without a draft length."""
        return _usual(self.lookups, Mode.LOOKUP)

    @property
    def draft(self) -> Outcome | None:
        """Mode `draft` as it is without a draft length."""
        return _usual(self.drafts, Mode.DRAFT) if self.drafts else None

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """Return all of the models that are here, plain decoding first and `auto` last."""
        return (self.plain, *self.lookups, *self.drafts, self.auto or self.auto_alone)


@dataclass(frozen=True)
class Forecast:
    """What a draft model would do for a target, or what the target does alone, over all tasks."""

    tasks: tuple[TaskForecast, ...]

    @property
    def speedup(self) -> float:
        """Mode `auto` relative to plain decoding, the geometric mean over the tasks."""
        return statistics.geometric_mean([(task.auto or task.auto_alone).speedup for task in self.tasks])

    @property
    def gain(self) -> float:
        """Mode `auto` with the draft model relative to mode `auto` without it, likewise."""
        return self.speedup / statistics.geometric_mean([task.auto_alone.speedup for task in self.tasks])

    @property
    def best_draft_length(self) -> int | None:
        """The draft length that is best for mode `draft` if it must be one for all; None without a draft model."""
        if not all(task.drafts for task in self.tasks):
            return None
        speeds = {
            length: statistics.geometric_mean([task.drafts[i].speedup for task in self.tasks])
            for i, length in enumerate(DRAFT_LENGTHS)
        }
        return max(speeds, key=lambda length: speeds[length])


def forecast(
    task: Task,
    recording: Recording,
    known: Calibration,
    num_droppable: int,
    guesses: Guesses | None = None,
    draft_known: Calibration | None = None,
) -> TaskForecast:
    """Replay a recorded task in every mode.

    known, draft_known: what mode `auto` takes passes to cost before it learns better. guesses: of the draft model, None
    without one. num_droppable: how many tokens of a pass the target drops at no cost.
    """
    trace = Trace.compact(
        {
            "name": task.name,
            "prompt": recording.prompt,
            "emitted": recording.emitted,
            "draft": guesses.tokens if guesses else [],
            "confidence": guesses.confidences if guesses else [],
        }
    )
    machine = Machine(task.name, recording.costs, guesses.costs if guesses else recording.costs, num_droppable)
    plain_seconds = replay(trace, machine, lambda played: fixed_planner(Mode.OFF, None, None)).decode_seconds

    def outcome(mode: Mode, size: int | None, make: MakePlanner) -> Outcome:
        stats = replay(trace, machine, make, draft_has_read=mode is Mode.DRAFT)
        return Outcome(
            mode,
            size,
            stats.decode_seconds,
            plain_seconds / stats.decode_seconds,
            stats.acceptance_rate,
            stats.tokens_per_round or 1.0,
        )

    def fixed(mode: Mode, size: int) -> Outcome:
        return outcome(mode, size, lambda played: fixed_planner(mode, size, played(None)))

    alone = TaskForecast(
        task=task.name,
        kind=task.kind,
        num_prompt_tokens=len(recording.prompt),
        num_tokens=len(recording.emitted),
        plain=outcome(Mode.OFF, None, lambda played: fixed_planner(Mode.OFF, None, None)),
        lookups=tuple(fixed(Mode.LOOKUP, size) for size in LOOKUP_LENGTHS),
        auto_alone=outcome(Mode.AUTO, None, lambda played: auto_planner(known, num_droppable)),
    )
    if guesses is None:
        return alone

    def auto(played: Callable[[int | None], ModelDrafter]) -> AutoPlanner:
        return auto_planner(known, num_droppable, played(AUTO_TAIL), draft_known)

    return replace(
        alone,
        drafts=tuple(fixed(Mode.DRAFT, size) for size in DRAFT_LENGTHS),
        auto=outcome(Mode.AUTO, None, auto),
        agreement=trace.agreement,
        cost_ratio=guesses.costs.seconds[1] / recording.costs.seconds[1],
    )


def _usual(outcomes: Sequence[Outcome], mode: Mode) -> Outcome:
    return next(outcome for outcome in outcomes if outcome.num_draft_tokens == FIXED_LENGTH[mode])
