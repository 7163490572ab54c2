"""What runs where and how it lies in memory: threads, GPU layers, weight layout, type of the KV cache.

Knows this machine, not the model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from speclocal.errors import UsageError
from speclocal.llama.formats import KvType, Layout
from speclocal.llama.grants import usable_cores
from speclocal.llama.workers import Address

MAX_THREADS = 512  # llama.cpp's own limit (GGML_MAX_N_THREADS); more would end the process
_MAX_INT32 = 2**31 - 1


@dataclass(frozen=True)
class Placement:
    """Threads of a pass, what goes on which devices, and formats in memory."""

    threads: int
    gpu_layers: int | None = None  # the output counts as the last layer; None for all that fit, 0 for the CPU alone
    kv_type: KvType = KvType.F16
    layout: Layout = Layout.REPACKED
    devices: tuple[str, ...] = ()  # by their names in llama.cpp; none for those it takes of itself
    main_gpu: int | None = None  # which of the devices takes all layers; None for all of them
    tensor_split: tuple[float, ...] = ()  # how many layers each device takes, as shares; none: by free memory
    mlock: bool = False  # weights are kept in memory
    mmap: bool = True  # weights are mapped from the file rather than copied
    rpc: tuple[Address, ...] = ()  # workers on other machines, which take layers too

    @classmethod
    def choose(
        cls,
        threads: int | None = None,
        gpu_layers: int | None = None,
        kv_type: KvType = KvType.F16,
        *,
        devices: tuple[str, ...] = (),
        main_gpu: int | None = None,
        tensor_split: tuple[float, ...] = (),
        mlock: bool = False,
        mmap: bool = True,
        rpc: tuple[Address, ...] = (),
    ) -> Placement:
        """Check what was asked for, and fill in what was not. Whether the devices are here is checked when they load.

        Raises UsageError when a number is out of range.
        """
        if threads is not None and not 1 <= threads <= MAX_THREADS:
            raise UsageError(f"--threads {threads} is out of range", f"give a number from 1 to {MAX_THREADS}")
        _check_layers("--gpu-layers", gpu_layers)
        if main_gpu is not None and not 0 <= main_gpu <= _MAX_INT32:
            raise UsageError(f"--main-gpu {main_gpu} is out of range", "give 0 for the first device, and so on")
        if tensor_split and main_gpu is not None:
            raise UsageError(
                "`--main-gpu` puts all layers on one device, `--tensor-split` on several", "leave out one of them"
            )
        if tensor_split and not (0 < sum(tensor_split) < math.inf and min(tensor_split) >= 0):
            shares = ",".join(f"{share:g}" for share in tensor_split)
            raise UsageError(f"--tensor-split {shares} are not shares", "give one for each device, as in 3,1")
        if rpc and gpu_layers == 0:
            raise UsageError("`--gpu-layers 0` leaves no layers for the workers of `--rpc`", "leave out one of them")
        return cls(
            threads or usable_cores(),
            gpu_layers,
            kv_type,
            devices=devices,
            main_gpu=main_gpu,
            tensor_split=tensor_split,
            mlock=mlock,
            mmap=mmap,
            rpc=rpc,
        )

    def for_draft(self, gpu_layers: int | None) -> Placement:
        """Return the same placement for a draft model, with its own number of layers on the GPU.

        It stays on this machine: every token it drafts would cost a message to each worker.
        Raises UsageError when that is out of range.
        """
        _check_layers("--draft-gpu-layers", gpu_layers)
        return replace(self, gpu_layers=gpu_layers, tensor_split=(), rpc=())

    def in_layout(self, layout: Layout) -> Placement:
        """Return the same placement with the weights in another layout."""
        return replace(self, layout=layout)


def _check_layers(option: str, number: int | None) -> None:
    if number is not None and not 0 <= number <= _MAX_INT32:
        raise UsageError(f"{option} {number} is out of range", "give 0 or more, or `auto` for all that fit")
