"""What a comparison keeps of what happens.

Knows open models, replies, rounds and forks, and the records of comparison.py; runs nothing but measurements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from speclocal.jobs.calibration import CalibrationProgress
from speclocal.jobs.circumstances import Hashing, record_of, these_versions, this_machine
from speclocal.jobs.comparison import (
    Comparison,
    Conditions,
    ForkRecord,
    Passes,
    RoundRecord,
    Run,
    TaskRecord,
)
from speclocal.jobs.forks import Fork
from speclocal.jobs.modes import Mode
from speclocal.jobs.reply import Reply
from speclocal.jobs.session import Session
from speclocal.jobs.starts import Starts
from speclocal.jobs.tasks import Task
from speclocal.jobs.wanted import ComparedMode, Wanted
from speclocal.llama.layouts import TwoLayouts
from speclocal.llama.vocab import Vocab


def nothing_yet(session: Session, wanted: Wanted, hashing: Hashing, measuring: CalibrationProgress) -> Comparison:
    """Return a comparison without runs. Reads the model files for their hashes, and measures what is not known."""
    target, draft = session.target, session.draft
    assert target is not None
    placement = target.weights.placement
    reader = target.reader if isinstance(target, TwoLayouts) else target
    return Comparison(
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=this_machine(),
        versions=these_versions(),
        target=record_of(target, hashing, measuring),
        draft=record_of(draft, hashing, measuring) if draft else None,
        conditions=Conditions(
            params=wanted.params,
            max_tokens=wanted.max_tokens,
            repeats=wanted.repeats,
            warm_up_tokens=wanted.warm_up_tokens,
            seed=wanted.seed,
            raw=wanted.raw,
            context_size=target.context_size,
            threads=placement.threads,
            gpu_layers=placement.gpu_layers,
            kv_type=placement.kv_type,
            layout=placement.layout,
            reading_layout=reader.weights.placement.layout,
            flash_attention="auto",
        ),
        modes=tuple(mode.name for mode in wanted.modes),
        tasks=(),
        runs=(),
        replies=(),
        forks=(),
        complete=False,
    )


def task_record(task: Task, num_prompt_tokens: int, starts: Starts) -> TaskRecord:
    """Return what is kept of a task whose prompt was processed."""
    draft_seconds = starts.draft.seconds if starts.draft else None
    return TaskRecord(task.name, task.kind, task.text, num_prompt_tokens, starts.target.seconds, draft_seconds)


def run_record(
    task: TaskRecord,
    mode: ComparedMode,
    repeat: int,
    place: int,
    seed: int | None,
    reply: Reply,
    rounds: Sequence[RoundRecord],
    decode_seconds: float,
) -> Run:
    """Return what is kept of a finished reply."""
    draft_prompt_seconds = (task.draft_prompt_seconds or 0.0) if mode.mode is Mode.DRAFT else 0.0
    return Run(
        task=task.name,
        mode=mode.name,
        repeat=repeat,
        place=place,
        seed=seed,
        finish=reply.finish_reason or "",
        token_ids=tuple(reply.token_ids),
        decode_seconds=decode_seconds,
        request_seconds=task.prompt_seconds + draft_prompt_seconds + decode_seconds,
        passes=_summed(rounds),
        tested_at=_by_position(each.tested for each in rounds),
        accepted_at=_by_position(each.accepted for each in rounds),
    )


def fork_record(fork: Fork, task: str, mode: ComparedMode, repeat: int, vocab: Vocab) -> ForkRecord:
    """Return what is kept of a fork, with the texts of its tokens."""

    def text(token: int | None) -> str:
        return "" if token is None else vocab.shown(token)

    return ForkRecord(
        task=task,
        mode=mode.name,
        repeat=repeat,
        position=fork.position,
        plain_token=fork.plain_token,
        other_token=fork.other_token,
        plain_text=text(fork.plain_token),
        other_text=text(fork.other_token),
        gap=fork.gap,
        moved=fork.moved,
        widths=fork.widths,
        cause=fork.cause,
    )


def _summed(rounds: Sequence[RoundRecord]) -> tuple[Passes, ...]:
    """Sum up rounds of the same drafter and length."""
    alike: dict[tuple[str, int], list[RoundRecord]] = {}
    for each in rounds:
        alike.setdefault((each.drafter, each.drafted), []).append(each)
    return tuple(
        Passes(
            drafter=drafter,
            drafted=drafted,
            rounds=len(group),
            tested=sum(each.tested for each in group),
            accepted=sum(each.accepted for each in group),
            emitted=sum(each.emitted for each in group),
            draft_seconds=sum(each.draft_seconds for each in group),
            verify_seconds=sum(each.verify_seconds for each in group),
        )
        for (drafter, drafted), group in sorted(alike.items())
    )


def _by_position(lengths: Iterable[int]) -> tuple[int, ...]:
    """Return how many of `lengths` reach the first, second, ... token: for (2, 0, 1) it is (2, 1)."""
    reached = list(lengths)
    return tuple(sum(length > i for length in reached) for i in range(max(reached, default=0)))
