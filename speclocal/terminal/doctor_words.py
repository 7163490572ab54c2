"""What an examination means, in sentences: whether to draft, with what, for which tasks.

Knows examinations and how to say what follows from them, not where it is shown.
"""

from __future__ import annotations

from collections.abc import Sequence

from speclocal.jobs.doctor import Candidate, Examination
from speclocal.jobs.forecast import Forecast, Outcome, TaskForecast
from speclocal.jobs.machine import MachineReport
from speclocal.llama.grants import Cores
from speclocal.terminal import words

_PLURAL = {"summary": "summaries", "code edit": "code edits"}
_GAIN = 1.03
"""From here on something counts as faster, below its inverse as slower: replies vary by more than nothing."""
WITHOUT_DRAFT = "leave out `--draft` to draft by prompt lookup, which works with every model"

LEGEND = (
    "tok/s: plain decoding; x: times as fast as that, the prompt read. lookup, draft: with their usual draft length; "
    "best:g: with the best one, g. right: the share of the reply that the draft model guesses. step: its seconds over "
    "those of a one-token pass. alone: mode auto without it"
)


def verdict(found: Examination) -> list[str]:
    """Return what to do with these models on this machine, and why."""
    sentences = [_refusal(found, candidate) for candidate in found.candidates if candidate.obstacle]
    fitting = [candidate for candidate in found.candidates if not candidate.obstacle]
    if fitting and found.measured is None:
        names = " and ".join(f"`{candidate.name}`" for candidate in fitting)
        sentences.append(
            f"the vocabulary of {names} fits; without `--quick` you learn whether drafting pays here"
            if not found.notes
            else f"the vocabulary of {names} fits, but no task does: what drafting gains is not known"
        )
    if found.measured and not found.measured.can_rollback:
        sentences.append(f"`{found.facts.name}` decodes plainly: its cache can neither drop tokens nor be copied")
    if best := found.best:
        sentences += _of_candidate(best, found)
    elif found.alone:
        sentences += _alone(found.alone)
    return [*sentences, _memory(found)]


def _memory(found: Examination) -> str:
    """Return what the target takes, with the best draft model or the only one, and whether there is room for it."""
    drafts = [each.facts for each in found.candidates if each.facts and not each.obstacle]
    models = [found.facts, *drafts[:1]]
    context = found.facts.usual_context
    needed = sum(facts.memory_bytes(min(context, facts.usual_context)) for facts in models)
    who = " and ".join(f"`{facts.name}`" for facts in models)
    verb = "takes" if len(models) == 1 else "take"
    said = (
        f"{who} {verb} {words.size(needed)} with a context of {context:,}, and {words.size(found.free_bytes)} are free"
    )
    return said if needed <= found.free_bytes else f"{said}: too little; choose a smaller model or quantization"


def threads(cores: Cores) -> str:
    """Return how many threads a pass has, and why so many."""
    reasons = [f"{words.count(cores.cores, 'physical core')} in this process's reach"]
    if cores.allowed_threads < cores.hardware_threads:
        reasons.append(f"its affinity mask has {cores.allowed_threads} of {cores.hardware_threads} hardware threads")
    elif cores.cores < cores.hardware_threads and not cores.slow:
        reasons.append(f"a second thread on a core does not help, so not {cores.hardware_threads}")
    if cores.slow:
        reasons.append("slower cores are left out, since every pass waits for the slowest thread")
    if cores.quota < cores.cores:
        reasons.append(f"a CPU quota of {words.number(cores.quota)}")
    return f"{cores.usable}: {'; '.join(reasons)}"


def gpu(report: MachineReport) -> list[str]:
    """Return what can be done to use a GPU, one sentence for each that lies idle."""
    if report.advice:
        return list(report.advice)
    if any(device.takes_layers for device in report.devices):
        return ["layers go to the GPU by themselves; `--gpu-layers` says how many"]
    return ["no GPU is found in this machine; passes run on the CPU"]


