"""The report of a comparison: one page that can be sent to a colleague, and says enough to repeat it.

Knows what belongs on the page; the template says where, plots.py draws.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from speclocal.jobs.comparison import PLAIN, Comparison, ModelRecord, ReplyRounds, RoundRecord
from speclocal.jobs.measures import Measure, measured_in_both, measures, overall, whole_tasks
from speclocal.jobs.modes import Mode
from speclocal.jobs.ratios import Ratio, Standing
from speclocal.jobs.tasks import built_in_tasks
from speclocal.terminal import compare_words
from speclocal.terminal.compare_tables import change, interval, same_text
from speclocal.terminal.pages import render
from speclocal.terminal.plots import Plot, acceptance_plot, costs_plot, speedups_plot
from speclocal.terminal.sheets import Cell, Facts, Grid, bar, grid
from speclocal.terminal.words import duration, number, size

_TONES = {Standing.ABOVE: "accepted", Standing.BELOW: "rejected"}


@dataclass(frozen=True)
class Strip:
    """One reply of a mode, a round after the other: each a row of fates, one for every token of its pass."""

    mode: str
    rounds: tuple[tuple[str, ...], ...]
    text: str


@dataclass(frozen=True)
class Section:
    """All that the page shows of one comparison."""

    title: str
    advice: Sequence[str]
    speedups: Plot | None
    speeds: Grid
    over_all: str
    means: Grid | None
    costs: Plot
    acceptance: Plot | None
    drafts: Grid
    strip_task: str
    strips: Sequence[Strip]
    facts: Facts
    tasks: Grid
    command: str


def report_page(comparisons: Sequence[Comparison], *, side_by_side: bool = False) -> str:
    """Return comparisons as one page, below each other or, two of the same, side by side."""
    sections = [section(comparison) for comparison in comparisons]
    differences: Sequence[str] = ()
    changes = None
    if side_by_side:
        first, second = comparisons
        differences, changes = compare_words.differences(first, second), _changes(first, second)
    return render(
        "report.html",
        title=f"{sections[0].title}: drafting modes compared",
        sections=sections,
        side_by_side=side_by_side,
        differences=differences,
        changes=changes,
    )


def section(comparison: Comparison) -> Section:
    """Return what the page shows of a comparison."""
    found = measures(comparison)
    task, strips = _strips(comparison)
    return Section(
        title=comparison.title,
        advice=[*_incomplete(comparison), *compare_words.verdict(comparison), *compare_words.texts(comparison)],
        speedups=speedups_plot(comparison),
        speeds=_speeds(found),
        over_all=compare_words.over_all(comparison),
        means=_means(comparison) if len(whole_tasks(comparison)) > 1 else None,
        costs=costs_plot(comparison),
        acceptance=acceptance_plot(comparison),
        drafts=_drafts(found),
        strip_task=task,
        strips=strips,
        facts=_facts(comparison),
        tasks=_tasks(comparison),
        command=repeat_command(comparison),
    )


def repeat_command(comparison: Comparison) -> str:
    """Return the command line that measures the same again, with the models and files under their names here."""
    conditions, params = comparison.conditions, comparison.conditions.params
    words = ["speclocal", "compare", "--model", comparison.target.name]
    if comparison.draft:
        words += ["--draft", comparison.draft.name]
    words += ["--modes", ",".join(comparison.modes), *_asked(comparison)]
    words += ["--repeats", str(conditions.repeats), "--max-tokens", str(conditions.max_tokens)]
    words += ["--temperature", _exactly(params.temperature), "--top-k", str(params.top_k)]
    words += ["--top-p", _exactly(params.top_p), "--min-p", _exactly(params.min_p)]
    words += ["--repeat-penalty", _exactly(params.repeat_penalty)]
    if conditions.seed is not None:
        words += ["--seed", str(conditions.seed)]
    if conditions.raw:
        words.append("--raw")
    words += ["--threads", str(conditions.threads), "--kv-type", conditions.kv_type]
    if conditions.layout == conditions.reading_layout:  # else it was chosen, as it would be again
        words += ["--layout", conditions.layout]
    if conditions.gpu_layers is not None:
        words += ["--gpu-layers", str(conditions.gpu_layers)]
    return shlex.join([*words, *_prompt(comparison)])


def _exactly(value: float) -> str:
    """Return a number in as few digits as read back the same: 0, 0.95, 1e-09."""
    return repr(value).removesuffix(".0")


def _asked(comparison: Comparison) -> list[str]:
    """Return the options that name built-in tasks and files."""
    known = {task.name: task.kind for task in built_in_tasks()}
    built_in = [task.name for task in comparison.tasks if known.get(task.name) == task.kind]
    words = ["--tasks", ",".join(built_in)] if built_in else []
    for task in comparison.tasks:
        if task.kind == "summary" and task.name not in built_in:
            words += ["--file", task.name]
    return words


def _prompt(comparison: Comparison) -> list[str]:
    """Return the end of a command line with a prompt, where there was one; it may begin with a dash."""
    return [word for task in comparison.tasks if task.kind == "prompt" for word in ("--", task.text)]


def _incomplete(comparison: Comparison) -> list[str]:
    return [] if comparison.complete else ["Stopped before its end: what follows is what was measured."]


def _speeds(found: Sequence[Measure]) -> Grid:
    longest = max([1.0, *(each.speedup.value for each in found if each.speedup)])
    rows = []
    for each in found:
        speed, request = each.tokens_per_second, each.request_speedup
        theory = each.predicted
        rows.append(
            (
                each.task if each.mode == PLAIN else "",
                each.mode,
                number(speed.median),
                f"{number(speed.lowest)} to {number(speed.highest)}",
                _speedup(each.speedup, longest),
                interval(each.speedup) if each.speedup else "",
                f"{request.value:.2f}x" if request else "",
                f"{theory.textbook:.2f}x" if theory else "",
                f"{theory.measured:.2f}x" if theory else "",
                same_text(each),
            )
        )
    return grid(
        *("<task", "<mode", "tokens/s", "range", "<speedup", "95 %", "whole request"),
        *("theory: textbook", "theory: costs here", "<same text"),
        rows=rows,
    )


def _means(comparison: Comparison) -> Grid:
    """Return the modes over all tasks."""
    found = overall(comparison)
    longest = max([1.0, *(each.speedup.value for each in found)])
    rows = [
        (
            each.mode,
            _speedup(each.speedup, longest),
            interval(each.speedup),
            f"{each.lowest:.2f}x to {each.highest:.2f}x",
            f"{each.request_speedup.value:.2f}x",
        )
        for each in found
    ]
    return grid("<mode", "<speedup", "95 %", "least to most", "whole request", rows=rows)


def _speedup(speedup: Ratio | None, longest: float) -> Cell:
    if speedup is None:
        return bar("1", 1.0, longest, "dim")
    return bar(f"{speedup.value:.2f}x", speedup.value, longest, _TONES.get(speedup.standing, ""))


def _drafts(found: Sequence[Measure]) -> Grid:
    rows = []
    for each in found:
        if each.drafted:
            rows.append(
                (
                    each.task,
                    each.mode,
                    f"{each.drafted:,}",
                    f"{each.tested:,}",
                    f"{each.accepted:,}",
                    "" if each.acceptance_rate is None else f"{each.acceptance_rate:.3f}",
                    "" if each.draft_utilisation is None else f"{each.draft_utilisation:.3f}",
                    f"{each.tokens_per_round:.2f}",
                    duration(each.draft_seconds),
                    duration(each.verify_seconds),
                    duration(each.other_seconds),
                )
            )
    return grid(
        *("<task", "<mode", "drafted", "tested", "accepted", "acceptance rate", "draft utilisation"),
        *("tokens per round", "draft", "verify", "other"),
        rows=rows,
    )


def _strips(comparison: Comparison) -> tuple[str, list[Strip]]:
    """Return the task whose drafts are shown, one with as many accepted tokens as any, and its replies by mode."""

    def num_accepted(task: str) -> int:
        return sum(r.accepted for reply in comparison.replies if reply.task == task for r in reply.rounds)

    task = max((task.name for task in comparison.tasks), key=num_accepted)
    replies = [reply for reply in comparison.replies if reply.task == task and reply.mode != PLAIN]
    return task, [_strip(reply) for reply in sorted(replies, key=lambda reply: comparison.modes.index(reply.mode))]


def _strip(reply: ReplyRounds) -> Strip:
    return Strip(reply.mode, tuple(_fates(round_) for round_ in reply.rounds), reply.text)


def _fates(round_: RoundRecord) -> tuple[str, ...]:
    """Return what became of every token of a round: drafted ones in their order, then the target's own."""
    rejected = round_.tested - round_.accepted
    untested = round_.drafted - round_.tested
    own = round_.emitted - round_.accepted
    return (
        *("accepted",) * round_.accepted,
        *("rejected",) * rejected,
        *("untested",) * untested,
        *("target",) * own,
    )


