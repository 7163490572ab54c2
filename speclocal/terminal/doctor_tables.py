"""Tables of what `doctor` found.

Knows reports and examinations, not how they came about.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from speclocal.jobs.doctor import Candidate, Examination, Facts, Measured
from speclocal.jobs.forecast import Forecast, Outcome, TaskForecast
from speclocal.jobs.machine import MachineReport
from speclocal.llama.devices import Device
from speclocal.terminal import doctor_words, words
from speclocal.terminal.tables import cell, new_table


def tables(found: Examination) -> list[Table]:
    """Return everything about models that `doctor` was asked about."""
    shown = [models_table(found)]
    shown += [vocabulary_table(candidate) for candidate in found.candidates if candidate.vocabulary]
    if len(found.candidates) > 1 and found.alone:
        shown.append(ranking_table(found.candidates))
    if found.best and found.best.forecast:
        shown.append(forecast_table(f"{found.facts.name} with {found.best.name}", found.best.forecast))
    elif found.alone:
        shown.append(forecast_table(found.facts.name, found.alone))
    return shown


def machine_table(report: MachineReport) -> Table:
    """Return what this machine offers."""
    rows = [
        ("Python", report.python),
        ("system", report.system),
        ("llama-cpp-python", report.llama_cpp_python),
        ("built for", ", ".join(report.backends)),
        ("uses of the CPU", ", ".join(report.features)),
        *(("device", _device(device)) for device in report.devices),
        *(("GPU", sentence) for sentence in doctor_words.gpu(report)),
        ("threads", doctor_words.threads(report.cores)),
        ("memory", f"{words.size(report.free_bytes)} of {words.size(report.total_bytes)} free"),
    ]
    return _two_columns(rows)


def places_table(report: MachineReport) -> Table:
    """Return where things are kept, and how much there is."""
    table = new_table("kept", "files", "size", "in")
    for place in report.places:
        cells = (place.what, str(place.num_files), words.size(place.num_bytes), str(place.folder))
        table.add_row(*map(cell, cells))
    return table


def disk_table(report: MachineReport) -> Table:
    """Return the models that are on this disk, those of other programs too."""
    table = new_table("model on disk", "size", "file")
    for model in report.models:
        size = words.size(model.size_bytes) if model.size_bytes else "?"
        table.add_row(*map(cell, (model.name, size, f"{model.path}{f' ({model.flaw})' if model.flaw else ''}")))
    return table


def models_table(found: Examination) -> Table:
    """Return what the files say and what was measured, a column for each model."""
    columns = [(found.facts, found.measured)]
    columns += [(each.facts, each.measured) for each in found.candidates if each.facts]
    table = new_table("", *("target" if i == 0 else "draft" for i in range(len(columns))))
    for name, values in (
        ("model", [facts.name for facts, _ in columns]),
        ("architecture", [facts.architecture for facts, _ in columns]),
        ("quantization", [facts.quantization for facts, _ in columns]),
        ("file", [words.size(facts.file_bytes) for facts, _ in columns]),
        ("chat template", [_template(facts) for facts, _ in columns]),
        ("trained on", [_trained(facts) for facts, _ in columns]),
        ("context memory", [_context(facts) for facts, _ in columns]),
        ("recurrent state", [_state(facts) for facts, _ in columns]),
        ("memory in all", [_memory(facts) for facts, _ in columns]),
        ("writes", [_speed(measured.speeds.token_seconds if measured else None) for _, measured in columns]),
        ("reads", [_speed(measured.speeds.read_seconds if measured else None) for _, measured in columns]),
        ("cache drops tokens", [_rollback(measured) for _, measured in columns]),
        ("exact widths", [_exact(measured) for _, measured in columns]),
    ):
        table.add_row(*map(cell, (name, *values)))
    return table


def vocabulary_table(candidate: Candidate) -> Table:
    """Return two vocabularies side by side."""
    found = candidate.vocabulary
    assert found
    first = found.first_difference
    table = new_table("vocabulary", "target", candidate.name)
    rows = [
        ("type", *found.kinds),
        ("ids", *(f"{size:,}" for size in found.sizes)),
        ("ids only here, in use", *map(_added, found.num_added, found.added)),
        ("begins with", *found.bos),
        ("ends with", *found.eos),
        ("shared ids that differ", f"{found.num_differing:,} of {found.num_shared:,}", ""),
    ]
    if first:
        rows.append((f"first of them: {first.token}", first.target, first.draft))
    for row in rows:
        table.add_row(*map(cell, row))
    return table


def forecast_table(name: str, forecast: Forecast) -> Table:
    """Return what every mode would do to every kind of task, relative to plain decoding."""
    drafted = all(task.drafts for task in forecast.tasks)
    columns = ["task", "tok/s", "lookup", "best:g"]
    columns += ["right", "step", "draft", "best:g", "alone"] if drafted else []
    table = new_table(*columns, "auto", title=f"predicted: {name}")
    for column in table.columns[1:]:
        column.justify = "right"
    for task in forecast.tasks:
        table.add_row(*map(cell, _forecast_cells(task, drafted=drafted)))
    return table


def ranking_table(candidates: Sequence[Candidate]) -> Table:
    """Return draft models in the order in which they serve the target; means over the tasks."""
    table = new_table("rank", "draft model", "memory", "step", "right", "auto", "gain", "draft length")
    for rank, candidate in enumerate(candidates, 1):
        if candidate.forecast is None or candidate.facts is None:
            cells = ["-", candidate.name, "cannot draft"]
        else:
            tasks = candidate.forecast.tasks
            cells = [
                str(rank),
                candidate.name,
                words.size(candidate.facts.memory_bytes(candidate.facts.usual_context)),
                words.number(_mean([task.cost_ratio for task in tasks])),
                f"{_mean([task.agreement for task in tasks]):.0%}",
                f"{candidate.forecast.speedup:.2f}x",
                f"{candidate.forecast.gain:.2f}x",
                str(candidate.forecast.best_draft_length),
            ]
        table.add_row(*map(cell, cells))
    return table


def _forecast_cells(task: TaskForecast, *, drafted: bool) -> list[str]:
    plain = words.number(task.num_tokens / task.plain.decode_seconds)
    cells = [task.kind, plain, f"{task.lookup.speedup:.2f}x", _best(task.best_lookup)]
    if drafted:
        assert task.draft
        assert task.best_draft
        cells += [
            f"{task.agreement or 0:.0%}",
            words.number(task.cost_ratio or 0),
            f"{task.draft.speedup:.2f}x",
            _best(task.best_draft),
            f"{task.auto_alone.speedup:.2f}x",
        ]
    return [*cells, f"{(task.auto or task.auto_alone).speedup:.2f}x"]


def _best(outcome: Outcome) -> str:
    return f"{outcome.speedup:.2f}x:{outcome.num_draft_tokens}"


def _two_columns(rows: Sequence[tuple[str, str]]) -> Table:
    table = new_table("this machine", "")
    for row in rows:
        table.add_row(*map(cell, row))
    return table


def _device(device: Device) -> str:
    memory = f", {words.size(device.free_bytes)} free" if device.total_bytes else ""
    return f"{device.name}: {device.description} ({device.kind}{memory})"


def _template(facts: Facts) -> str:
    if not facts.has_chat_template:
        return "none: texts are continued as they stand"
    return f"unusable: {facts.chat_template_problem}" if facts.chat_template_problem else "usable"


def _trained(facts: Facts) -> str:
    return f"{facts.trained_context:,} tokens" if facts.trained_context else "?"


def _context(facts: Facts) -> str:
    if not facts.context_token_bytes:
        return "none for each token"
    each = f"{words.size(facts.context_token_bytes)} a token"
    if not facts.trained_context:
        return each
    return f"{each}, {words.size(facts.trained_context * facts.context_token_bytes)} for all"


def _state(facts: Facts) -> str:
    return words.size(facts.state_bytes) if facts.state_bytes else "none"


def _memory(facts: Facts) -> str:
    context = facts.usual_context
    return f"{words.size(facts.memory_bytes(context))} with a context of {context:,}"


def _speed(seconds: float | None) -> str:
    return f"{words.number(1 / seconds)} tokens/s" if seconds else "not measured"


def _rollback(measured: Measured | None) -> str:
    if measured is None:
        return "not tried"
    return "yes" if measured.can_rollback else "no: decoding is plain"


def _exact(measured: Measured | None) -> str:
    if measured is None or not measured.exact:
        return "not measured"
    *shallow, deepest = [_ranges(found.widths) for found in measured.exact]
    if all(widths == deepest for widths in shallow):
        return deepest
    depths = [f"{widths} up to {found.depth} tokens" for widths, found in zip(shallow, measured.exact, strict=False)]
    return "; ".join([*depths, f"{deepest} beyond"])


def _ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers in short: `1 to 8, 12`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def _added(number: int, first: Sequence[str]) -> str:
    more = ", ..." if number > len(first) else ""
    return f"{number:,}: {', '.join(first)}{more}" if number else "none"


def _mean(values: Sequence[float | None]) -> float:
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if present else 0.0
