"""Which weight layout writes and which one reads, planned for the whole job: prompt and reply.

Knows measured speeds and free memory.
"""

from __future__ import annotations

from pathlib import Path

from speclocal.decoding.costs import Speeds
from speclocal.jobs.calibration import CalibrationProgress, known_speeds, speeds_of
from speclocal.llama.formats import Layout
from speclocal.llama.grants import free_memory
from speclocal.llama.placement import Placement
from speclocal.llama.weights import Weights

_LONG_PROMPT = 512
"""Tokens of a prompt from which on a second layout is worth a measurement."""
_IMPLAUSIBLE = 3.0
"""Times the other's seconds that a layout can hardly take."""
_OVERHEAD_SECONDS = 0.6
"""About what a second layout costs a job: mapping the file again and handing the cache over."""


def writing_layout(path: Path, placement: Placement) -> Layout:
    """Return the layout that writes tokens fastest, as far as is known: llama.cpp's default until measured.

    A default that seems implausibly slow was measured beside another program: its own passes will tell.
    """
    known = {layout: known_speeds(path, placement.in_layout(layout)) for layout in Layout}
    measured = {layout: speeds.token_seconds for layout, speeds in known.items() if speeds}
    if len(measured) < len(Layout):
        return Layout.REPACKED
    fastest = min(measured, key=lambda layout: measured[layout])
    return fastest if measured[Layout.REPACKED] < _IMPLAUSIBLE * measured[fastest] else Layout.REPACKED


def open_reader(weights: Weights, num_prompt_tokens: int, measuring: CalibrationProgress | None) -> Weights | None:
    """Return the same model in the other layout if reading the prompt with it makes the job faster, else None.

    measuring: told about a measurement that is made if it is missing; None makes no measurement.
    """
    if not weights.on_cpu or weights.has_sliding_window or num_prompt_tokens < _LONG_PROMPT:
        return None
    placement = weights.placement.in_layout(next(layout for layout in Layout if layout != weights.placement.layout))
    own, other = known_speeds(weights.path, weights.placement), known_speeds(weights.path, placement)
    if own is None and measuring:
        own = speeds_of(weights, measuring)
    if own is None or (other is None and measuring is None):
        return None
    if other and not _pays(own.read_seconds, other.read_seconds, num_prompt_tokens):
        return None
    if weights.size_bytes > free_memory():
        return None
    reader = Weights(weights.path, placement, weights.name)
    if other is None and measuring:
        other = speeds_of(reader, measuring)
    if other and _pays(own.read_seconds, other.read_seconds, num_prompt_tokens):
        return reader
    reader.close()
    return None


def layout_speeds(weights: Weights, measuring: CalibrationProgress) -> dict[Layout, Speeds]:
    """Return how fast a model reads and writes in each layout of its weights, measured if it is not known.

    There is one layout where that is no choice: on a GPU.
    """
    found = {weights.placement.layout: speeds_of(weights, measuring)}
    for layout in Layout:
        if weights.on_cpu and layout not in found:
            other = Weights(weights.path, weights.placement.in_layout(layout), weights.name)
            try:
                found[layout] = speeds_of(other, measuring)
            finally:
                other.close()
    return found


def _pays(own: float, other: float, num_tokens: int) -> bool:
    return (own - other) * num_tokens > _OVERHEAD_SECONDS
