"""What a comparison looks like: golden tables of a made-up one, at the widths of terminals."""

from __future__ import annotations

from dataclasses import replace

import pytest
from comparisons import comparison
from rich.console import Console, RenderableType

from speclocal.decoding.types import SamplingParams
from speclocal.jobs.compare import Progress
from speclocal.jobs.comparison import Comparison
from speclocal.terminal import compare_tables as tables
from speclocal.terminal import compare_words as say

TWO_TASKS = comparison(
    {
        "chat-bread": {"off": [1.00, 1.02, 0.98], "lookup": [2.00, 2.05, 1.96], "auto": [0.99, 1.03, 0.97]},
        "code-edit": {"off": [1.00, 1.02, 0.98], "lookup": [0.50, 0.51, 0.50], "auto": [0.50, 0.52, 0.49]},
    }
)


def shown(*what: RenderableType, room: int = 80) -> str:
    paper = Console(width=room, color_system=None, force_terminal=False)
    with paper.capture() as capture:
        for each in what:
            paper.print(each)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def test_a_task_in_80_columns() -> None:
    """Speed, then drafts; a bar for every mode with a mark where plain decoding is."""
    assert shown(*tables.task_tables(TWO_TASKS, 80)[:2]).splitlines() == [
        "chat-bread (chat): 20 prompt tokens read in 500 ms",
        "mode    tokens/s      range  speedup       95 %  request  same text",
        "off         8.00  7.84-8.16        1                                 ██████│",
        "lookup      4.00  3.90-4.08    0.50x  0.45-0.55    0.60x  yes        ███   │",
        "auto        8.08  7.77-8.25    1.00x  0.91-1.11    1.00x  yes        ██████│",
        "mode      accepted  by position        used  per round       theory  time",
        "lookup  0.80 of 15  █▅█          0.67 of 18       2.00  1.98x 1.52x  ········",
        "auto    0.80 of 15  █▅█          0.67 of 18       2.00  1.98x 1.52x  ········",
    ]


def test_a_narrow_terminal_keeps_what_matters_most() -> None:
    assert shown(*tables.task_tables(TWO_TASKS, 40)[:2], room=40).splitlines() == [
        "chat-bread (chat): 20 prompt tokens",
        "read in 500 ms",
        "mode    tokens/s  speedup       95 %",
        "off         8.00        1",
        "lookup      4.00    0.50x  0.45-0.55",
        "auto        8.08    1.00x  0.91-1.11",
        "mode      accepted       theory",
        "lookup  0.80 of 15  1.98x 1.52x",
        "auto    0.80 of 15  1.98x 1.52x",
    ]


def test_over_all_tasks_in_80_columns() -> None:
    table = tables.overall_table(TWO_TASKS, 80)
    assert table is not None
    assert shown(table).splitlines() == [
        "target, over all 2 tasks",
        "mode    speedup       95 %  least to most  request",
        "lookup    1.00x  0.91-1.09    0.50x-1.99x    0.95x  ████████████████████│",
        "auto      1.41x  1.28-1.56    1.00x-1.99x    1.22x  ████████████████████████████",
    ]


def test_one_task_has_no_table_over_all() -> None:
    assert tables.overall_table(comparison({"a": {"off": [1.0], "lookup": [0.5]}}), 80) is None


@pytest.mark.parametrize("room", [10, 20, 40, 60, 80, 100, 200])
def test_tables_fit_every_width(room: int) -> None:
    """No line is longer than the terminal, and the speedups are there as long as 20 columns are."""
    over_all = tables.overall_table(TWO_TASKS, room)
    assert over_all is not None
    board = tables.live_board(
        TWO_TASKS,
        Progress("chat-bread: auto, 2 of 3", 0.4, 12.0),
    )
    text = shown(
        *tables.task_tables(TWO_TASKS, room),
        over_all,
        board,
        *tables.side_by_side(TWO_TASKS, TWO_TASKS, room),
        room=room,
    )
    assert all(len(line) <= room for line in text.splitlines())
    assert room < 20 or "0.50x" in text