def _changes(first: Comparison, second: Comparison) -> Grid:
    """Return the speeds of two comparisons, by what both have."""
    rows = [
        (
            one.task,
            one.mode,
            number(one.tokens_per_second.median),
            number(two.tokens_per_second.median),
            f"{one.speedup.value:.2f}x" if one.speedup else "1",
            f"{two.speedup.value:.2f}x" if two.speedup else "1",
            change(one, two),
        )
        for one, two in measured_in_both(first, second)
    ]
    return grid(
        *("<task", "<mode", "first, tokens/s", "second, tokens/s", "first speedup", "second speedup"),
        "<speedup changed",
        rows=rows,
    )


def _facts(comparison: Comparison) -> Facts:
    machine, versions, conditions = comparison.machine, comparison.versions, comparison.conditions
    params = conditions.params
    greedy = " (greedy)" if params.temperature == 0 else ""
    seed = "none: greedy" if params.temperature == 0 else "new in every run"
    if conditions.seed is not None:
        seed = f"{conditions.seed}, the next for every repeat"
    return Facts(
        (
            ("measured", comparison.started, "" if comparison.complete else "stopped before its end"),
            ("processor", machine.cpu, f"cores: {machine.cores}, hardware threads: {machine.hardware_threads}"),
            ("memory", size(machine.memory_bytes), machine.system),
            *_model("target", comparison.target),
            *(_model("draft model", comparison.draft) if comparison.draft else ()),
            ("speclocal", versions.speclocal, f"Python {versions.python}"),
            ("llama-cpp-python", versions.llama_cpp_python, versions.llama_cpp),
            ("threads", str(conditions.threads), f"layers on a GPU: {_all_that_fit(conditions.gpu_layers)}"),
            ("context", f"{conditions.context_size:,} tokens", f"cache {conditions.kv_type}"),
            ("weights", conditions.layout, f"while prompts are read: {conditions.reading_layout}"),
            ("flash attention", conditions.flash_attention, ""),
            (
                "temperature",
                f"{params.temperature:g}{greedy}",
                f"top-k {params.top_k}, top-p {params.top_p:g}, "
                f"min-p {params.min_p:g}, repeat penalty {params.repeat_penalty:g}",
            ),
            ("seed", seed, ""),
            ("repeats", str(conditions.repeats), f"{conditions.warm_up_tokens} tokens of warm-up"),
            ("replies", f"up to {conditions.max_tokens} tokens", "no chat template" if conditions.raw else ""),
        )
    )


def _model(part: str, model: ModelRecord) -> tuple[tuple[str, str, str], ...]:
    return ((part, model.name, f"{model.file}, {size(model.size_bytes)}"), (f"{part}, sha256", "", model.sha256))


def _all_that_fit(layers: int | None) -> str:
    return "all that fit" if layers is None else str(layers)


def _tasks(comparison: Comparison) -> Grid:
    rows = [
        (
            task.name,
            task.kind,
            f"{task.prompt_tokens:,}",
            duration(task.prompt_seconds),
            "" if task.draft_prompt_seconds is None else duration(task.draft_prompt_seconds),
        )
        for task in comparison.tasks
    ]
    return grid("<task", "<kind", "prompt tokens", "read in", f"read by the {Mode.DRAFT} model in", rows=rows)
