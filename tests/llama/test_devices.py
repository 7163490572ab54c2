"""Devices are named, chosen as llama.cpp chooses them, and missed in words that help."""

from __future__ import annotations

import shutil
import sys
from typing import Any

import pytest
from machines import CPU, gpu, integrated

from speclocal.errors import UsageError
from speclocal.llama import devices as here
from speclocal.llama.devices import Device, DeviceKind, choose, devices_for
from speclocal.llama.placement import Placement

TWO = (gpu("CUDA0", 20), gpu("CUDA1", 7.9, 8), CPU)
ON_CUDA = ("CUDA", "CPU")
CPU_ALONE = "and this llama.cpp is built for the CPU alone"


def names(placement: Placement, machine: tuple[Device, ...]) -> list[str]:
    return [device.name for device in choose(placement, machine, ON_CUDA)]


def test_this_machine_has_a_cpu() -> None:
    """llama.cpp always lists the processor, and the backend it belongs to."""
    found = here.devices()
    assert [device.kind for device in found].count(DeviceKind.CPU) == 1
    cpu = next(device for device in found if device.kind is DeviceKind.CPU)
    assert cpu.name == "CPU"
    assert cpu.description
    assert 0 < cpu.free_bytes <= cpu.total_bytes
    assert cpu.backend in here.backends()


@pytest.mark.parametrize(
    ("machine", "chosen"),
    [
        ((CPU,), []),
        (TWO, ["CUDA0", "CUDA1"]),
        ((gpu("CUDA0", 9), integrated("Vulkan0", "Vulkan"), CPU), ["CUDA0"]),
        ((integrated("Vulkan0", "Vulkan"), CPU), ["Vulkan0"]),
        ((integrated("Vulkan0", "Vulkan"), integrated("SYCL0", "SYCL"), CPU), ["Vulkan0"]),
        ((gpu("CUDA0", 9, hardware="0000:01:00.0"), gpu("Vulkan0", 9, hardware="0000:01:00.0")), ["CUDA0"]),
        ((gpu("CUDA0", 9, hardware="0000:01:00.0"), gpu("Vulkan0", 9, hardware="0000:02:00.0")), ["CUDA0", "Vulkan0"]),
        ((gpu("CUDA0", 9), gpu("Vulkan0", 9)), ["CUDA0", "Vulkan0"]),
        ((gpu("CUDA0", 9), gpu("RPC0", 9, backend="RPC"), CPU), ["RPC0", "CUDA0"]),
        ((gpu("RPC0", 9, backend="RPC"), integrated("Vulkan0", "Vulkan"), CPU), ["RPC0", "Vulkan0"]),
    ],
)
def test_devices_that_are_not_named_are_those_of_llama_cpp(machine: tuple[Device, ...], chosen: list[str]) -> None:
    """All GPUs, workers first, a chip that two backends see once, integrated ones only where there is no other."""
    assert names(Placement(1), machine) == chosen


@pytest.mark.parametrize(
    ("placement", "chosen"),
    [
        (Placement(1, devices=("CUDA1",)), ["CUDA1"]),
        (Placement(1, devices=("CUDA1", "CUDA0")), ["CUDA1", "CUDA0"]),
        (Placement(1, devices=("CPU",)), []),
        (Placement(1, devices=("CUDA0", "CPU")), ["CUDA0"]),
        (Placement(1, gpu_layers=0), []),
        (Placement(1, gpu_layers=5), ["CUDA0", "CUDA1"]),
        (Placement(1, main_gpu=1), ["CUDA1"]),
        (Placement(1, devices=("CUDA1", "CUDA0"), main_gpu=1), ["CUDA0"]),
        (Placement(1, tensor_split=(3, 1)), ["CUDA0", "CUDA1"]),
    ],
)
def test_devices_are_chosen_by_name_and_number(placement: Placement, chosen: list[str]) -> None:
    """In the order in which they are named; no layers on GPUs, or the CPU by name, is no device."""
    assert names(placement, TWO) == chosen


