"""The circumstances of a measurement: this machine, the versions of what computes, and model files by their hash.

Knows where such facts stand, not what is measured.
"""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

import speclocal
from speclocal.jobs.calibration import CalibrationProgress, confirmed_calibration
from speclocal.jobs.comparison import Machine, ModelRecord, Versions
from speclocal.jobs.records import well_formed
from speclocal.llama.grants import usable_cores
from speclocal.llama.hardware import system_name
from speclocal.llama.layouts import TwoLayouts
from speclocal.llama.model import LlamaModel
from speclocal.llama.weights import machine, version
from speclocal.models.files import sha256_of

Hashing = Callable[[str], None]
"""Called with the name of a model whose file is about to be read for its hash, which takes seconds for a large one."""


def this_machine() -> Machine:
    """Return what this machine says of itself."""
    return Machine(
        cpu=_cpu_name() or platform.processor() or platform.machine() or "unknown",
        cores=usable_cores(),
        hardware_threads=psutil.cpu_count() or 1,
        memory_bytes=psutil.virtual_memory().total,
        system=system_name(),
    )


def these_versions() -> Versions:
    """Return what computes here."""
    return Versions(speclocal.__version__, version(), machine(), platform.python_version())


def record_of(model: LlamaModel | TwoLayouts, hashing: Hashing, measuring: CalibrationProgress) -> ModelRecord:
    """Return an open model's file and calibration, measured now if it is not on disk, or is out of date."""
    weights = model.weights
    hashing(weights.name)
    return ModelRecord(
        well_formed(weights.name),
        well_formed(weights.path.name),
        weights.path.stat().st_size,
        sha256_of(weights.path),
        confirmed_calibration(model, measuring),
    )


def _cpu_name() -> str:
    """Return the name the processor goes by; empty where the system does not tell."""
    with suppress(OSError):  # Linux
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    if platform.system() == "Darwin":
        with suppress(OSError, subprocess.SubprocessError):
            command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
            return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    return ""
