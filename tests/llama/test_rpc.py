"""What is true of workers as devices, without any."""

from __future__ import annotations

import inspect

import pytest

from speclocal.errors import ModelError, UsageError
from speclocal.llama import rpc
from speclocal.llama.devices import Device, DeviceKind, choose
from speclocal.llama.model import LlamaModel
from speclocal.llama.placement import Placement
from speclocal.llama.remote import RemoteModel
from speclocal.llama.workers import Address

CPU = Device("CPU", "a CPU", "CPU", DeviceKind.CPU, 8, 8)
GPU = Device("CUDA0", "a GPU", "CUDA", DeviceKind.GPU, 8, 8)
WORKERS = tuple(Device(f"RPC{i}", f"w{i}:1", "RPC", DeviceKind.GPU, 8, 8, pointer=i + 1) for i in range(2))
ADDRESSES = (Address("w0", 1), Address("w1", 1))


def test_a_build_without_rpc_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc, "available", lambda: False)
    with pytest.raises(ModelError) as caught:
        rpc.connect(ADDRESSES)
    assert caught.value.message == "this llama.cpp is built without RPC, and cannot use other machines"
    assert 'CMAKE_ARGS="-DGGML_RPC=on"' in caught.value.hint


def test_every_call_to_a_remote_context_is_guarded() -> None:
    """A public method that is not, and reaches a worker that is gone, would end the process or wait for ever."""
    public = {name for name, _ in inspect.getmembers(LlamaModel, inspect.isfunction) if not name.startswith("_")}
    local = {"nearest", "checkpoints"}  # what they tell is kept on this machine
    assert public - local <= set(vars(RemoteModel))
    assert "__init__" in vars(RemoteModel)


def test_workers_take_layers_before_gpus() -> None:
    """Named devices are those of this machine: the workers come along."""
    here = (*WORKERS, CPU, GPU)
    assert choose(Placement(1, rpc=ADDRESSES), here, ["CPU", "CUDA", "RPC"]) == (*WORKERS, GPU)
    assert choose(Placement(1, devices=("CUDA0",), rpc=ADDRESSES), here, ["CPU", "CUDA", "RPC"]) == (*WORKERS, GPU)
    assert choose(Placement(1, devices=("CPU",), rpc=ADDRESSES), here, ["CPU", "CUDA", "RPC"]) == WORKERS


def test_layers_can_be_asked_for_where_only_workers_take_them() -> None:
    assert choose(Placement(1, 5, rpc=ADDRESSES), (*WORKERS, CPU), ["CPU", "RPC"]) == WORKERS


def test_no_layers_and_workers_contradict_each_other() -> None:
    with pytest.raises(UsageError, match="`--gpu-layers 0` leaves no layers for the workers of `--rpc`"):
        Placement.choose(1, 0, rpc=ADDRESSES)


def test_a_draft_model_stays_here() -> None:
    assert Placement.choose(1, rpc=ADDRESSES).for_draft(None).rpc == ()