def test_a_comparison_without_runs_has_no_tables() -> None:
    nothing = replace(TWO_TASKS, runs=(), replies=(), forks=(), complete=False)
    assert tables.task_tables(nothing, 80) == []
    assert tables.overall_table(nothing, 80) is None
    assert (say.verdict(nothing), say.texts(nothing)) == ([], [])


def test_the_board_fills_in() -> None:
    """What was not measured yet is empty."""
    first = replace(TWO_TASKS, runs=TWO_TASKS.runs[:4])
    board = tables.live_board(first, Progress("chat-bread: lookup, 1 of 3", 4 / 18, 12.0))
    assert shown(board).splitlines() == [
        "22%, about 12 s left  ████░░░░░░░░░░░░░░░░",
        "chat-bread: lookup, 1 of 3",
        "target         off  lookup  auto",
        "chat-bread  8.00/s   0.50x",
        "code-edit",
    ]


def test_the_verdict_names_what_to_use_and_what_not() -> None:
    assert say.verdict(TWO_TASKS) == [
        "chat-bread: use `off`: nothing is surely faster; within noise of it: `auto` (1.00x, 0.91 to 1.11); "
        "not `lookup` (0.50x, 0.45 to 0.55)",
        "code-edit: use `auto` (1.99x, 1.80 to 2.20); as good, within noise: `lookup` (1.99x, 1.80 to 2.20)",
        "over all 2 tasks: use `auto` (1.41x, 1.28 to 1.56)",
    ]


def test_the_verdict_over_all_says_where_a_mode_gains() -> None:
    mixed = comparison(
        {
            "edit": {"off": [1.0, 1.02, 0.98], "auto": [0.5, 0.51, 0.49]},
            "chat": {"off": [1.0, 1.02, 0.98], "auto": [1.9, 0.6, 0.7]},
        }
    )
    assert say.verdict(mixed)[-1] == (
        "over all 2 tasks: use `auto` (1.47x, 0.67 to 3.22): surely faster on edit, nowhere surely slower"
    )


def test_a_stop_is_not_passed_over_in_what_is_said_over_all() -> None:
    """Two tasks were measured whole, the third was cut off: it is left out of the mean, and the mean says so."""
    plain, fast = [1.0, 1.02, 0.98], [0.5, 0.51, 0.49]
    whole = {"off": plain, "lookup": fast}
    cut = comparison({"a": whole, "b": whole, "c": {"off": [1.0], "lookup": [4.0]}})
    assert say.verdict(cut)[-1].startswith("over 2 of 3 tasks, the others were cut off: use `lookup` (2.00x, ")
    over_all = tables.overall_table(cut, 80)
    assert over_all is not None
    assert "over 2 of 3 tasks" in shown(over_all)


def test_intervals_that_say_nothing_are_not_spelled_out() -> None:
    """Two runs far apart: no number with seven digits, and a mode that looks faster is not advised against."""
    wild = comparison({"a": {"off": [1.0, 1.0], "lookup": [0.5, 0.1]}})
    assert say.verdict(wild)[0] == "a: perhaps `lookup` (4.47x, interval too wide)"
    assert " too wide " in shown(*tables.task_tables(wild, 80))


def test_a_legend_explains_what_is_shown() -> None:
    assert say.legend(["mode", "used", "request"]) == (
        "used: the draft utilisation, accepted / drafted; request: speedup with the prompt"
    )


def test_texts_that_were_not_looked_into_are_told() -> None:
    """After a stop there may be a difference and no explanation."""
    other = replace(TWO_TASKS.runs[3], token_ids=(1, 2, 3, 4, 5, 6, 7, 8))
    runs = (*TWO_TASKS.runs[:3], other, *TWO_TASKS.runs[4:])
    assert say.texts(replace(TWO_TASKS, runs=runs, forks=())) == [
        f"texts: others, and not looked into: {other.task}, `{other.mode}`"
    ]