def _refusal(found: Examination, candidate: Candidate) -> str:
    end = f"; {WITHOUT_DRAFT}" if len(found.candidates) == 1 else ""
    return f"`{candidate.name}` cannot draft for `{found.facts.name}`: {candidate.obstacle}{end}"


def _of_candidate(best: Candidate, found: Examination) -> list[str]:
    """Return whether the best draft model is worth having, for what, and why."""
    assert best.forecast
    assert best.facts
    tasks = best.forecast.tasks
    helped = [task for task in tasks if task.auto and task.auto.speedup >= _GAIN * task.auto_alone.speedup]
    slowed = [task for task in tasks if task.draft and task.draft.speedup * _GAIN < 1]
    sentences = []
    if helped:
        each = _joined([f"{_plural(t)} ({_times(t.auto)} plain, {_times(t.auto_alone)} without it)" for t in helped])
        sentences.append(f"use `--draft {best.name}` for {each}")
    else:
        saved = words.size(best.facts.memory_bytes(best.facts.usual_context))
        sentences.append(
            f"leave out `--draft {best.name}`: mode `auto` gains nothing from it here, and {saved} of memory are saved"
        )
    if hurt := [task for task in tasks if task.auto and task.auto.speedup * _GAIN < task.auto_alone.speedup]:
        each = _joined([f"{_plural(t)} ({_times(t.auto)} plain, {_times(t.auto_alone)} without it)" for t in hurt])
        sentences.append(f"in mode `auto` it would cost speed for {each}")
    if slowed:
        each = ", ".join(_times(task.draft) for task in slowed)
        spared = [task for task in slowed if task.auto and task.auto.speedup * _GAIN >= 1]
        end = "; mode `auto` leaves it alone there" if spared == slowed else ""
        sentences.append(f"for {_listed(slowed)} `--mode draft` would slow you down ({each}){end}")
    sentences += _lengths(tasks)
    guessed = _joined([f"{task.agreement:.0%} in {_plural(task)}" for task in tasks if task.agreement is not None])
    ratios = [task.cost_ratio for task in tasks if task.cost_ratio is not None]
    sentences.append(
        f"why: a step of `{best.name}` costs {words.number(sum(ratios) / len(ratios))} of a pass of "
        f"`{found.facts.name}`, and of the tokens it guesses {guessed}"
    )
    return sentences


def _lengths(tasks: Sequence[TaskForecast]) -> list[str]:
    """Return the best draft lengths of mode `draft`."""
    paying = [task for task in tasks if task.best_draft and task.best_draft.speedup >= _GAIN]
    if not paying:
        return ["no draft length makes `--mode draft` faster than plain decoding here"]
    each = ", ".join(
        f"{task.best_draft.num_draft_tokens} for {_plural(task)} ({_times(task.best_draft)})"
        for task in paying
        if task.best_draft
    )
    return [f"best draft length of `--mode draft`: {each}"]


def _alone(alone: Forecast) -> list[str]:
    """Return what a target gains without a draft model."""
    faster = [task for task in alone.tasks if task.auto_alone.speedup >= _GAIN]
    rest = [task for task in alone.tasks if task not in faster]
    sentences = []
    if faster:
        each = ", ".join(f"{_plural(task)} {_times(task.auto_alone)}" for task in faster)
        sentences.append(f"mode `auto` makes it faster by prompt lookup: {each}")
    if rest:
        sentences.append(f"without a draft model nothing is gained for {_listed(rest)}: decoding is plain there")
    return sentences


def _times(outcome: Outcome | None) -> str:
    return f"{outcome.speedup:.2f}x" if outcome else "?"


def _plural(task: TaskForecast) -> str:
    return _PLURAL.get(task.kind, task.kind)


def _listed(tasks: Sequence[TaskForecast]) -> str:
    return _joined([_plural(task) for task in tasks])


def _joined(parts: Sequence[str]) -> str:
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last
