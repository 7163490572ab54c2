"""What comparisons measured as plain values: for JSON beside the records, and row by row for CSV.

Knows names of columns; how numbers come about is measures.py's.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from io import StringIO
from typing import Any

from speclocal.jobs.comparison import Comparison, to_json
from speclocal.jobs.measures import Measure, advice, measures, overall
from speclocal.jobs.ratios import Ratio


def document(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """Return the records of comparisons, with what follows from them: every measure, and what to use."""
    told = to_json(comparisons)
    for comparison, entry in zip(comparisons, told["comparisons"], strict=True):
        entry["measures"] = [_values(measure) for measure in measures(comparison)]
        entry["overall"] = [
            {**asdict(each), "speedup": _ratio(each.speedup), "request_speedup": _ratio(each.request_speedup)}
            for each in overall(comparison)
        ]
        entry["use"] = {task.name: advice(comparison, [task.name]).best for task in comparison.tasks}
        entry["use_overall"] = advice(comparison).best
    return told


def csv_table(comparisons: Sequence[Comparison]) -> str:
    """Return one row for every model, task and mode; what was not counted is empty."""
    rows = [row for comparison in comparisons for row in _rows(comparison)]
    sheet = StringIO()
    writer = csv.DictWriter(sheet, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return sheet.getvalue()


_COLUMNS = (
    *("started", "model", "draft", "task", "kind", "mode", "runs", "tokens_per_second", "tokens_per_second_lowest"),
    *("tokens_per_second_highest", "speedup", "speedup_low", "speedup_high", "request_speedup", "request_seconds"),
    *("acceptance_rate", "draft_utilisation", "tokens_per_round", "drafted", "tested", "accepted", "draft_seconds"),
    *("verify_seconds", "other_seconds", "predicted_textbook", "predicted_measured", "same_text", "complete"),
)


def _rows(comparison: Comparison) -> Iterator[dict[str, Any]]:
    kinds = {task.name: task.kind for task in comparison.tasks}
    for each in measures(comparison):
        low, high = (each.speedup.interval if each.speedup else None) or (None, None)
        yield {
            "started": comparison.started,
            "model": comparison.target.name,
            "draft": comparison.draft.name if comparison.draft else "",
            "task": each.task,
            "kind": kinds[each.task],
            "mode": each.mode,
            "runs": each.num_runs,
            "tokens_per_second": each.tokens_per_second.median,
            "tokens_per_second_lowest": each.tokens_per_second.lowest,
            "tokens_per_second_highest": each.tokens_per_second.highest,
            "speedup": each.speedup and each.speedup.value,
            "speedup_low": low,
            "speedup_high": high,
            "request_speedup": each.request_speedup and each.request_speedup.value,
            "request_seconds": each.request_seconds,
            "acceptance_rate": each.acceptance_rate,
            "draft_utilisation": each.draft_utilisation,
            "tokens_per_round": each.tokens_per_round,
            "drafted": each.drafted,
            "tested": each.tested,
            "accepted": each.accepted,
            "draft_seconds": each.draft_seconds,
            "verify_seconds": each.verify_seconds,
            "other_seconds": each.other_seconds,
            "predicted_textbook": each.predicted and each.predicted.textbook,
            "predicted_measured": each.predicted and each.predicted.measured,
            "same_text": {True: "yes", False: "no", None: ""}[each.same_text],
            "complete": "yes" if comparison.complete else "no",
        }


def _values(measure: Measure) -> dict[str, Any]:
    """Return a measure as plain values; its fork stands among those of the comparison."""
    values = asdict(replace(measure, fork=None))
    del values["fork"]
    return {**values, "speedup": _ratio(measure.speedup), "request_speedup": _ratio(measure.request_speedup)}


def _ratio(ratio: Ratio | None) -> dict[str, Any] | None:
    if ratio is None:
        return None
    low, high = ratio.interval or (None, None)
    return {"value": ratio.value, "low": low, "high": high, "pairs": ratio.num_pairs}
