"""`speclocal compare`: drafting modes side by side on this machine."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from speclocal.errors import SpeclocalError, UsageError
from speclocal.terminal.app import MACHINE, command
from speclocal.terminal.options import CompareOptions
from speclocal.terminal.outputs import STDOUT, check_outputs, write_whole

if TYPE_CHECKING:
    from speclocal.jobs.comparison import Comparison
    from speclocal.jobs.generate import Choice
    from speclocal.jobs.tasks import Task
    from speclocal.jobs.wanted import Wanted
    from speclocal.terminal.render import View

REPEATS = 3
_ALL_MODES = "off,lookup,draft,auto"


@command(CompareOptions, MACHINE)
def compare(
    *,
    prompt: Annotated[str, typer.Argument(help="What to ask, instead of the built-in tasks.")] = "",
    file: Annotated[
        list[str] | None, typer.Option("--file", help="A file to summarize; - for stdin; repeatable.", metavar="PATH")
    ] = None,
    tasks: Annotated[
        str, typer.Option("--tasks", help="Built-in tasks by name or kind: chat,summary,...", metavar="LIST")
    ] = "",
    repeats: Annotated[int, typer.Option("--repeats", min=1, max=1000, help="Runs of every mode and task.")] = REPEATS,
    csv: Annotated[
        str, typer.Option("--csv", help="Write a row for every task and mode; - for stdout.", metavar="PATH")
    ] = "",
    save: Annotated[str, typer.Option("--save", help="Write the JSON report to a file.", metavar="PATH")] = "",
    report: Annotated[str, typer.Option("--report", help="Write a page of HTML, with plots.", metavar="FILE")] = "",
    replay: Annotated[
        list[str] | None,
        typer.Option("--replay", help="Show old reports; two of one model each side by side.", metavar="PATH"),
    ] = None,
    options: CompareOptions,
    view: "View",
) -> None:
    """Compare drafting modes: how fast they are here, and whether the text stays the same."""
    from speclocal.jobs.comparison import load

    results = Results(options, view, csv, save, report)
    if replay:
        _check_replay(options, {"--file": file, "--tasks": tasks, "--repeats": repeats != REPEATS})
        old = [*replay, *([prompt] if prompt else [])]
        results.check(old)
        reports = [load(Path(path)) for path in old]
        one_each = len(reports) == 2 and all(len(report) == 1 for report in reports)
        results.publish([comparison for report in reports for comparison in report], side_by_side=one_each)
        return
    results.check([*(options.model or ()), options.draft, *(file or ())])
    wanted = _wanted(prompt, file or [], tasks, repeats, options, view)
    found: list[Comparison] = []
    try:
        for choice in _choices(options):
            _measure(choice, wanted, options, view, found)
    finally:  # also what was measured before an interrupt or an error
        if any(comparison.runs for comparison in found):
            results.publish(found)


class Results:
    """Where the results of comparisons go: checked before anything runs."""

    def __init__(self, options: CompareOptions, view: "View", csv: str, save: str, report: str) -> None:
        if options.json and csv == STDOUT:
            raise UsageError("`--json` and `--csv -` both print to stdout", "give `--csv` a file, or leave one out")
        if save == STDOUT:
            raise UsageError("`--save -` cannot write to stdout", "`--json` prints the same there")
        self._options = options
        self._view = view
        self._csv = csv
        self._files = {"--save": save, "--csv": csv if csv != STDOUT else "", "--report": report}

    def check(self, inputs: "Iterable[str]") -> None:
        """Raise UsageError where a file could not be written in the end, or is one of the inputs."""
        check_outputs(self._files, inputs)
        if self._files["--report"]:
            from speclocal.terminal.plots import check_installed

            check_installed()

    def publish(self, comparisons: "Sequence[Comparison]", *, side_by_side: bool = False) -> None:
        """Write comparisons to files, each whatever becomes of the others, then show them: readers may be gone."""
        from speclocal.jobs.tabulated import csv_table, document

        failures = []
        for option, path in self._files.items():
            try:
                if path:
                    write_whole(Path(path), self._text(option, comparisons, side_by_side=side_by_side))
            except OSError as exc:
                failures.append(SpeclocalError(f"`{option} {path}` cannot be written: {exc.strerror or exc}"))
        if self._options.json:
            self._view.result(document(comparisons))
        elif self._csv == STDOUT:
            self._view.text(csv_table(comparisons))
        else:
            self._show(comparisons, side_by_side=side_by_side)
        if failures:
            *others, last = failures
            for failure in others:
                self._view.problem(failure)
            raise last

    def _text(self, option: str, comparisons: "Sequence[Comparison]", *, side_by_side: bool) -> str:
        """Return what is written to the file of an option."""
        import json

        from speclocal.jobs.tabulated import csv_table, document

        if option == "--save":
            return json.dumps(document(comparisons), indent=1) + "\n"
        if option == "--csv":
            return csv_table(comparisons)
        from speclocal.terminal.report import report_page  # and with it what pages are made with

        return report_page(comparisons, side_by_side=side_by_side)

    def _show(self, comparisons: "Sequence[Comparison]", *, side_by_side: bool) -> None:
        from speclocal.terminal import compare_tables as tables
        from speclocal.terminal import compare_words as say

        view, room = self._view, self._view.columns
        for number, comparison in enumerate(comparisons):
            view.text("\n" * bool(number))
            view.sentences([*say.head(comparison), ""])
            shown = tables.task_tables(comparison, room)
            view.tables(*shown)
            headings = (str(column.header) for table in shown for column in table.columns)
            view.sentences(["", *([] if number else [say.legend(headings), ""])])
            if over_all := tables.overall_table(comparison, room):
                view.tables(over_all)
                view.text("\n")
            view.sentences([*say.verdict(comparison), *say.texts(comparison)])
        if side_by_side:
            first, second = comparisons
            view.sentences(["", *say.differences(first, second), ""])
            view.tables(*tables.side_by_side(first, second, room))


def _check_replay(options: CompareOptions, asked: "Mapping[str, object]") -> None:
    """Raise UsageError where an old report is to be shown and something is to be measured."""
    asked = {
        **asked,
        "--model": options.model,
        "--draft": options.draft,
        "--modes": options.modes,
        "--seed": options.seed is not None,
    }
    given = [option for option, value in asked.items() if value]
    if given:
        raise UsageError(f"`--replay` measures nothing: `{given[0]}` says what to measure", "leave one of them out")


def _choices(options: CompareOptions) -> "list[Choice]":
    """Return the models that are asked for, each with a draft model where the modes need one."""
    from speclocal.jobs.generate import choose_models
    from speclocal.jobs.modes import Mode
    from speclocal.jobs.wanted import parse_modes

    modes = {mode.mode for mode in parse_modes(options.modes or _ALL_MODES)}
    needed = next((mode for mode in (Mode.DRAFT, Mode.AUTO) if mode in modes), Mode.OFF)
    if not options.modes:
        needed = Mode.AUTO  # a draft model is welcome, and nothing is lost without one
    return [choose_models(name, options.draft, needed) for name in options.model or [""]]


def _measure(
    choice: "Choice", wanted: "Wanted", options: CompareOptions, view: "View", found: "list[Comparison]"
) -> None:
    """Compare the modes on one model, and add the comparison to `found`, also one that is stopped."""
    from speclocal.jobs.compare import Comparing
    from speclocal.terminal.compare_tables import live_board
    from speclocal.terminal.opening import opened

    with opened(choice, options, view) as session:
        comparing = Comparing(session, wanted, view.hashing, view.measuring)
        for note in session.notes:
            view.note(note)
        try:
            for progress in comparing:
                view.board(partial(live_board, comparing.so_far, progress))
        finally:
            found.append(comparing.so_far)


def _wanted(
    prompt: str, files: "Sequence[str]", tasks: str, repeats: int, options: CompareOptions, view: "View"
) -> "Wanted":
    """Return what is compared; without a prompt, a file or tasks all tasks that are built in."""
    from speclocal.jobs.requests import USUAL_REPEAT_PENALTY
    from speclocal.jobs.tasks import Task, built_in_tasks
    from speclocal.jobs.wanted import Wanted, parse_modes, parse_tasks

    if prompt and not prompt.strip():
        raise UsageError("the prompt is empty", "give some text, or leave it out for the built-in tasks")
    asked = [Task("prompt", "prompt", prompt)] if prompt else []
    asked += [_summary_of(name, view) for name in dict.fromkeys(files)]
    asked += parse_tasks(tasks) if tasks else []
    only_files = bool(files) and not prompt and not tasks  # summaries and nothing else, as `summarize` makes them
    return Wanted(
        modes=parse_modes(options.modes or _ALL_MODES),
        tasks=tuple(asked) or built_in_tasks(),
        params=options.params(USUAL_REPEAT_PENALTY) if only_files else options.params(),
        max_tokens=options.max_tokens,
        repeats=repeats,
        seed=options.seed,
        raw=options.raw,
        may_skip_modes=not options.modes,
        may_skip_tasks=not asked,
    )


def _summary_of(name: str, view: "View") -> "Task":
    """Return the task to summarize a file as `speclocal summarize` asks for it."""
    from speclocal.jobs.records import well_formed
    from speclocal.jobs.requests import Request, with_text
    from speclocal.jobs.tasks import Task
    from speclocal.text.documents import read_document

    with view.waiting("standard input" if name == "-" else name):
        document = read_document(name, stdin=sys.stdin.buffer if sys.stdin else None)
    for note in document.notes:
        view.note(note)
    return Task(well_formed(name), "summary", with_text(document.text, Request().about_text()))
