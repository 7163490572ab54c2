"""What a comparison says: speeds, ratios, rates and predictions, by task and mode.

Knows recorded runs, not models. Everything here follows from the records, so an old report says the same again.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from speclocal.decoding.costs import PassCosts
from speclocal.decoding.theory import VerifyRatio, expected_tokens, flat, round_cost
from speclocal.jobs.comparison import PLAIN, Comparison, ForkRecord, Passes, Run
from speclocal.jobs.forks import Cause
from speclocal.jobs.modes import Mode
from speclocal.jobs.ratios import Ratio, Standing, usual_drift


@dataclass(frozen=True)
class Spread:
    """The middle of some values, and how far they reach."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True)
class Predicted:
    """The speedup that theory gives for the lengths that were drafted and the acceptance that was measured.

    textbook: a pass costs the same over however many tokens. measured: by the pass-cost curve of this machine, at the
    context of the task.
    """

    textbook: float
    measured: float


@dataclass(frozen=True)
class Measure:
    """One mode on one task. Rates are None where nothing was counted, counts are sums over all its runs.

    speedup, request_speedup: over plain decoding, by paired runs; of decoding, and of the whole request. Times are
    medians per run. acceptance_at: by position in the draft, of the tokens that were tested there.
    same_text: whether every reply has the ids of plain decoding, None where it need not.
    """

    task: str
    mode: str
    num_runs: int
    tokens_per_second: Spread
    speedup: Ratio | None
    request_speedup: Ratio | None
    request_seconds: float
    draft_seconds: float
    verify_seconds: float
    other_seconds: float
    drafted: int
    tested: int
    accepted: int
    acceptance_rate: float | None
    draft_utilisation: float | None
    tokens_per_round: float
    acceptance_at: tuple[float, ...]
    predicted: Predicted | None
    same_text: bool | None
    fork: ForkRecord | None


@dataclass(frozen=True)
class Overall:
    """One mode over all tasks: the geometric mean of their speedups, and the least and the greatest of them."""

    mode: str
    speedup: Ratio
    request_speedup: Ratio
    lowest: float
    highest: float


@dataclass(frozen=True)
class Advice:
    """What to use for a task, or over all: the fastest mode, those that cannot be told from it, and what slows down.

    best is plain decoding where nothing is surely faster. gains: the tasks for which best is used, where it is not
    surely faster over all of them. hopes, doubts: what was faster or slower, but too seldom measured to tell.
    """

    best: str
    speedup: Ratio | None
    gains: tuple[str, ...]
    equals: tuple[str, ...]
    hopes: tuple[str, ...]
    doubts: tuple[str, ...]
    avoid: tuple[str, ...]


def measures(comparison: Comparison) -> list[Measure]:
    """Return what was measured of every task and mode that has a run, task by task."""
    return [
        _measure(comparison, task.name, mode, runs)
        for task in comparison.tasks
        for mode in comparison.modes
        if (runs := comparison.runs_of(task.name, mode))
    ]


def measured_in_both(first: Comparison, second: Comparison) -> list[tuple[Measure, Measure]]:
    """Return the measures of two comparisons in pairs, of every task and mode that both have."""
    theirs = {(each.task, each.mode): each for each in measures(second)}
    return [(each, theirs[place]) for each in measures(first) if (place := (each.task, each.mode)) in theirs]


def whole_tasks(comparison: Comparison) -> list[str]:
    """Return the tasks with as many runs as any: all of them, but after a stop."""
    num_runs = {task.name: sum(run.task == task.name for run in comparison.runs) for task in comparison.tasks}
    return [task for task, num in num_runs.items() if 0 < num == max(num_runs.values())]


def overall(comparison: Comparison) -> list[Overall]:
    """Return every mode but plain decoding over all tasks that are whole."""
    found = []
    for mode in comparison.modes:
        speedup = ratio(comparison, mode)
        request = ratio(comparison, mode, speed=request_speed)
        tasks = [each.value for name in whole_tasks(comparison) if (each := ratio(comparison, mode, tasks=[name]))]
        if mode != PLAIN and speedup and request:
            found.append(Overall(mode, speedup, request, min(tasks), max(tasks)))
    return found