def test_two_runs_each_are_said_to_be_few() -> None:
    twice = comparison({"a": {"off": [1.0, 1.0], "lookup": [0.5, 0.5]}})
    assert say.verdict(twice)[-1] == "every mode ran twice: intervals are wide; `--repeats 5` would make them narrow"


def test_one_run_each_is_no_verdict() -> None:
    once = comparison({"a": {"off": [1.0], "lookup": [0.5], "draft": [2.0]}})
    assert say.verdict(once) == [
        "a: perhaps `lookup` (2.00x); slower, as it seems: `draft` (0.50x)",
        "every mode ran once: nothing tells a gain from noise; `--repeats 3` would",
    ]


def test_once_slower_is_a_reason_to_stay_plain() -> None:
    once = comparison({"a": {"off": [1.0], "draft": [2.0]}})
    assert say.verdict(once)[0] == "a: use `off`; slower, as it seems: `draft` (0.50x)"


def test_texts_are_told_to_be_the_same_or_where_they_fork() -> None:
    assert say.texts(TWO_TASKS) == ["texts: every mode wrote the very tokens of plain decoding"]
    last = TWO_TASKS.runs[3]
    runs = tuple(replace(run, token_ids=(5, 6, 7, 9, 5, 6, 7, 8)) if run is last else run for run in TWO_TASKS.runs)
    assert say.texts(replace(TWO_TASKS, runs=runs)) == [
        "texts: chat-bread, `lookup` forks at token 4: plain writes ` a`, this mode ` b`; "
        "the top two logits are 0.0100 apart there; these passes move logits by up to 0.0200; widths 1, 4; "
        "arithmetic, since plain passes of the same widths write the same"
    ]
    assert "no, from 4" in shown(*tables.task_tables(replace(TWO_TASKS, runs=runs), 80))
    warm = replace(TWO_TASKS, conditions=replace(TWO_TASKS.conditions, params=SamplingParams(0.8)))
    assert say.texts(warm) == [
        "texts: sampled without a seed, so they differ by chance; `--seed` makes them comparable"
    ]


def test_a_comparison_that_was_stopped_says_so() -> None:
    assert not any("INCOMPLETE" in line for line in say.head(TWO_TASKS))
    assert any("INCOMPLETE" in line for line in say.head(replace(TWO_TASKS, complete=False)))


def slower(by: float) -> Comparison:
    runs = tuple(
        replace(run, decode_seconds=run.decode_seconds * by, request_seconds=run.request_seconds * by)
        if run.mode == "lookup"
        else run
        for run in TWO_TASKS.runs
    )
    return replace(TWO_TASKS, runs=runs)


def test_two_comparisons_agree_or_differ() -> None:
    """The same speedups are within noise of each other; twice as slow is not."""
    assert say.differences(TWO_TASKS, TWO_TASKS) == ["both were measured under the same conditions"]
    same = shown(*tables.side_by_side(TWO_TASKS, TWO_TASKS, 100), room=100)
    assert same.count("within noise") == 4
    assert "differs" not in same
    other = shown(*tables.side_by_side(TWO_TASKS, slower(2.0), 100), room=100)
    assert other.count("0.50x, differs") == 2
    machine = replace(TWO_TASKS.machine, cpu="another")
    warm = replace(TWO_TASKS.conditions, seed=7)
    assert say.differences(TWO_TASKS, replace(TWO_TASKS, machine=machine, conditions=warm)) == [
        "the two differ in: machine, seed"
    ]


def test_names_of_files_are_not_obeyed() -> None:
    """Control characters in a name that somebody else gave a task or model are shown."""
    evil = replace(TWO_TASKS, tasks=(replace(TWO_TASKS.tasks[0], kind="\x1b[2J[bold]"), TWO_TASKS.tasks[1]))
    text = shown(*tables.task_tables(evil, 80))
    assert "\x1b" not in text
    assert "[bold]" in text
