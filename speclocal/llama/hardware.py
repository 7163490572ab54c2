"""This machine as the system shows it: what it is called, and its GPUs, whether llama.cpp can use them or not.

Knows where a system shows its hardware, not what runs on it. What llama.cpp itself finds is devices.py's.
"""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from speclocal.llama.devices import Device, how_to_get_a_gpu

_NVIDIA, _AMD = "0x10de", "0x1002"  # PCI vendors


@dataclass(frozen=True)
class Gpu:
    """A GPU as the system shows it. backends: those of llama.cpp that could use it."""

    name: str
    backends: tuple[str, ...]
    has_driver: bool = True


def system_name() -> str:
    """Return the operating system, its release and the kind of processor."""
    return " ".join(filter(None, (platform.system(), platform.release(), platform.machine())))


def gpus_in_this_machine(root: Path = Path("/")) -> tuple[Gpu, ...]:
    """Return the GPUs that are worth a build of their own; graphics inside a processor are not looked for.

    root: where the system's own files begin.
    """
    if sys.platform == "darwin":
        return (Gpu("Apple GPU", ("MTL", "Metal")),) if platform.machine() == "arm64" else ()
    return (*_nvidia(root), *_amd(root))


def advice(gpus: Sequence[Gpu], backends: Sequence[str], devices: Sequence[Device]) -> list[str]:
    """Return what to do so that GPUs that lie idle are used; nothing where none does."""
    if any(device.takes_layers and device.backend != "RPC" for device in devices):
        return []
    sentences = []
    for gpu in gpus:
        able = [name for name in gpu.backends if name in backends]
        if not gpu.has_driver:
            sentences.append(f"{gpu.name}: its driver is not installed; install it first, then look again")
        elif not able:
            sentences.append(f"{gpu.name}: this llama.cpp is not built for it; {how_to_get_a_gpu()}")
        else:
            sentences.append(f"{gpu.name}: {able[0]} finds no device; see that the driver works and is new enough")
    return sentences


def _nvidia(root: Path) -> list[Gpu]:
    found = []
    for file in sorted(root.glob("proc/driver/nvidia/gpus/*/information")):
        model = next((line for line in _lines(file) if line.startswith("Model:")), "")
        found.append(Gpu(model.removeprefix("Model:").strip() or "NVIDIA GPU", ("CUDA", "Vulkan")))
    if not found and shutil.which("nvidia-smi"):
        found.append(Gpu("NVIDIA GPU", ("CUDA", "Vulkan")))
    if not found and _NVIDIA in _vendors(root):
        found.append(Gpu("NVIDIA GPU", ("CUDA", "Vulkan"), has_driver=False))
    return found


def _amd(root: Path) -> list[Gpu]:
    if _AMD not in _vendors(root) and not (root / "dev/kfd").exists():
        return []
    return [Gpu("AMD GPU", ("Vulkan", "ROCm", "HIP"))]


def _vendors(root: Path) -> set[str]:
    """Return the PCI vendors of all graphics cards."""
    return {line for file in root.glob("sys/class/drm/card*/device/vendor") for line in _lines(file)}


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