def advice(comparison: Comparison, tasks: Sequence[str] | None = None) -> Advice:
    """Return what to use for some tasks, None for all that are whole: the fastest mode that is surely faster.

    Where none is over several tasks, it is the fastest that gains: surely faster on some task, on none surely slower,
    and not slower over all.
    """
    speedups = {
        mode: found for mode in comparison.modes if mode != PLAIN and (found := ratio(comparison, mode, tasks=tasks))
    }
    faster = [mode for mode, speedup in speedups.items() if speedup.standing is Standing.ABOVE]
    gains = {} if faster else {mode: _gains(comparison, mode, tasks) for mode in speedups if speedups[mode].value >= 1}
    useful = faster or [mode for mode, where in gains.items() if where]
    best = max(useful, key=lambda mode: speedups[mode].value, default=PLAIN)

    def as_fast(mode: str) -> bool:
        found = ratio(comparison, mode, best, tasks)
        return found is not None and found.standing is not Standing.BELOW

    undecided = (Standing.UNSURE, Standing.WITHIN_NOISE)
    seldom = [mode for mode, found in speedups.items() if found.standing in undecided and not found.is_decisive]
    return Advice(
        best,
        speedups.get(best),
        gains=gains.get(best, ()),
        equals=tuple(mode for mode in useful if mode != best and as_fast(mode)),
        hopes=tuple(mode for mode in seldom if speedups[mode].value > 1),
        doubts=tuple(mode for mode in seldom if speedups[mode].value <= 1),
        avoid=tuple(mode for mode, found in speedups.items() if found.standing is Standing.BELOW),
    )


def _gains(comparison: Comparison, mode: str, tasks: Sequence[str] | None) -> tuple[str, ...]:
    """Return the tasks on which a mode is surely faster than plain decoding; none if it is surely slower on another."""
    names = whole_tasks(comparison) if tasks is None else tasks
    found = {name: speedup.standing for name in names if (speedup := ratio(comparison, mode, tasks=[name]))}
    if Standing.BELOW in found.values():
        return ()
    return tuple(name for name, standing in found.items() if standing is Standing.ABOVE)


def decode_speed(run: Run) -> float:
    return run.tokens_per_second


def request_speed(run: Run) -> float:
    """Return tokens per second of the whole request."""
    return run.num_tokens / run.request_seconds


def ratio(
    comparison: Comparison,
    mode: str,
    over: str = PLAIN,
    tasks: Sequence[str] | None = None,
    speed: Callable[[Run], float] = decode_speed,
) -> Ratio | None:
    """Return how fast a mode is relative to another, by pairs of runs of the same task and repeat; None without any.

    tasks: None for all that are whole. Of several, the geometric mean over the tasks is taken repeat by repeat, so the
    interval says how sure the mean over these tasks is; other tasks may be others. The machine drifted while any mode
    ran on these tasks.
    """
    names = whole_tasks(comparison) if tasks is None else tasks
    pairs = []
    for name in names:
        speeds = {run.repeat: speed(run) for run in comparison.runs_of(name, over)}
        runs = comparison.runs_of(name, mode)
        pairs.append([speed(run) / speeds[run.repeat] for run in runs if run.repeat in speeds])
    means = [statistics.geometric_mean(each) for each in zip(*pairs, strict=False)]
    if not means:
        return None
    seconds = sum(run.decode_seconds for run in comparison.runs if run.task in names)
    return Ratio.of_pairs(means, usual_drift(seconds))


