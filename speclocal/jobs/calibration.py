"""What this machine needs for a model's passes: measured once, kept on disk.

Knows where measurements are kept and what makes one outdated; how to measure is decoding/costs.py's.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from speclocal.decoding.costs import TEXT_LENGTH, Calibration, Exactness, calibrate
from speclocal.llama.model import LlamaModel
from speclocal.llama.weights import Weights
from speclocal.models.files import cache_dir

CalibrationProgress = Callable[[str, float], None]
"""Called while a model is measured: its name, and the share that is done."""

_FORMAT = 1  # raised when what is measured changes
_TEXT = (
    "A river does not hurry. It takes the shape of the land it crosses, slows where the valley is wide, and runs fast "
    "where rocks stand close. In 1986 the bridge near the old mill was closed for two weeks; 340 people used the ferry "
    "each day, and most of them said afterwards that they would miss it.\n"
)


def calibration_of(weights: Weights, progress: CalibrationProgress, *, anew: bool = False) -> Calibration:
    """Return the calibration of a model in its current placement, measured now if it is not on disk or with `anew`."""
    key = _key(weights)
    path = cache_dir() / "calibrations" / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:24]}.json"
    if not anew and (known := _load(path, key)):
        return known
    measured = _measure(weights, progress)
    _save(path, key, measured)
    return measured


def _measure(weights: Weights, progress: CalibrationProgress) -> Calibration:
    tokens = weights.vocab.tokenize(_TEXT)
    text = (tokens * (TEXT_LENGTH // len(tokens) + 1))[:TEXT_LENGTH]
    model = LlamaModel(weights, TEXT_LENGTH)
    try:
        steps = calibrate(model, text, time.perf_counter)
        while True:
            try:
                progress(weights.name, next(steps))
            except StopIteration as done:
                measured: Calibration = done.value
                return measured
    finally:
        model.close()


def _key(weights: Weights) -> dict[str, Any]:
    """Return everything a measurement depends on."""
    file = weights.path.stat()
    return {
        "format": _FORMAT,
        "file": str(weights.path.resolve()),
        "size": file.st_size,
        "changed": file.st_mtime_ns,
        "placement": asdict(weights.placement),
        "machine": weights.machine,
    }


def _load(path: Path, key: dict[str, Any]) -> Calibration | None:
    """Return a stored calibration; None where there is none, or it is damaged or of something else."""
    try:
        stored = json.loads(path.read_text())
        if stored["key"] != key:
            return None
        found = stored["calibration"]
        return Calibration(
            {int(width): float(seconds) for width, seconds in found["seconds"].items()},
            float(found["read_seconds"]),
            tuple(Exactness(int(e["depth"]), tuple(map(int, e["widths"]))) for e in found["exact"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _save(path: Path, key: dict[str, Any], measured: Calibration) -> None:
    """Store a calibration, whole or not at all. A cache that cannot be written costs time, not the reply."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_suffix(f".{os.getpid()}")
        scratch.write_text(json.dumps({"key": key, "calibration": asdict(measured)}, indent=1))
        scratch.replace(path)
    except OSError:
        pass
