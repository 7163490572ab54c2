"""What this machine needs for a model's passes: measured once, kept on disk.

Knows where measurements are kept and what makes one outdated; how to measure is decoding/costs.py's.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from speclocal.decoding.costs import (
    TEXT_LENGTH,
    Calibration,
    Exactness,
    Speeds,
    calibrate,
    measure_speeds,
    quickest_pass,
)
from speclocal.jobs.keys import digest, origin
from speclocal.llama.layouts import TwoLayouts
from speclocal.llama.model import LlamaModel
from speclocal.llama.placement import Placement
from speclocal.llama.remote import open_context
from speclocal.llama.weights import Weights
from speclocal.models.files import cache_dir

CalibrationProgress = Callable[[str, float], None]
"""Called while a model is measured: its name, and the share that is done."""

_DISPROVED = 0.6  # of the time that a pass was measured to take: less is no noise,
_NOTICED = 2e-3  # if it is so many seconds less
_FORMAT = 3  # raised when what is measured changes
_TEXT = (
    "A river does not hurry. It takes the shape of the land it crosses, slows where the valley is wide, and runs fast "
    "where rocks stand close. In 1986 the bridge near the old mill was closed for two weeks; 340 people used the ferry "
    "each day, and most of them said afterwards that they would miss it.\n"
)


def calibration_of(
    weights: Weights, progress: CalibrationProgress, *, deep: bool = False, anew: bool = False
) -> Calibration:
    """Return the calibration of a model as it is placed, measured now if it is not on disk or with `anew`.

    deep: with exact widths at a long context.
    """
    known = known_calibration(weights.path, weights.placement)
    if known and not anew and (known.is_deep or not deep):
        return known
    with _measurable(weights) as (model, text):
        measured = calibrate(model, text, time.perf_counter, partial(progress, weights.name), deep=deep)
    _save("calibration", weights.path, weights.placement, measured)
    return measured


def confirmed_calibration(
    model: LlamaModel | TwoLayouts, progress: CalibrationProgress, *, deep: bool = False
) -> Calibration:
    """Return the calibration of an open model, measured anew where its passes are far faster now than it says.

    Then another program took the processor's time while it was measured, and what wide passes cost relative to narrow
    ones is as wrong. Passes that are slower now prove nothing: that may be another program, too.
    """
    known = known_calibration(model.weights.path, model.weights.placement)
    disproved = known is not None and _disproves(quickest_pass(model, time.perf_counter), known.speeds)
    return calibration_of(model.weights, progress, deep=deep or bool(known and known.is_deep), anew=disproved)


def forget_disproved(weights: Weights, token_seconds: float) -> None:
    """Delete measurements if a pass over one token is known to take far less: the next to need them measures anew."""
    known = known_speeds(weights.path, weights.placement)
    if known and _disproves(token_seconds, known):
        key = _key(weights.path, weights.placement)
        for kind in ("calibration", "speeds"):
            with suppress(OSError):
                _place(kind, key).unlink(missing_ok=True)


def _disproves(token_seconds: float, known: Speeds) -> bool:
    """Return whether a pass over one token in `token_seconds` shows that a measurement was disturbed."""
    return token_seconds < min(_DISPROVED * known.token_seconds, known.token_seconds - _NOTICED)


def known_calibration(path: Path, placement: Placement) -> Calibration | None:
    """Return the calibration on disk; None where there is none, or it is damaged or of something else."""
    found = _load("calibration", path, placement)
    try:
        return found and Calibration(
            {int(width): _positive(seconds) for width, seconds in found["seconds"].items()},
            _positive(found["read_seconds"]),
            tuple(Exactness(int(each["depth"]), tuple(map(int, each["widths"]))) for each in found["exact"]),
            float(found["rollback_seconds"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def speeds_of(weights: Weights, progress: CalibrationProgress) -> Speeds:
    """Return how fast a model reads and writes as it is placed, measured now if it is not on disk."""
    if known := known_speeds(weights.path, weights.placement):
        return known
    progress(weights.name, 0.0)
    with _measurable(weights) as (model, text):
        measured = measure_speeds(model, text, time.perf_counter)
    progress(weights.name, 1.0)
    _save("speeds", weights.path, weights.placement, measured)
    return measured


def known_speeds(path: Path, placement: Placement) -> Speeds | None:
    """Return the speeds on disk, from a whole calibration where there is one."""
    if calibration := known_calibration(path, placement):
        return calibration.speeds
    found = _load("speeds", path, placement)
    try:
        return found and Speeds(_positive(found["read_seconds"]), _positive(found["token_seconds"]))
    except (ValueError, KeyError, TypeError):
        return None


def _positive(value: float) -> float:
    if not 0 < value < float("inf"):
        raise ValueError(f"{value} seconds")
    return float(value)


@contextmanager
def _measurable(weights: Weights) -> Iterator[tuple[LlamaModel, list[int]]]:
    """Give a context of its own to a measurement, and the text it reads."""
    tokens = weights.vocab.tokenize(_TEXT)
    model = open_context(weights, TEXT_LENGTH)
    try:
        yield model, (tokens * (TEXT_LENGTH // len(tokens) + 1))[:TEXT_LENGTH]
    finally:
        model.close()


def _key(path: Path, placement: Placement) -> dict[str, Any]:
    """Return everything a measurement depends on."""
    return {"format": _FORMAT, **origin(path, placement)}


def _place(kind: str, key: dict[str, Any]) -> Path:
    return cache_dir() / "measured" / f"{digest(key)}.{kind}.json"


def _load(kind: str, path: Path, placement: Placement) -> Any:
    key = _key(path, placement)
    try:
        stored = json.loads(_place(kind, key).read_text())
        return stored[kind] if stored["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _save(kind: str, path: Path, placement: Placement, measured: Calibration | Speeds) -> None:
    """Store a measurement, whole or not at all. A cache that cannot be written costs time, not the reply."""
    key = _key(path, placement)
    place = _place(kind, key)
    scratch = place.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_text(json.dumps({"key": key, kind: asdict(measured)}, indent=1))
        scratch.replace(place)