@pytest.mark.parametrize(
    ("placement", "message", "hint"),
    [
        (
            Placement(1, devices=("CUDA7",)),
            "no device is called `CUDA7`",
            "there are CUDA0 (some GPU, 20.0 of 24.0 GB free), CUDA1 (some GPU, 7.9 of 8.0 GB free), "
            "CPU (some processor, 16.0 of 32.0 GB free)",
        ),
        (
            Placement(1, main_gpu=2),
            "--main-gpu 2 is out of range",
            "give 0 for the first device, and so on: CUDA0 (some GPU, 20.0 of 24.0 GB free), "
            "CUDA1 (some GPU, 7.9 of 8.0 GB free)",
        ),
        (
            Placement(1, tensor_split=(1, 1, 1)),
            "`--tensor-split` gives 3 shares for 2 devices",
            "give a share for each of CUDA0 (some GPU, 20.0 of 24.0 GB free), CUDA1 (some GPU, 7.9 of 8.0 GB free)",
        ),
        (
            Placement(1, 5, devices=("CPU",)),
            "`--gpu-layers 5` asks for a GPU, and `--device CPU` leaves none",
            "leave one of them out",
        ),
    ],
)
def test_devices_that_are_not_here_are_refused(placement: Placement, message: str, hint: str) -> None:
    """The error lists those that are."""
    with pytest.raises(UsageError) as caught:
        choose(placement, TWO, ON_CUDA)
    assert (caught.value.message, caught.value.hint) == (message, hint)


@pytest.mark.parametrize(
    ("placement", "wish"),
    [
        (Placement(1, 20), "--gpu-layers 20"),
        (Placement(1, devices=("CUDA0",)), "--device CUDA0"),
        (Placement(1, main_gpu=0), "--main-gpu 0"),
        (Placement(1, tensor_split=(3, 1)), "--tensor-split 3,1"),
    ],
)
def test_a_gpu_on_a_build_without_is_told(placement: Placement, wish: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What asks for a GPU is named, and how to install llama.cpp for one: CUDA where there is NVIDIA's driver."""
    monkeypatch.setattr(shutil, "which", lambda _name: "/usr/bin/nvidia-smi")
    with pytest.raises(UsageError) as caught:
        choose(placement, (CPU,), ("CPU",))
    assert caught.value.message == f"`{wish}` asks for a GPU, {CPU_ALONE}"
    assert '`CMAKE_ARGS="-DGGML_CUDA=on" pip install' in caught.value.hint


@pytest.mark.parametrize(("platform", "flag"), [("darwin", "METAL"), ("linux", "VULKAN"), ("win32", "VULKAN")])
def test_the_build_to_install_suits_the_system(platform: str, flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Metal on macOS, and Vulkan where nothing tells whose GPU there is."""
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    monkeypatch.setattr(sys, "platform", platform)
    assert f"-DGGML_{flag}=on" in here.how_to_get_a_gpu()


def test_a_build_for_gpus_that_finds_none_is_another_matter() -> None:
    """There the driver is missing, not the build."""
    with pytest.raises(UsageError) as caught:
        choose(Placement(1, 20), (CPU,), ON_CUDA)
    assert caught.value.message == "`--gpu-layers 20` asks for a GPU, and CUDA finds none here"
    assert "driver" in caught.value.hint


def test_the_option_of_the_draft_model_is_named() -> None:
    """The layers of the draft model have an option of their own."""
    with pytest.raises(UsageError, match="`--draft-gpu-layers 3` asks for a GPU"):
        choose(Placement(1).for_draft(3), (CPU,), ("CPU",), "--draft-gpu-layers")


def test_a_list_for_llama_cpp_ends_with_nothing() -> None:
    """llama.cpp reads the list up to a null pointer; an empty one means the CPU alone."""
    cpu = next(device for device in here.devices() if device.kind is DeviceKind.CPU)
    first, end = here.native_list([cpu])
    assert first
    assert end is None
    assert list(here.native_list([])) == [None]


def test_all_the_build_has_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """`devices_for` looks at the devices of this process, workers before them."""
    monkeypatch.setattr(here, "devices", lambda: TWO)
    found: Any = devices_for(Placement(1), workers=[gpu("RPC0", 9, backend="RPC")])
    assert [device.name for device in found] == ["RPC0", "CUDA0", "CUDA1"]
