"""What can compute here besides the CPU: the devices of llama.cpp's backends, and their memory.

Knows devices and which of them a placement means, not what is put on them.
"""

from __future__ import annotations

import ctypes
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from speclocal.errors import UsageError
from speclocal.llama import backend, interrupts
from speclocal.llama.placement import Placement

_Pointer = ctypes.c_void_p


class DeviceKind(StrEnum):
    """What a device is, in the order of enum ggml_backend_dev_type."""

    CPU = "CPU"
    GPU = "GPU"  # with memory of its own; a worker over RPC counts as one
    INTEGRATED = "integrated GPU"
    ACCELERATOR = "accelerator"  # works for the CPU: BLAS, AMX
    META = "meta"


@dataclass(frozen=True)
class Device:
    """A device as its backend describes it. `hardware` names the chip where the backend can tell, as a PCI address."""

    name: str  # CUDA0
    description: str  # NVIDIA GeForce RTX 4090
    backend: str  # CUDA
    kind: DeviceKind
    free_bytes: int  # both 0 where the backend cannot tell
    total_bytes: int
    hardware: str = ""
    pointer: int | None = None  # in llama.cpp, where it is not known there by its name: a worker

    @property
    def takes_layers(self) -> bool:
        """Whether layers can be placed on it: it is more than the CPU and its helpers."""
        return self.kind in (DeviceKind.GPU, DeviceKind.INTEGRATED)


def devices() -> tuple[Device, ...]:
    """Return all devices, with the memory that is free now."""
    return tuple(_described(pointer) for pointer in _pointers())


def worker_device(pointer: int) -> Device:
    """Return the device of a worker, which llama.cpp does not list."""
    return replace(_described(pointer), pointer=pointer)


def backends() -> tuple[str, ...]:
    """Return the names of the backends in this build: `CPU`, and for example `CUDA`, `MTL`, `Vulkan` or `RPC`."""
    backend.start()
    get = backend.native("ggml_backend_reg_get", _Pointer, ctypes.c_size_t)
    count = int(backend.native("ggml_backend_reg_count", ctypes.c_size_t)())
    return tuple(_backend_name(get(i)) for i in range(count))


def devices_for(
    placement: Placement, workers: Sequence[Device] = (), layers_option: str = "--gpu-layers"
) -> tuple[Device, ...]:
    """Return the devices on which the layers of a placement go, none for the CPU alone.

    workers: devices of other machines, which take layers besides those of this one.
    layers_option: by which the number of layers was asked for.
    Raises UsageError when it asks for devices that are not here.
    """
    return choose(placement, (*workers, *devices()), backends(), layers_option)


def choose(
    placement: Placement, here: Sequence[Device], backends: Sequence[str], layers_option: str = "--gpu-layers"
) -> tuple[Device, ...]:
    """Return which of the devices that are here a placement means."""
    for name in placement.devices:
        if name not in (device.name for device in here):
            raise _unknown(name, here, backends)
    named = [next(device for device in here if device.name == name) for name in placement.devices]
    others = [device for device in named if device.takes_layers and device not in _workers(here)]
    chosen = [*_workers(here), *others] if named else _usual(here)
    if wish := _wish(placement, layers_option):
        if not any(device.takes_layers for device in here):
            raise _no_gpu(wish, backends)
        if not chosen:
            raise UsageError(
                f"`{wish}` asks for a GPU, and `--device {','.join(placement.devices)}` leaves none",
                "leave one of them out",
            )
    if placement.main_gpu is not None:
        if placement.main_gpu >= len(chosen):
            raise UsageError(
                f"--main-gpu {placement.main_gpu} is out of range",
                f"give 0 for the first device, and so on: {listed(chosen)}",
            )
        chosen = [chosen[placement.main_gpu]]
    if placement.tensor_split and len(placement.tensor_split) != len(chosen):
        raise UsageError(
            f"`--tensor-split` gives {len(placement.tensor_split)} shares for {len(chosen)} devices",
            f"give a share for each of {listed(chosen)}",
        )
    return () if placement.gpu_layers == 0 else tuple(chosen)


def native_list(chosen: Sequence[Device]) -> Any:
    """Return the devices as llama.cpp takes them: an array that ends with a null pointer."""
    find = backend.native("ggml_backend_dev_by_name", _Pointer, ctypes.c_char_p)
    pointers = (device.pointer or find(device.name.encode()) for device in chosen)
    return (_Pointer * (len(chosen) + 1))(*pointers, None)


