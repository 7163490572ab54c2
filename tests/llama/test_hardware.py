"""GPUs that a system shows, and what is said where llama.cpp does not use them."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

from speclocal.llama import hardware
from speclocal.llama.devices import Device, DeviceKind
from speclocal.llama.hardware import Gpu, advice, gpus_in_this_machine
from speclocal.llama.weights import features, version

CPU = Device("CPU", "AMD EPYC", "CPU", DeviceKind.CPU, 0, 0)
CUDA = Device("CUDA0", "NVIDIA GeForce RTX 4090", "CUDA", DeviceKind.GPU, 0, 0)
WORKER = Device("RPC0", "127.0.0.1:50052", "RPC", DeviceKind.GPU, 0, 0)
RTX = Gpu("NVIDIA GeForce RTX 4090", ("CUDA", "Vulkan"))


@pytest.fixture
def linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of a Linux without any GPU and without `nvidia-smi`."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(hardware.shutil, "which", lambda _name: None)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_machine_without_a_gpu_shows_none(linux: Path) -> None:
    write(linux / "sys/class/drm/card0/device/vendor", "0x8086\n")
    assert gpus_in_this_machine(linux) == ()


def test_nvidia_is_named_by_its_driver(linux: Path) -> None:
    """Each GPU has a file of its own; the card on the bus is not counted again."""
    for bus in ("0000:01:00.0", "0000:02:00.0"):
        write(linux / f"proc/driver/nvidia/gpus/{bus}/information", "Model: \t\t NVIDIA GeForce RTX 4090\nIRQ:  \t 1\n")
    write(linux / "sys/class/drm/card0/device/vendor", "0x10de\n")
    assert gpus_in_this_machine(linux) == (RTX, RTX)


def test_nvidia_without_its_driver_is_seen_on_the_bus(linux: Path) -> None:
    write(linux / "sys/class/drm/card1/device/vendor", "0x10de\n")
    (gpu,) = gpus_in_this_machine(linux)
    assert not gpu.has_driver
    assert advice([gpu], ["CPU"], [CPU]) == [
        "NVIDIA GPU: its driver is not installed; install it first, then look again"
    ]


def test_nvidia_is_found_by_its_tool(linux: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no /proc the tool that comes with the driver tells."""
    monkeypatch.setattr(hardware.shutil, "which", lambda name: f"/usr/bin/{name}" if name == "nvidia-smi" else None)
    assert gpus_in_this_machine(linux) == (Gpu("NVIDIA GPU", ("CUDA", "Vulkan")),)


@pytest.mark.parametrize("file", ["dev/kfd", "sys/class/drm/card0/device/vendor"])
def test_amd_is_found(linux: Path, file: str) -> None:
    write(linux / file, "0x1002\n")
    (gpu,) = gpus_in_this_machine(linux)
    assert gpu.name == "AMD GPU"
    assert "Vulkan" in gpu.backends


def test_apple_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    assert [gpu.name for gpu in gpus_in_this_machine(tmp_path)] == ["Apple GPU"]
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert gpus_in_this_machine(tmp_path) == ()


def test_an_idle_gpu_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build without a fitting backend is told, with the command that makes one."""
    monkeypatch.setattr(hardware, "how_to_get_a_gpu", lambda: "install it with X")
    assert advice([RTX], ["CPU"], [CPU]) == [
        "NVIDIA GeForce RTX 4090: this llama.cpp is not built for it; install it with X"
    ]


def test_a_backend_that_finds_nothing_points_to_the_driver() -> None:
    assert advice([RTX], ["CPU", "CUDA"], [CPU]) == [
        "NVIDIA GeForce RTX 4090: CUDA finds no device; see that the driver works and is new enough"
    ]


def test_a_gpu_in_use_needs_no_advice() -> None:
    """A device of this machine that takes layers is enough; a worker elsewhere is not."""
    assert advice([RTX], ["CPU", "CUDA"], [CPU, CUDA]) == []
    assert advice([RTX], ["CPU", "RPC"], [CPU, WORKER]) != []
    assert advice([], ["CPU"], [CPU]) == []


def test_the_build_tells_its_features() -> None:
    """Features are names alone; at least the threading or the repacking of the CPU backend is among them."""
    assert features()
    assert all(name and "=" not in name and " " not in name for name in features())
    assert version()[0].isdigit()
