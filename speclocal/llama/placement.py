"""What runs where and how it lies in memory: threads, GPU layers, weight layout, type of the KV cache.

Knows this machine, not the model.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from speclocal.errors import UsageError
from speclocal.llama.formats import KvType, Layout

MAX_THREADS = 512  # llama.cpp's own limit (GGML_MAX_N_THREADS); more would end the process


@dataclass(frozen=True)
class Placement:
    """Threads of a pass, layers on the GPU (None for all that the build can place), and formats in memory."""

    threads: int
    gpu_layers: int | None = None
    kv_type: KvType = KvType.F16
    layout: Layout = Layout.REPACKED

    @classmethod
    def choose(
        cls, threads: int | None = None, gpu_layers: int | None = None, kv_type: KvType = KvType.F16
    ) -> Placement:
        """Check what was asked for, and fill in what was not.

        Raises UsageError when a number is out of range.
        """
        if threads is not None and not 1 <= threads <= MAX_THREADS:
            raise UsageError(f"--threads {threads} is out of range", f"give a number from 1 to {MAX_THREADS}")
        if gpu_layers is not None and gpu_layers < 0:
            raise UsageError(f"--gpu-layers {gpu_layers} is out of range", "give 0 or more, or leave it out for all")
        return cls(threads or usable_cores(), gpu_layers, kv_type)

    def in_layout(self, layout: Layout) -> Placement:
        """Return the same placement with the weights in another layout."""
        return replace(self, layout=layout)


def usable_cores() -> int:
    """Return the physical cores this process may use: those of its affinity mask, within its CPU quota.

    Decoding waits for memory, so a second thread on one core does not help.
    """
    allowed = _affinity()
    cores = len({_core_of(cpu) for cpu in allowed}) if allowed else psutil.cpu_count(logical=False) or 1
    return max(1, min(cores, math.floor(_quota())) if _quota() < math.inf else cores)


def _affinity() -> list[int]:
    try:
        return sorted(os.sched_getaffinity(0))
    except AttributeError:  # macOS and Windows
        return []


def _core_of(cpu: int) -> str:
    """Return a name shared by the hardware threads of one core."""
    siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    try:
        return siblings.read_text().strip()
    except OSError:
        return str(cpu)


def _quota() -> float:
    """Return how many CPUs' worth of time the control group grants, infinity where it does not say."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return max(1.0, int(quota) / int(period))
    except (OSError, ValueError):
        return math.inf
