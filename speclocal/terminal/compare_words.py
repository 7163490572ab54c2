"""What comparisons say in sentences: under which conditions, what to use and what not, and where texts fork.

Knows measures and advice, not tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from speclocal.jobs.comparison import PLAIN, Comparison
from speclocal.jobs.measures import Advice, advice, measures, ratio, whole_tasks
from speclocal.jobs.ratios import Ratio, Standing
from speclocal.terminal import words
from speclocal.terminal.fork_words import fork_words

_FEW = {
    1: "every mode ran once: nothing tells a gain from noise; `--repeats 3` would",
    2: "every mode ran twice: intervals are wide; `--repeats 5` would make them narrow",
}
"""What is said of few repeats."""
_LEGEND = {
    "tokens/s": "the median of all runs",
    "speedup": "the geometric mean of pairs of runs made close together",
    "95 %": "interval of the speedup, by the scatter of the pairs and the drift that is usual on a machine in use",
    "request": "speedup with the prompt",
    "accepted": "the acceptance rate, accepted / tested",
    "by position": "the same for the 1st, 2nd, ... token of a draft",
    "used": "the draft utilisation, accepted / drafted",
    "theory": "speedup by the formulas if a pass costs the same at any width, then by the costs of this machine",
    "time": "\u2591 drafting, \u2588 target passes, \u00b7 the rest",
}
"""What headings of tables mean."""


def legend(headings: Iterable[str]) -> str:
    """Return what those of some headings mean that do not say it themselves."""
    return "; ".join(f"{heading}: {_LEGEND[heading]}" for heading in dict.fromkeys(headings) if heading in _LEGEND)


def head(comparison: Comparison) -> list[str]:
    """Return what was compared, on what, and how."""
    machine, conditions = comparison.machine, comparison.conditions
    params = conditions.params
    chosen = "greedy" if params.temperature == 0 else f"temperature {words.number(params.temperature)}"
    seed = "" if conditions.seed is None else f", seed {conditions.seed}"
    repeats = "once" if conditions.repeats == 1 else f"{conditions.repeats} times"
    return [
        f"{comparison.title}: {machine.cpu}, {conditions.threads} of {machine.hardware_threads} threads, "
        f"{machine.system}, speclocal {comparison.versions.speclocal}, "
        f"llama-cpp-python {comparison.versions.llama_cpp_python}, {comparison.started}",
        f"{chosen}{seed}, replies of up to {conditions.max_tokens} tokens, every mode {repeats} in rotating order",
        *([] if comparison.complete else ["INCOMPLETE: stopped before the end; what follows is what was measured"]),
    ]


def verdict(comparison: Comparison) -> list[str]:
    """Return what to use and what not, task by task and over all."""
    tasks = [task.name for task in comparison.tasks if comparison.runs_of(task.name, PLAIN)]
    whole = whole_tasks(comparison)
    lines = [f"{task}: {_advised(comparison, advice(comparison, [task]), [task])}" for task in tasks]
    if len(whole) > 1:
        lines.append(f"{over_all(comparison)}: {_advised(comparison, advice(comparison), whole)}")
    if lines and comparison.conditions.repeats in _FEW:
        lines.append(_FEW[comparison.conditions.repeats])
    return lines


def over_all(comparison: Comparison) -> str:
    """Return over which tasks a mean is taken."""
    num, whole = len(comparison.tasks), len(whole_tasks(comparison))
    return f"over all {num} tasks" if num == whole else f"over {whole} of {num} tasks, the others were cut off"


def texts(comparison: Comparison) -> list[str]:
    """Return whether every mode wrote the text of plain decoding, and if not, where and why."""
    if not comparison.conditions.texts_comparable:
        return ["texts: sampled without a seed, so they differ by chance; `--seed` makes them comparable"]
    compared = [each for each in measures(comparison) if each.mode != PLAIN and each.same_text is not None]
    if not compared:
        return []
    if all(each.same_text for each in compared):
        return ["texts: every mode wrote the very tokens of plain decoding"]
    greedy = comparison.conditions.params.temperature == 0
    unexplained = [f"{each.task}, `{each.mode}`" for each in compared if not each.same_text and each.fork is None]
    return [
        *(
            f"texts: {fork.task}, `{fork.mode}` {fork_words(fork, fork.plain_text, fork.other_text, greedy=greedy)}"
            for fork in comparison.forks
        ),
        *([f"texts: others, and not looked into: {'; '.join(unexplained)}"] if unexplained else []),
    ]


def differences(first: Comparison, second: Comparison) -> list[str]:
    """Return in what the circumstances of two comparisons differ."""
    ours, theirs = map(_circumstances, (first, second))
    differing = [name for name, value in ours.items() if value != theirs[name]]
    if not differing:
        return ["both were measured under the same conditions"]
    return [f"the two differ in: {', '.join(differing)}"]


def _circumstances(comparison: Comparison) -> dict[str, object]:
    """Return all that a speed can depend on, by name."""
    conditions, versions, draft = comparison.conditions, comparison.versions, comparison.draft
    return {
        "machine": comparison.machine,
        "target": comparison.target.sha256,
        "draft model": draft and draft.sha256,
        "tasks": [(task.name, task.text) for task in comparison.tasks],
        "modes": comparison.modes,
        "threads": conditions.threads,
        "layers on a GPU": conditions.gpu_layers,
        "layout of the weights": (conditions.layout, conditions.reading_layout),
        "cache type": conditions.kv_type,
        "context": conditions.context_size,
        "flash attention": conditions.flash_attention,
        "sampling": conditions.params,
        "seed": conditions.seed,
        "chat template": conditions.raw,
        "reply length": conditions.max_tokens,
        "repeats": conditions.repeats,
        "speclocal": versions.speclocal,
        "llama.cpp": (versions.llama_cpp, versions.llama_cpp_python),
        "Python": versions.python,
    }


def _advised(comparison: Comparison, advised: Advice, tasks: Sequence[str]) -> str:
    """Return an advice in words."""
    ratios = {mode: found for mode in comparison.modes if (found := ratio(comparison, mode, tasks=tasks))}

    def named(modes: Sequence[str]) -> str:
        return ", ".join(f"`{mode}` ({_speedup(ratios[mode])})" for mode in modes)

    if advised.best != PLAIN:
        where = f": surely faster on {', '.join(advised.gains)}, nowhere surely slower" if advised.gains else ""
        parts = [f"use {named([advised.best])}{where}"]
        if advised.equals:
            parts.append(f"as good, within noise: {named(advised.equals)}")
    elif advised.hopes or advised.doubts:
        parts = [f"perhaps {named(advised.hopes)}" if advised.hopes else "use `off`"]
        if advised.doubts:
            parts.append(f"slower, as it seems: {named(advised.doubts)}")
    else:
        parts = ["use `off`: nothing is surely faster"]
    said = (PLAIN, *advised.hopes, *advised.doubts)
    noisy = [m for m, found in ratios.items() if found.standing is Standing.WITHIN_NOISE and m not in said]
    if advised.best == PLAIN and noisy:
        parts.append(f"within noise of it: {named(noisy)}")
    if advised.avoid:
        parts.append(f"not {named(advised.avoid)}")
    return "; ".join(parts)


def _speedup(found: Ratio) -> str:
    """Return a speedup with its interval: 1.32x, 1.28 to 1.36."""
    if found.interval is None:
        return f"{found.value:.2f}x"
    low, high = found.interval
    return f"{found.value:.2f}x, " + (f"{low:.2f} to {high:.2f}" if found.is_narrow else "interval too wide")
