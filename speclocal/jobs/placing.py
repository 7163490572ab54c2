"""Weights loaded where they fit, and moved when a context needs their room.

Knows which models are open and where they may go; what fits is fitting.py's to say.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from speclocal.errors import ModelError, OutOfMemoryError
from speclocal.jobs.demand import Demand, context_bytes, largest_context, left_by, weight_bytes
from speclocal.jobs.fitting import Fit, Memory, fit_draft, fit_target
from speclocal.llama import rpc
from speclocal.llama.devices import devices_for
from speclocal.llama.grants import free_memory, total_memory, usable_cpus
from speclocal.llama.model import LlamaModel
from speclocal.llama.placement import Placement
from speclocal.llama.remote import open_context
from speclocal.llama.weights import Weights
from speclocal.models.footprint import Footprint, footprint_of

_USUAL_CONTEXT = 4096
"""The context for which layers are placed before it is known how long the prompt is."""


class Places:
    """Where the target and the draft model of a session go. Devices and memory are as they were before both."""

    def __init__(self, target: Placement, draft: Placement, context: int | None, *, fixed_layout: bool) -> None:
        """context: that is asked for; None where it follows from the prompt.

        Raises UsageError when there are no such devices.
        """
        self.notes: list[str] = []  # of the last placement of the target
        self._target_placement = target
        self._draft_placement = draft
        self._fixed_layout = fixed_layout
        self._workers = rpc.connect(target.rpc) if target.rpc else None
        self._devices = devices_for(target, self._workers.devices if self._workers else ())
        self._draft_devices = devices_for(draft, layers_option="--draft-gpu-layers")
        self._memory = Memory(free_memory(), total_memory())
        self._context = context
        self._unlocked = False  # although that was asked for
        self._target: Demand | None = None  # as it is placed; None where its file has no readable header

    def load_target(self, path: Path, name: str) -> Weights:
        """Load the target, with as many layers on GPUs as fit beside a context of usual size.

        Raises ModelError when it cannot be loaded, OutOfMemoryError when it does not fit.
        """
        try:
            parts = _footprint(path)
            usual = self._context or _USUAL_CONTEXT
            if parts:
                size = usual if self._context else min(usual, parts.trained_context or usual)
                self._place_target(Demand(name, parts, self._target_placement, size))
            weights = Weights(path, self._target.placement if self._target else self._target_placement, name)
            self._unlocked = self._target_placement.mlock and not weights.locked
            return weights
        except BaseException:
            self.close()
            raise

    def place_target(self, context: int) -> None:
        """Decide anew where the target goes, beside a context of this size.

        Raises OutOfMemoryError when a number of layers was asked for that does not fit.
        """
        if self._target is not None:
            self._place_target(replace(self._target, placement=self._target_placement, context=context))

    def move_target(self, weights: Weights) -> None:
        """Move layers of the target off the GPUs, or on, as was decided. Its contexts must be closed."""
        if self._target is not None and self._target.placement.gpu_layers != weights.placement.gpu_layers:
            weights.move(replace(weights.placement, gpu_layers=self._target.placement.gpu_layers))

    def largest_context(self, trained: int) -> int:
        """Return the largest context that fits the GPUs beside the layers that are there."""
        if self._target is None or not self._devices or not self._target.placement.gpu_layers:
            return trained
        return max(1, min(trained, largest_context(self._target, self._devices)))

    def load_draft(self, path: Path, name: str) -> tuple[Weights, str]:
        """Load a draft model on a GPU if all of it fits there beside the target, else on the CPU, and say so.

        Raises ModelError when it cannot be loaded, OutOfMemoryError when it does not fit the CPU either.
        """
        fit = self._fit_draft(path, name)
        try:
            return Weights(path, fit.placement, name), fit.note
        except OutOfMemoryError as error:  # the estimate was too low, or somebody else was faster
            if fit.placement.gpu_layers == 0 or not self._draft_devices:  # it was for the CPU already
                raise
            on_cpu = replace(fit.placement, gpu_layers=0)
            return Weights(path, on_cpu, name), f"`{name}` drafts on the CPU: {error.message}"

    def move_draft(self, weights: Weights) -> str:
        """Move a draft model to the CPU if the target, as it was placed anew, leaves it no room; say so."""
        if weights.on_cpu:
            return ""
        fit = self._fit_draft(weights.path, weights.name)
        if fit.placement.gpu_layers == 0:
            weights.move(fit.placement)
        return fit.note

    def draft_context(self, weights: Weights, size: int) -> tuple[LlamaModel, str]:
        """Open a context of a draft model, on the CPU if its GPU turns out to be full, and say so."""
        size = min(size, weights.trained_context)
        try:
            return open_context(weights, size), ""
        except OutOfMemoryError as error:
            if weights.on_cpu:
                raise
            weights.move(replace(weights.placement, gpu_layers=0))
            return open_context(weights, size), f"`{weights.name}` drafts on the CPU: {error.message}"

    def close(self) -> None:
        """Leave the workers. Safe to call twice."""
        if self._workers is not None:
            self._workers.leave()
            self._workers = None

    def _place_target(self, demand: Demand) -> None:
        fit = fit_target(demand, self._devices, self._memory, fixed_layout=self._fixed_layout)
        self._target = replace(demand, placement=fit.placement)
        self.notes = [fit.note] if fit.note else []
        if self._unlocked:
            self.notes.append(
                f"the system does not let `{demand.name}` be locked in memory: raise the limit with `ulimit -l`"
            )
        if (threads := demand.placement.threads) > (cpus := usable_cpus()):
            self.notes.append(f"{threads} threads share {cpus} CPUs: each waits for its turn, which slows every pass")

    def _fit_draft(self, path: Path, name: str) -> Fit:
        parts, target = _footprint(path), self._target
        if parts is None or target is None:
            return Fit(self._draft_placement)
        context = min(target.context, parts.trained_context or target.context)
        layers = target.num_layers if self._devices else 0
        taken = weight_bytes(target.footprint, layers) + context_bytes(target, layers)
        memory = replace(self._memory, free=max(0, self._memory.free - taken))
        left = {device.name: device for device in left_by(target, self._devices)}
        devices = [left.get(device.name, device) for device in self._draft_devices]
        return fit_draft(Demand(name, parts, self._draft_placement, context), devices, memory, target.name)


def _footprint(path: Path) -> Footprint | None:
    """Return what a model takes; None where its header cannot be read, which llama.cpp will say better."""
    try:
        return footprint_of(path)
    except ModelError:
        return None