def _measure(comparison: Comparison, task: str, mode: str, runs: Sequence[Run]) -> Measure:
    passes = [each for run in runs for each in run.passes]
    drafted = sum(each.drafted * each.rounds for each in passes)
    tested, accepted = sum(each.tested for each in passes), sum(each.accepted for each in passes)
    draft_seconds = [sum(each.draft_seconds for each in run.passes) for run in runs]
    verify_seconds = [sum(each.verify_seconds for each in run.passes) for run in runs]
    parts = zip(runs, draft_seconds, verify_seconds, strict=True)
    plain = mode == PLAIN
    return Measure(
        task=task,
        mode=mode,
        num_runs=len(runs),
        tokens_per_second=Spread.of([run.tokens_per_second for run in runs]),
        speedup=None if plain else ratio(comparison, mode, tasks=[task]),
        request_speedup=None if plain else ratio(comparison, mode, tasks=[task], speed=request_speed),
        request_seconds=statistics.median(run.request_seconds for run in runs),
        draft_seconds=statistics.median(draft_seconds),
        verify_seconds=statistics.median(verify_seconds),
        other_seconds=statistics.median(max(0.0, run.decode_seconds - draft - verify) for run, draft, verify in parts),
        drafted=drafted,
        tested=tested,
        accepted=accepted,
        acceptance_rate=accepted / tested if tested else None,
        draft_utilisation=accepted / drafted if drafted else None,
        tokens_per_round=sum(run.num_tokens for run in runs) / sum(each.rounds for each in passes),
        acceptance_at=tuple(accepted / tested for tested, accepted in acceptance_counts(runs)),
        predicted=predicted(comparison, task, passes) if drafted else None,
        same_text=_same_text(comparison, task, runs),
        fork=_worst_fork(comparison, task, mode),
    )


def acceptance_counts(runs: Sequence[Run]) -> list[tuple[int, int]]:
    """Return, for every position of a draft, how many tokens were tested there and how many of them accepted."""
    tested = map(sum, zip_longest(*(run.tested_at for run in runs), fillvalue=0))
    accepted = map(sum, zip_longest(*(run.accepted_at for run in runs), fillvalue=0))
    return list(zip_longest(tested, accepted, fillvalue=0))


def widths_used(comparison: Comparison) -> dict[str, Counter[int]]:
    """Return how many target passes of every width each mode ran."""
    used: dict[str, Counter[int]] = {mode: Counter() for mode in comparison.modes}
    for run in comparison.runs:
        for passes in run.passes:
            used[run.mode][passes.drafted + 1] += passes.rounds
    return used


def predicted(comparison: Comparison, task: str, passes: Sequence[Passes]) -> Predicted:
    """Return the speedup of these passes by the formulas of theory.py, summed over the lengths that were drafted.

    Every drafter has its own acceptance rate; a step of the draft model costs its share of a pass, a copy nothing. In
    mode `auto` a draft of the model may end in a copy: its steps are counted as if all of it were drafted by the model.
    The curve was measured at a short context; what plain decoding's passes took longer on the task is taken to be the
    longer one, which every row of a wider pass attends to as well.
    """
    curve = comparison.target.calibration
    step = comparison.draft.calibration.seconds[1] / curve.seconds[1] if comparison.draft else 0.0
    costs = PassCosts(curve)
    if plain := [each for run in comparison.runs_of(task, PLAIN) for each in run.passes]:
        costs.settle(sum(each.verify_seconds for each in plain) / sum(each.rounds for each in plain))

    def alpha(drafter: str) -> float:
        same = [each for each in passes if each.drafter == drafter and each.tested]
        return sum(each.accepted for each in same) / sum(each.tested for each in same) if same else 0.0

    def cost(verify_ratio: VerifyRatio) -> float:
        return sum(
            each.rounds * round_cost(each.drafted, step if each.drafter == Mode.DRAFT else 0.0, verify_ratio)
            for each in passes
        )

    tokens = sum(each.rounds * expected_tokens(alpha(each.drafter), each.drafted) for each in passes)
    return Predicted(tokens / cost(flat), tokens / cost(lambda width: costs.seconds(width) / costs.seconds(1)))


def _worst_fork(comparison: Comparison, task: str, mode: str) -> ForkRecord | None:
    """Return where a mode left plain decoding on a task: by a bug if there is one, else the first time."""
    forks = [fork for fork in comparison.forks if (fork.task, fork.mode) == (task, mode)]
    return next((fork for fork in forks if fork.cause is Cause.BUG), forks[0] if forks else None)


def _same_text(comparison: Comparison, task: str, runs: Sequence[Run]) -> bool | None:
    plain = {run.repeat: run.token_ids for run in comparison.runs_of(task, PLAIN)}
    compared = [run.token_ids == plain[run.repeat] for run in runs if run.repeat in plain]
    return all(compared) if compared and comparison.conditions.texts_comparable else None
