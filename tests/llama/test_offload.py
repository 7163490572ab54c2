"""Layers really move: to a worker on loopback, a device like others, where llama.cpp is built with RPC."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import COMMAND
from machines import gpu

from speclocal.jobs import placing
from speclocal.jobs.demand import Demand, device_bytes, weight_bytes
from speclocal.jobs.generate import prompt_tokens
from speclocal.jobs.modes import Mode
from speclocal.jobs.reply import ReplySettings
from speclocal.jobs.session import ModelFile, Session
from speclocal.llama import log
from speclocal.llama.devices import devices_for
from speclocal.llama.placement import Placement
from speclocal.llama.workers import Address
from speclocal.models.footprint import footprint
from speclocal.models.header import read_header

pytestmark = pytest.mark.rpc

CONTEXT = 4096
MIB = 1 << 20
Offload = Callable[..., tuple[list[int], str]]


@pytest.fixture(scope="module")
def worker() -> Iterator[Address]:
    """A worker on loopback, which computes with one thread."""
    command = [*COMMAND, "worker", "--port", "0", "--threads", "1", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Address("127.0.0.1", json.loads(process.stdout.readline())["address"]["port"])
        finally:
            process.terminate()


@pytest.fixture
def offload(
    worker: Address, default_model_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Offload:
    """Answer with so many layers on the worker, and return the ids and what llama.cpp wrote of it.

    free_bytes: how much memory the worker has; None for what it says.
    """

    def answer(layers: int | None, free_bytes: int | None = None) -> tuple[list[int], str]:
        def scarce(*arguments: Any, **named: Any) -> Any:
            found = devices_for(*arguments, **named)
            return tuple(replace(device, free_bytes=free_bytes, total_bytes=1) for device in found)

        if free_bytes is not None:
            monkeypatch.setattr(placing, "devices_for", scarce)
        model = ModelFile("default", default_model_path)
        log.show(True)
        try:
            with Session(model, None, Placement(1, layers, rpc=(worker,)), context=CONTEXT) as session:
                settings = ReplySettings(mode=Mode.OFF, max_tokens=8)
                prompt = prompt_tokens(session, "Name three rivers.", raw=False)
                session.open_context(len(prompt), settings, CONTEXT)
                reply = session.reply(prompt, settings)
                for _ in reply:
                    pass
        finally:
            log.show(False)
        return reply.token_ids, capfd.readouterr().err

    return answer


def bytes_of(kind: str, place: str, text: str) -> float:
    """Return the sizes of buffers as llama.cpp writes them, added up."""
    sizes = re.findall(rf": +{place}\S* {kind} buffer size = +([\d.]+) MiB", text)
    return sum(map(float, sizes)) * MIB


@pytest.mark.parametrize("layers", [31, 10, 1])
def test_layers_take_on_a_device_what_was_counted(layers: int, offload: Offload, default_model_path: Path) -> None:
    """Weights and cache to the byte; with the buffers of a pass at most a tenth more than llama.cpp allocates."""
    ids, text = offload(layers)
    assert f"offloaded {layers}/31 layers to GPU" in text
    assert len(ids) == 8
    demand = Demand("default", footprint([read_header(default_model_path)]), Placement(1, layers), CONTEXT)
    (counted,) = device_bytes(demand, [gpu("RPC0", 20, backend="RPC")], layers)
    taken = {kind: bytes_of(kind, "RPC0", text) for kind in ("model", "KV", "compute")}
    assert sum(taken.values()) <= counted <= 1.1 * sum(taken.values())
    if layers == 31:
        assert weight_bytes(demand.footprint, 31) == pytest.approx(bytes_of("model", "CPU_Mapped", text), rel=0.001)


@pytest.mark.parametrize(("free", "layers"), [(400 * MIB, 31), (150 * MIB, 19), (60 * MIB, 1)])
def test_auto_moves_what_fits(free: int, layers: int, offload: Offload) -> None:
    """llama.cpp moves as many layers as were found to fit, and takes no more memory than there is."""
    _, text = offload(None, free)
    assert f"offloaded {layers}/31 layers to GPU" in text
    assert sum(bytes_of(kind, "RPC0", text) for kind in ("model", "KV", "compute")) <= free


def test_the_ids_do_not_depend_on_the_place(offload: Offload) -> None:
    """On one kind of processor the text is the same wherever the layers are."""
    assert offload(31)[0] == offload(10)[0] == offload(None, 0)[0]
