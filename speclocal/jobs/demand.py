"""What a model takes where: bytes on every device and on the CPU, for so many layers and so long a context.

Knows footprints of models and free memory; figures only. What to do about them is fitting.py's.

What a context takes follows llama.cpp's allocation. What a pass takes is a rule, found by asking llama.cpp itself
(`no_alloc`, which computes sizes without allocating) about models of 0.1 to 70 billion parameters: exact for plain
transformers, up to a fifth more than needed for others, never less.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from speclocal.llama.context import PASS_ROWS, PASS_TOKENS
from speclocal.llama.devices import Device
from speclocal.llama.placement import Placement
from speclocal.models.footprint import Footprint

_FLOAT, _HALF = 4, 2  # bytes of a number
_CELLS = 256
"""llama.cpp rounds a context up to a multiple of this."""
_MASK_COPIES = 4
"""How often several GPUs keep what every layer reads, to work at the same time (GGML_SCHED_MAX_COPIES)."""
_RESERVE_BYTES = 1 << 30
"""What is left free on a device for its backend's own buffers, as llama.cpp does by default (`--fit-target`)."""
_RESERVE_SHARE = 0.1
"""The same on small devices, as a share of all their memory."""


@dataclass(frozen=True)
class Demand:
    """A model with a context of so many tokens, as it is asked for."""

    name: str
    footprint: Footprint
    placement: Placement
    context: int

    @property
    def num_layers(self) -> int:
        """The layers on GPUs that are asked for: all where none are."""
        asked = self.placement.gpu_layers
        return self.footprint.num_layers if asked is None else min(asked, self.footprint.num_layers)


def fits(demand: Demand, devices: Sequence[Device], num_layers: int) -> bool:
    """Return whether so many layers, with their part of the context, fit the devices."""
    taken = device_bytes(demand, devices, num_layers)
    return all(num_bytes <= max(0, room(device)) for num_bytes, device in zip(taken, devices, strict=True))


def room(device: Device) -> float:
    """Return the bytes of a device that may be taken; no bound where its backend cannot tell."""
    return device.free_bytes - reserve(device) if device.total_bytes else math.inf


def reserve(device: Device) -> float:
    """Return the bytes of a device that stay free."""
    return min(_RESERVE_BYTES, _RESERVE_SHARE * device.total_bytes)


def most_layers(demand: Demand, devices: Sequence[Device]) -> int:
    """Return how many layers fit the devices beside the context, 0 where not one does."""
    return next((n for n in range(demand.footprint.num_layers, 0, -1) if fits(demand, devices, n)), 0)


def largest_context(demand: Demand, devices: Sequence[Device]) -> int:
    """Return the largest context that fits the devices beside the layers that are asked for, 0 where none does."""
    trained = demand.footprint.trained_context or demand.context
    sizes = range(_CELLS, trained + _CELLS, _CELLS)
    num_fitting = bisect_right(
        sizes, False, key=lambda size: not fits(replace(demand, context=size), devices, demand.num_layers)
    )
    return min(trained, sizes[num_fitting - 1]) if num_fitting else 0


def device_bytes(demand: Demand, devices: Sequence[Device], num_layers: int) -> list[int]:
    """Return what the last so many layers, with their part of the context and a pass, take on each device.

    llama.cpp gives the devices runs of layers by their shares (llama_model::load_tensors).
    """
    layers = _layer_bytes(demand, with_weights=True)[-num_layers:] if num_layers else []
    shares = demand.placement.tensor_split or [device.free_bytes or 1 for device in devices]
    ends = [end / sum(shares) for end in accumulate(shares)]
    taken = [0] * len(devices)
    for i, num_bytes in enumerate(layers):
        taken[min(bisect_right(ends, i / len(layers)), len(devices) - 1)] += num_bytes
    passing = pass_bytes(demand.footprint, demand.context, _MASK_COPIES if len(devices) > 1 else 1)
    if num_layers < demand.footprint.num_layers:
        passing += demand.footprint.largest_bytes  # weights of the CPU visit a device for long passes
    return [num_bytes + passing if num_bytes else 0 for num_bytes in taken]


def left_by(demand: Demand, devices: Sequence[Device]) -> list[Device]:
    """Return devices as a model leaves them."""
    if not devices or not demand.num_layers:
        return list(devices)
    taken = device_bytes(demand, devices, demand.num_layers)
    return [
        replace(device, free_bytes=max(0, device.free_bytes - num_bytes))
        for device, num_bytes in zip(devices, taken, strict=True)
    ]


def weight_bytes(parts: Footprint, num_layers: int) -> int:
    """Return the bytes of weights that stay with the CPU when the last so many layers go elsewhere."""
    if not num_layers:
        return parts.file_bytes
    return parts.input_bytes + sum(parts.layer_bytes[: parts.num_layers - num_layers])


def context_bytes(demand: Demand, num_layers: int) -> int:
    """Return what a context and a pass take on the CPU when the last so many layers go elsewhere."""
    layers = _layer_bytes(demand, with_weights=False)
    return sum(layers[: demand.footprint.num_layers - num_layers]) + pass_bytes(demand.footprint, demand.context)


def pass_bytes(parts: Footprint, context: int, mask_copies: int = 1) -> int:
    """Return what the widest pass takes beside the cache: reading a prompt, or the logits of a draft."""
    reading = _FLOAT * PASS_TOKENS * parts.read_numbers
    masks = _HALF * PASS_TOKENS * _cells(context) * parts.num_masks * mask_copies
    judging = _FLOAT * (PASS_TOKENS * parts.hidden_numbers + PASS_ROWS * parts.num_words)
    return max(reading + masks, judging)


def _layer_bytes(demand: Demand, *, with_weights: bool) -> list[int]:
    """Return the bytes of each layer's part of the context, and of its weights; the output is the last layer."""
    parts, number = demand.footprint, demand.placement.kv_type.number_bytes
    cells = _cells(demand.context)
    layers = zip(parts.layer_bytes, parts.key_numbers, parts.value_numbers, parts.state_numbers, strict=True)
    return [
        *(
            weights * with_weights + round((keys + values) * number * cells) + state * _FLOAT
            for weights, keys, values, state in layers
        ),
        parts.output_bytes * with_weights,
    ]


def _cells(context: int) -> int:
    return math.ceil(context / _CELLS) * _CELLS
