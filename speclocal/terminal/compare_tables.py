"""What comparisons look like: tables with bars, by task and over all, and two comparisons side by side.

Knows measures, not how they were made; sentences are compare_words.py's.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from speclocal.jobs.compare import Progress
from speclocal.jobs.comparison import PLAIN, Comparison
from speclocal.jobs.measures import Measure, measured_in_both, measures, overall, whole_tasks
from speclocal.jobs.ratios import Ratio, Standing
from speclocal.terminal import compare_words, words
from speclocal.terminal.fitted import Column, fitted, room_left
from speclocal.terminal.tables import cell, new_table

_BAR = (6, 30)  # columns of a bar at least and at most
_PARTS = 8  # columns of the bar of times
_STEPS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"  # eighths of a row
_POSITIONS = 6  # in a draft, that are shown
_STYLES = {Standing.ABOVE: "green", Standing.BELOW: "red"}


def task_tables(comparison: Comparison, room: int) -> list[Table]:
    """Return two tables for every task: how fast every mode is, and what became of its drafts."""
    found = measures(comparison)
    longest = max([1.0, *(each.speedup.value for each in found if each.speedup)])
    tables = []
    for task, group in groupby(found, key=lambda each: each.task):
        rows = list(group)
        tables.append(_speed_table(comparison, task, rows, longest, room))
        if drafting := [row for row in rows if row.drafted]:
            tables.append(_draft_table(drafting, room))
    return tables


def overall_table(comparison: Comparison, room: int) -> Table | None:
    """Return the modes over all tasks; None where there is one task, or nothing to tell."""
    rows = overall(comparison)
    if not rows or len(whole_tasks(comparison)) < 2:
        return None
    columns = [
        Column("mode", [row.mode for row in rows], 9, right=False),
        Column("speedup", [_speedup(row.speedup) for row in rows], 8),
        Column("95 %", [interval(row.speedup) for row in rows], 7),
        Column("least to most", [f"{row.lowest:.2f}x-{row.highest:.2f}x" for row in rows], 5),
        Column("request", [f"{row.request_speedup.value:.2f}x" for row in rows], 4),
    ]
    longest = max([1.0, *(row.speedup.value for row in rows)])
    columns += _bars([row.speedup for row in rows], longest, room_left(columns, room))
    return fitted(columns, room, f"{comparison.title}, {compare_words.over_all(comparison)}")


def live_board(comparison: Comparison, progress: Progress) -> RenderableType:
    """Return how far a comparison is, and the speedups of what was measured so far."""
    left = "" if progress.seconds_left is None else f", {words.remaining(progress.seconds_left)}"
    lines = [
        Text(f"{progress.share:.0%}{left}  {words.progress_bar(progress.share)}"),
        Text(words.visible(progress.doing), style="dim"),
    ]
    table = new_table(comparison.title, *comparison.modes)
    for column in table.columns[1:]:
        column.justify = "right"
    found = {(each.task, each.mode): each for each in measures(comparison)}
    for task in comparison.tasks:
        table.add_row(cell(task.name), *(_live_cell(found.get((task.name, mode))) for mode in comparison.modes))
    for column in table.columns:
        column.no_wrap, column.overflow = True, "ellipsis"
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(*lines, table)


def side_by_side(first: Comparison, second: Comparison, room: int) -> list[Table]:
    """Return one table for every task that both have: the speeds of both, and how the speedup changed."""
    tables = []
    for task, pairs in groupby(measured_in_both(first, second), key=lambda pair: pair[0].task):
        ours, theirs = zip(*pairs, strict=True)
        columns = [
            Column("mode", [one.mode for one in ours], 9, right=False),
            Column("first", [words.number(one.tokens_per_second.median) for one in ours], 5),
            Column("second", [words.number(two.tokens_per_second.median) for two in theirs], 5),
            Column("first speedup", [_speedup(one.speedup) for one in ours], 7),
            Column("second speedup", [_speedup(two.speedup) for two in theirs], 7),
            Column("speedup changed", [change(*pair) for pair in zip(ours, theirs, strict=True)], 8, right=False),
        ]
        tables.append(fitted(columns, room, f"{task}: tokens/s and speedups of both"))
    return tables


def interval(ratio: Ratio) -> str:
    """Return a ratio's interval as it stands in a table; a dash where there is none, and no absurd numbers."""
    if ratio.interval is None:
        return "-"
    low, high = ratio.interval
    return f"{low:.2f}-{high:.2f}" if ratio.is_narrow else "too wide"


