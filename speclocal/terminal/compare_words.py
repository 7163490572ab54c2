"""What comparisons say in sentences: under which conditions, what to use and what not, and where texts fork.

Knows measures and advice, not tables.
"""

from __future__ import annotations

from collections.abc import Sequence

from speclocal.jobs.comparison import PLAIN, Comparison
from speclocal.jobs.measures import Advice, advice, measures, ratio
from speclocal.jobs.ratios import Ratio, Standing
from speclocal.terminal import words
from speclocal.terminal.fork_words import fork_words

_FEW = {
    1: "every mode ran once: nothing tells a gain from noise; `--repeats 3` would",
    2: "every mode ran twice: intervals are wide; more `--repeats` make them narrow",
}
"""What is said of few repeats."""
LEGEND = (
    "95 %: interval of the speedup, for a second run: by the scatter of paired runs, and the drift that is usual on a "
    "machine in use. request: speedup with the prompt. accepted: the acceptance rate, accepted / tested; also by "
    "position in the draft. used: the draft utilisation, accepted / drafted. theory: the speedup where a pass costs "
    "the same at any width, then by the costs of this machine. time: \u2591 drafting, \u2588 target passes, \u00b7 the "
    "rest."
)


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
    lines = [f"{task}: {_advised(comparison, advice(comparison, [task]), [task])}" for task in tasks]
    if len(tasks) > 1:
        lines.append(f"over all {len(tasks)} tasks: {_advised(comparison, advice(comparison, tasks), tasks)}")
    if lines and comparison.conditions.repeats in _FEW:
        lines.append(_FEW[comparison.conditions.repeats])
    return lines


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
    return [
        f"texts: {fork.task}, `{fork.mode}` {fork_words(fork, fork.plain_text, fork.other_text, greedy=greedy)}"
        for fork in comparison.forks
    ]


def differences(first: Comparison, second: Comparison) -> list[str]:
    """Return in what the circumstances of two comparisons differ."""
    pairs = {
        "machine": (first.machine.cpu, second.machine.cpu),
        "threads": (first.conditions.threads, second.conditions.threads),
        "target": (first.target.sha256, second.target.sha256),
        "draft model": (first.draft and first.draft.sha256, second.draft and second.draft.sha256),
        "speclocal": (first.versions.speclocal, second.versions.speclocal),
        "llama.cpp": (first.versions.llama_cpp, second.versions.llama_cpp),
        "sampling": (first.conditions.params, second.conditions.params),
        "seed": (first.conditions.seed, second.conditions.seed),
        "reply length": (first.conditions.max_tokens, second.conditions.max_tokens),
        "cache type": (first.conditions.kv_type, second.conditions.kv_type),
        "layout": (first.conditions.layout, second.conditions.layout),
    }
    differing = [name for name, (one, two) in pairs.items() if one != two]
    if not differing:
        return ["both were measured under the same conditions"]
    return [f"the two differ in: {', '.join(differing)}"]


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
            parts.append(f"slower: {named(advised.doubts)}")
    else:
        doubtful = [m for m in ratios if m != PLAIN and ratios[m].standing is Standing.WITHIN_NOISE]
        parts = ["use `off`: nothing is surely faster"]
        if doubtful:
            parts.append(f"within noise of it: {named(doubtful)}")
    if advised.avoid:
        parts.append(f"not {named(advised.avoid)}")
    return "; ".join(parts)


def _speedup(found: Ratio) -> str:
    """Return a speedup with its interval: 1.32x, 1.28 to 1.36."""
    if found.interval is None:
        return f"{found.value:.2f}x"
    low, high = found.interval
    return f"{found.value:.2f}x, {low:.2f} to {high:.2f}"
