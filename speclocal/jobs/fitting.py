"""What fits where: how many layers go on the GPUs, and whether the rest fits in memory, before anything is allocated.

Knows what models take, and how to say what does not fit and what would; loads nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from speclocal.errors import OutOfMemoryError, UsageError
from speclocal.jobs.demand import (
    Demand,
    context_bytes,
    device_bytes,
    fits,
    largest_context,
    most_layers,
    reserve,
    room,
    weight_bytes,
)
from speclocal.llama.devices import Device
from speclocal.llama.formats import Layout
from speclocal.llama.placement import Placement


@dataclass(frozen=True)
class Memory:
    """The memory of this machine, in bytes."""

    free: int
    total: int


@dataclass(frozen=True)
class Fit:
    """Where a model goes, and what a person should know about it, if anything."""

    placement: Placement
    note: str = ""


def fit_target(demand: Demand, devices: Sequence[Device], memory: Memory, *, fixed_layout: bool) -> Fit:
    """Return where the target goes: with `auto`, as many layers on the devices as fit.

    fixed_layout: whether the layout of the weights is asked for; otherwise it makes way where memory is short.
    Raises OutOfMemoryError with what would fit when it does not, UsageError when its heads have no such KV cache.
    """
    _check_heads(demand)
    if not devices:
        return _fit_cpu(demand, demand.placement, 0, memory, fixed_layout=fixed_layout)
    whole = fits(demand, devices, demand.num_layers)
    if not whole and demand.placement.gpu_layers is not None:
        raise _too_large(demand, devices)
    num_layers = demand.num_layers if whole else most_layers(demand, devices)
    placement = replace(demand.placement, gpu_layers=num_layers)
    fit = _fit_cpu(demand, placement, num_layers, memory, fixed_layout=fixed_layout)
    if whole:
        return fit
    where = ", ".join(f"{device.name} with {_size(device.free_bytes)} free" for device in devices)
    beside = (
        f"{num_layers} of {demand.footprint.num_layers} layers of `{demand.name}` fit {where}, beside a context of "
        f"{demand.context} tokens; the CPU computes the others"
    )
    return replace(fit, note="; ".join(filter(None, (beside, fit.note))))


def fit_draft(demand: Demand, devices: Sequence[Device], memory: Memory, target_name: str) -> Fit:
    """Return where the draft model goes: all that is asked for on the device with most room, else on the CPU.

    devices, memory: as the target leaves them. Raises OutOfMemoryError when it does not fit the CPU's memory either.
    """
    _check_heads(demand)
    note, on_cpu = "", demand.placement
    if devices:
        device = max(devices, key=room)
        if fits(demand, [device], demand.num_layers):
            placed = replace(demand.placement, gpu_layers=demand.num_layers, devices=(device.name,), main_gpu=None)
            return Fit(placed)
        needed = device_bytes(demand, [device], demand.num_layers)[0]
        note = (
            f"`{demand.name}` drafts on the CPU: it needs {_size(needed)} on {device.name}, and "
            f"{_size(max(0, room(device)))} are free beside `{target_name}`"
        )
        on_cpu = replace(demand.placement, gpu_layers=0)
    needed = demand.footprint.file_bytes + context_bytes(demand, 0)
    if needed > memory.free:
        raise OutOfMemoryError(
            f"`{demand.name}` needs {_size(needed)} of memory to draft, and {_size(memory.free)} are free beside "
            f"`{target_name}`",
            "choose a smaller draft model, or leave out `--draft` to draft by prompt lookup",
        )
    return Fit(on_cpu, note)


def _fit_cpu(demand: Demand, placement: Placement, num_layers: int, memory: Memory, *, fixed_layout: bool) -> Fit:
    """Return the placement of a target whose last so many layers are on devices, if the CPU's memory allows it.

    Weights that lie in the file as they are used can be larger than the free memory: the system reads them anew when
    they are needed. Larger than all memory they are too slow to be of use.
    """
    kept = weight_bytes(demand.footprint, num_layers)
    if kept <= memory.free:
        return Fit(placement)
    takes = f"the weights of `{demand.name}` take {_size(kept)} of memory"
    if kept > memory.total:
        raise OutOfMemoryError(
            f"{takes}, and this machine has {_size(memory.total)}",
            "choose a smaller model, or one with fewer bits per weight",
        )
    for option, given in (
        ("--mlock", placement.mlock),
        ("--no-mmap", not placement.mmap),
        ("--layout repacked", fixed_layout and placement.layout is Layout.REPACKED),
    ):
        if given:
            raise OutOfMemoryError(
                f"{takes}, and {_size(memory.free)} are free",
                f"leave out `{option}`, so that they are read from the file as needed, or choose a smaller model",
            )
    return Fit(
        placement.in_layout(Layout.FILE),
        f"{takes}, and {_size(memory.free)} are free: what does not fit is read from the file for every token",
    )


def _too_large(demand: Demand, devices: Sequence[Device]) -> OutOfMemoryError:
    taken = device_bytes(demand, devices, demand.num_layers)
    needed, device = max(zip(taken, devices, strict=True), key=lambda each: each[0] - room(each[1]))
    layers, context = most_layers(demand, devices), largest_context(demand, devices)
    return OutOfMemoryError(
        f"{demand.num_layers} of {demand.footprint.num_layers} layers of `{demand.name}` with a context of "
        f"{demand.context} tokens need {_size(needed)} on {device.name}; {_size(device.free_bytes)} are free, of which "
        f"{_size(reserve(device))} stay in reserve",
        f"give `--gpu-layers {layers}`" + (f", or a `--ctx` of at most {context}" if context else ""),
    )


def _check_heads(demand: Demand) -> None:
    """Refuse a KV cache that llama.cpp cannot make."""
    kv_type = demand.placement.kv_type
    unfit = next((width for width in demand.footprint.head_widths if width % kv_type.block), None)
    if unfit is not None:
        raise UsageError(
            f"`--kv-type {kv_type}` packs {kv_type.block} numbers together, and the heads of `{demand.name}` have "
            f"{unfit}",
            "give f16, bf16 or f32",
        )


def _size(num_bytes: float) -> str:
    return f"{num_bytes / 1e9:.2f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.3g} MB"
