"""What `doctor` found, as plain values for `--json`.

Knows reports and examinations, not how they came about.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from speclocal.jobs.doctor import Examination, Facts, Measured
from speclocal.jobs.forecast import Forecast, TaskForecast
from speclocal.jobs.machine import MachineReport
from speclocal.terminal import doctor_words


def machine_json(report: MachineReport) -> dict[str, Any]:
    """Return what this machine offers as plain values."""
    return {
        "python": report.python,
        "system": report.system,
        "llama_cpp_python": report.llama_cpp_python,
        "features": list(report.features),
        "backends": list(report.backends),
        "devices": [asdict(device) for device in report.devices],
        "advice": list(report.advice),
        "threads": report.cores.usable,
        "hardware_threads": report.cores.hardware_threads,
        "allowed_threads": report.cores.allowed_threads,
        "cores": report.cores.cores,
        "cpu_quota": None if report.cores.quota == float("inf") else report.cores.quota,
        "free_memory_bytes": report.free_bytes,
        "total_memory_bytes": report.total_bytes,
        "kept": [
            {"what": place.what, "folder": str(place.folder), "files": place.num_files, "bytes": place.num_bytes}
            for place in report.places
        ],
        "models": [
            {"name": model.name, "path": str(model.path), "flaw": model.flaw or None} for model in report.models
        ],
    }


def examination_json(found: Examination) -> dict[str, Any]:
    """Return an examination as plain values. `modes` has the names that comparisons use."""
    return {
        "target": _facts_json(found.facts),
        "max_tokens": found.num_tokens,
        "measured": _measured_json(found.measured),
        "alone": _forecast_json(found.alone),
        "candidates": [
            {
                "name": candidate.name,
                "fits": not candidate.obstacle,
                "obstacle": candidate.obstacle,
                "facts": _facts_json(candidate.facts),
                "vocabulary": asdict(candidate.vocabulary) if candidate.vocabulary else None,
                "measured": _measured_json(candidate.measured),
                "forecast": _forecast_json(candidate.forecast),
            }
            for candidate in found.candidates
        ],
        "notes": list(found.notes),
        "verdict": doctor_words.verdict(found),
    }


def _facts_json(facts: Facts | None) -> dict[str, Any] | None:
    if facts is None:
        return None
    context = facts.usual_context
    memory = {"usual_context": context, "memory_bytes": facts.memory_bytes(context)}
    return {**asdict(facts), "path": str(facts.path), **memory}


def _measured_json(measured: Measured | None) -> dict[str, Any] | None:
    return asdict(measured) if measured else None


def _forecast_json(forecast: Forecast | None) -> dict[str, Any] | None:
    if forecast is None:
        return None
    return {
        "speedup": forecast.speedup,
        "gain": forecast.gain,
        "best_draft_length": forecast.best_draft_length,
        "tasks": [
            {
                "task": task.task,
                "kind": task.kind,
                "prompt_tokens": task.num_prompt_tokens,
                "tokens": task.num_tokens,
                "plain_tokens_per_second": task.num_tokens / task.plain.decode_seconds,
                "agreement": task.agreement,
                "cost_ratio": task.cost_ratio,
                "modes": _modes_json(task),
            }
            for task in forecast.tasks
        ],
    }


def _modes_json(task: TaskForecast) -> dict[str, Any]:
    usual = {"lookup": task.lookup, "draft": task.draft, "auto without draft": task.auto_alone}
    named = {outcome.name: outcome for outcome in task.outcomes} | {k: v for k, v in usual.items() if v}
    return {
        name: {
            "speedup": outcome.speedup,
            "decode_seconds": outcome.decode_seconds,
            "acceptance_rate": outcome.acceptance_rate,
            "tokens_per_round": outcome.tokens_per_round,
        }
        for name, outcome in named.items()
    }