def listed(here: Sequence[Device]) -> str:
    """Return devices in one line, with their free memory."""
    return ", ".join(
        f"{device.name} ({device.description}"
        + (f", {device.free_bytes / 1e9:.1f} of {device.total_bytes / 1e9:.1f} GB free)" if device.total_bytes else ")")
        for device in here
    )


def how_to_get_a_gpu() -> str:
    """Return how to install llama.cpp for a GPU of this machine."""
    flag = "CUDA" if shutil.which("nvidia-smi") else "METAL" if sys.platform == "darwin" else "VULKAN"
    return (
        f'install it with `CMAKE_ARGS="-DGGML_{flag}=on" pip install --no-cache-dir --force-reinstall llama-cpp-python`'
    )


def _usual(here: Sequence[Device]) -> list[Device]:
    """Return the devices that llama.cpp takes of itself (llama_prepare_model_devices).

    Workers come first, to save network transfers; a chip that two backends see counts once; integrated GPUs serve
    where there is no other.
    """
    workers = _workers(here)
    gpus: list[Device] = []
    for device in here:
        known = {other.hardware for other in gpus if other.hardware}
        if device.kind is DeviceKind.GPU and device not in workers and device.hardware not in known:
            gpus.append(device)
    integrated = [device for device in here if device.kind is DeviceKind.INTEGRATED]
    first = integrated[:1]
    return workers + (gpus or [device for device in integrated if device.backend == first[0].backend])


def _workers(here: Sequence[Device]) -> list[Device]:
    return [device for device in here if device.backend == "RPC"]


def _wish(placement: Placement, layers_option: str) -> str:
    """Return the option by which a placement insists on a GPU, empty where it does not."""
    if placement.gpu_layers:
        return f"{layers_option} {placement.gpu_layers}"
    if placement.main_gpu is not None:
        return f"--main-gpu {placement.main_gpu}"
    if placement.tensor_split:
        return f"--tensor-split {','.join(f'{share:g}' for share in placement.tensor_split)}"
    return ""


def _no_gpu(wish: str, backends: Sequence[str]) -> UsageError:
    able = [name for name in backends if name not in _WITHOUT_GPU]
    if not able:
        return UsageError(f"`{wish}` asks for a GPU, and this llama.cpp is built for the CPU alone", how_to_get_a_gpu())
    return UsageError(
        f"`{wish}` asks for a GPU, and {' and '.join(able)} finds none here",
        "see that its driver is installed and shows the GPU (`nvidia-smi`, `vulkaninfo`), or leave out the option",
    )


def _unknown(name: str, here: Sequence[Device], backends: Sequence[str]) -> UsageError:
    if not any(device.takes_layers for device in here):
        return _no_gpu(f"--device {name}", backends)
    return UsageError(f"no device is called `{name}`", f"there are {listed(here)}")


_WITHOUT_GPU = ("CPU", "BLAS", "RPC")
"""Backends that reach no GPU of this machine."""


class _Properties(ctypes.Structure):
    """struct ggml_backend_dev_props"""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("description", ctypes.c_char_p),
        ("memory_free", ctypes.c_size_t),
        ("memory_total", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("device_id", ctypes.c_char_p),
        ("capabilities", ctypes.c_bool * 16),  # fewer; a newer llama.cpp may add some
    )


def _pointers() -> list[Any]:
    backend.start()
    get = backend.native("ggml_backend_dev_get", _Pointer, ctypes.c_size_t)
    count = int(backend.native("ggml_backend_dev_count", ctypes.c_size_t)())
    return [get(i) for i in range(count)]


def _described(pointer: Any) -> Device:
    properties = _Properties()
    with interrupts.held():
        backend.native("ggml_backend_dev_get_props", None, _Pointer, ctypes.POINTER(_Properties))(
            pointer, ctypes.byref(properties)
        )
        registry = backend.native("ggml_backend_dev_backend_reg", _Pointer, _Pointer)(pointer)
    return Device(
        name=_text(properties.name),
        description=_text(properties.description).strip(),
        backend=_backend_name(registry),
        kind=list(DeviceKind)[properties.type],
        free_bytes=int(properties.memory_free),
        total_bytes=int(properties.memory_total),
        hardware=_text(properties.device_id),
    )


def _backend_name(registry: Any) -> str:
    return _text(backend.native("ggml_backend_reg_name", ctypes.c_char_p, _Pointer)(registry))


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")