def _speed_table(comparison: Comparison, task: str, rows: Sequence[Measure], longest: float, room: int) -> Table:
    record = next(each for each in comparison.tasks if each.name == task)
    read = f"{record.prompt_tokens:,} prompt tokens read in {words.duration(record.prompt_seconds)}"
    speeds = [row.tokens_per_second for row in rows]
    columns = [
        Column("mode", [row.mode for row in rows], 9, right=False),
        Column("tokens/s", [words.number(speed.median) for speed in speeds], 8),
        Column("range", [f"{words.number(speed.lowest)}-{words.number(speed.highest)}" for speed in speeds], 3),
        Column("speedup", [_speedup(row.speedup) for row in rows], 8),
        Column("95 %", ["" if row.speedup is None else interval(row.speedup) for row in rows], 7),
        Column("request", [f"{row.request_speedup.value:.2f}x" if row.request_speedup else "" for row in rows], 4),
        Column("same text", [same_text(row) for row in rows], 6, right=False),
    ]
    columns += _bars([row.speedup for row in rows], longest, room_left(columns, room))
    return fitted(columns, room, f"{task} ({record.kind}): {read}")


def _draft_table(rows: Sequence[Measure], room: int) -> Table:
    predicted = [row.predicted for row in rows]
    columns = [
        Column("mode", [row.mode for row in rows], 9, right=False),
        Column("accepted", [_share(row.acceptance_rate, row.tested) for row in rows], 8),
        Column("by position", [_steps(row.acceptance_at) for row in rows], 3, right=False),
        Column("used", [_share(row.draft_utilisation, row.drafted) for row in rows], 5),
        Column("per round", [words.number(row.tokens_per_round) for row in rows], 6),
        Column("theory", [f"{each.textbook:.2f}x {each.measured:.2f}x" if each else "" for each in predicted], 7),
        Column("time", [_parts(row) for row in rows], 2, right=False),
    ]
    return fitted(columns, room)


def _bars(speedups: Sequence[Ratio | None], longest: float, room: int) -> list[Column]:
    """Return a column of bars with a mark at 1x, or none where there is no room for it."""
    length = min(_BAR[1], room)
    if length < _BAR[0]:
        return []
    mark = min(length - 1, round(length / longest))
    bars = []
    for speedup in speedups:
        filled = max(1, round(length * (speedup.value if speedup else 1.0) / longest))
        bar = "".join("\u2588" if i < filled else "\u2502" if i == mark else " " for i in range(max(filled, mark + 1)))
        bars.append(Text(bar, style=_STYLES.get(speedup.standing, "") if speedup else ""))
    return [Column("", bars, 1, right=False)]


def _speedup(ratio: Ratio | None) -> Text:
    if ratio is None:
        return Text("1")
    return Text(f"{ratio.value:.2f}x", style=_STYLES.get(ratio.standing, ""))


def _live_cell(measure: Measure | None) -> Text:
    if measure is None:
        return Text("")
    if measure.mode == PLAIN or measure.speedup is None:
        return Text(f"{words.number(measure.tokens_per_second.median)}/s")
    return _speedup(measure.speedup)


def change(first: Measure, second: Measure) -> str:
    """Return how the second speedup differs from the first, and whether that is more than noise."""
    if first.speedup is None or second.speedup is None:
        return ""
    found = second.speedup.over(first.speedup)
    said = {Standing.WITHIN_NOISE: "within noise", Standing.UNSURE: "measured once"}.get(found.standing, "differs")
    return f"{found.value:.2f}x, {said}"


def same_text(measure: Measure) -> str:
    """Return whether the texts are those of plain decoding, and if not, from which token on."""
    if measure.mode == PLAIN or measure.same_text is None:
        return ""
    if measure.same_text:
        return "yes"
    return f"no, from {measure.fork.position + 1}" if measure.fork else "no"


def _share(rate: float | None, of: int) -> str:
    return "" if rate is None else f"{rate:.2f} of {of}"


def _steps(shares: Sequence[float]) -> str:
    """Return a row of little bars, one for each of the first shares."""
    return "".join(_STEPS[round(share * (len(_STEPS) - 1))] for share in shares[:_POSITIONS])


def _parts(measure: Measure) -> str:
    """Return a bar of the time for drafting, for the target's passes and for the rest."""
    whole = measure.draft_seconds + measure.verify_seconds + measure.other_seconds
    drafting = round(_PARTS * measure.draft_seconds / whole) if whole else 0
    rest = round(_PARTS * measure.other_seconds / whole) if whole else 0
    return "\u2591" * drafting + "\u2588" * (_PARTS - drafting - rest) + "\u00b7" * rest
