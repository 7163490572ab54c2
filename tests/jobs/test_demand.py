"""What a model takes is known from its header: as much as llama.cpp itself computes, or a little more.

llama.cpp can compute what it would allocate without allocating it (`no_alloc`) and writes it into its log. Its figures
are asked for here, of real models and of files that have the header of a large model and a hole for its weights.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
import pytest
import tiny
from gguf import GGUFWriter
from machines import GB, gpu, write_hollow

from speclocal.jobs.demand import (
    Demand,
    context_bytes,
    device_bytes,
    fits,
    largest_context,
    left_by,
    most_layers,
    pass_bytes,
    reserve,
    weight_bytes,
)
from speclocal.llama import backend, log
from speclocal.llama.context import PASS_ROWS, PASS_TOKENS
from speclocal.llama.formats import KvType
from speclocal.llama.placement import Placement
from speclocal.models.footprint import Footprint, footprint
from speclocal.models.header import read_header

MIB = 1 << 20
LLAMA_8B: dict[str, Any] = {
    "width": 4096,
    "layers": 32,
    "heads": 32,
    "kv_heads": 8,
    "inner": 14336,
    "vocab": 128256,
}
FILES: dict[str, Callable[[Path], Path]] = {
    "llama": tiny.write_llama,
    "sliding window": tiny.write_sliding_window,
    "recurrent": tiny.write_recurrent,
    "hybrid": tiny.write_hybrid,
    "8B": lambda path: write_hollow(path, **LLAMA_8B),
    "70B": lambda path: write_hollow(path, **{**LLAMA_8B, "width": 8192, "layers": 80, "heads": 64, "inner": 28672}),
    "7B without shared heads": lambda path: write_hollow(
        path, **{**LLAMA_8B, "kv_heads": 32, "inner": 11008, "vocab": 32000}
    ),
    "32B with wide heads": lambda path: write_hollow(
        path, "qwen3", width=5120, layers=64, heads=64, kv_heads=8, inner=25600, vocab=151936
    ),
    "mixture of experts": lambda path: write_hollow(
        path,
        "qwen3moe",
        width=2048,
        layers=48,
        heads=32,
        kv_heads=4,
        inner=768,
        vocab=151936,
        experts=(128, 8),
    ),
    "12B with sliding windows": lambda path: write_hollow(
        path,
        "gemma3",
        width=3840,
        layers=48,
        heads=16,
        kv_heads=8,
        inner=15360,
        vocab=262144,
        head_width=256,
        tied=True,
        extra={"attention.sliding_window": 1024},
    ),
}
WITH_STATES = ("recurrent", "hybrid")  # their passes take a few megabytes more, which the reserve covers
PLAIN = ("8B", "70B", "7B without shared heads")


@dataclass(frozen=True)
class Allocation:
    """What llama.cpp would allocate, in bytes as precise as its log."""

    cache: float
    state: float
    passing: float


class Simulation:
    """A model that llama.cpp has read the header of, and nothing else."""

    def __init__(self, path: Path) -> None:
        backend.start()
        params = llama_cpp.llama_model_default_params()
        params.no_alloc, params.load_mode = True, 0
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        assert self.model, log.reason()
        self.num_layers = llama_cpp.llama_model_n_layer(self.model)
        self.weight_bytes = llama_cpp.llama_model_size(self.model)

    def allocation(self, context: int, kv_type: int = llama_cpp.GGML_TYPE_F16) -> Allocation:
        """Return what a context as speclocal makes it would take."""
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = context, PASS_TOKENS, PASS_TOKENS
        params.n_outputs_max, params.swa_full = PASS_ROWS, True
        params.type_k = params.type_v = kv_type
        lines: list[str] = []
        listener = llama_cpp.llama_log_callback(lambda _level, text, _data: lines.append(text.decode()))
        llama_cpp.llama_log_set(listener, ctypes.c_void_p(0))
        try:
            made = llama_cpp.llama_init_from_model(self.model, params)
        finally:
            log.start()
        assert made, lines
        llama_cpp.llama_free(made)

        def total(pattern: str) -> float:
            return sum(float(size) for line in lines for size in re.findall(pattern, line)) * MIB

        return Allocation(
            total(r"^llama_kv_cache: size = *([\d.]+) MiB"),
            total(r"^llama_memory_recurrent: size = *([\d.]+) MiB"),
            total(r"compute buffer size = *([\d.]+) MiB"),
        )


@pytest.fixture(scope="module")
def path_of(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("models")

    @cache
    def find(name: str) -> Path:
        if name == "default":
            path: Path = request.getfixturevalue("default_model_path")
            return path
        return FILES[name](folder / f"{name}.gguf")

    return find


@pytest.fixture(scope="module")
def simulate(path_of: Callable[[str], Path]) -> Iterator[Callable[[str], Simulation]]:
    simulations: dict[str, Simulation] = {}

    def simulation(name: str) -> Simulation:
        return simulations.setdefault(name, Simulation(path_of(name)))

    yield simulation
    for each in simulations.values():
        llama_cpp.llama_model_free(each.model)


@pytest.fixture(scope="module")
def parts_of(path_of: Callable[[str], Path]) -> Callable[[str], Footprint]:
    return lambda name: footprint([read_header(path_of(name))])


@pytest.fixture(scope="module")
def big(parts_of: Callable[[str], Footprint]) -> Demand:
    """A model of 8 billion parameters with 4096 tokens of context: 5.0 GB on one GPU; 0.8 of 8 GB stay in reserve."""
    return Demand("8B", parts_of("8B"), Placement(1), 4096)


@pytest.mark.parametrize("name", [*FILES, "default"])
def test_weights_are_counted_like_llama_cpp(
    name: str, parts_of: Callable[[str], Footprint], simulate: Callable[[str], Simulation]
) -> None:
    """All weights are those that llama.cpp counts, and every one is in a part; the output is a layer more."""
    parts, simulation = parts_of(name), simulate(name)
    assert parts.file_bytes == simulation.weight_bytes
    assert parts.num_layers == simulation.num_layers + 1
    tied = name in ("sliding window", "12B with sliding windows", "default")
    in_parts = parts.input_bytes + sum(parts.layer_bytes) + parts.output_bytes
    assert in_parts - parts.file_bytes == (parts.input_bytes if tied else 0)


@pytest.mark.parametrize("context", [256, 4000, 32768])
@pytest.mark.parametrize("name", [*FILES, "default"])
def test_a_cache_is_counted_like_llama_cpp(
    name: str, context: int, parts_of: Callable[[str], Footprint], simulate: Callable[[str], Simulation]
) -> None:
    """Keys and values of every token, rounded up to llama.cpp's cells, and states whatever the number of tokens."""
    parts, real = parts_of(name), simulate(name).allocation(context)
    counted = context_bytes(Demand(name, parts, Placement(1), context), 0) - pass_bytes(parts, context)
    assert counted == pytest.approx(real.cache + real.state, abs=0.02 * MIB)


@pytest.mark.parametrize("kv_type", [(KvType.Q8_0, 8), (KvType.Q4_0, 2), (KvType.Q5_1, 7), (KvType.IQ4_NL, 20)])
def test_packed_caches_are_smaller(
    kv_type: tuple[KvType, int], parts_of: Callable[[str], Footprint], simulate: Callable[[str], Simulation]
) -> None:
    """Every format takes the bytes that it takes in llama.cpp."""
    parts, real = parts_of("8B"), simulate("8B").allocation(4096, kv_type[1])
    demand = Demand("8B", parts, Placement(1, kv_type=kv_type[0]), 4096)
    assert context_bytes(demand, 0) - pass_bytes(parts, 4096) == pytest.approx(real.cache, abs=0.02 * MIB)


@pytest.mark.parametrize("context", [512, 8192, 65536])
@pytest.mark.parametrize("name", [*(name for name in FILES if name not in WITH_STATES), "default"])
def test_a_pass_takes_no_more_than_is_counted(
    name: str, context: int, parts_of: Callable[[str], Footprint], simulate: Callable[[str], Simulation]
) -> None:
    """For transformers of real size the rule is at most a fifth too high, for plain ones exact, and never too low."""
    real, counted = simulate(name).allocation(context).passing, pass_bytes(parts_of(name), context)
    assert counted > 0.97 * real - 0.2 * MIB
    if name in PLAIN:
        assert counted == pytest.approx(real, rel=0.01)
    elif name not in ("llama", "sliding window"):
        assert counted < 1.22 * real


def test_layers_go_to_devices_as_llama_cpp_deals_them(big: Demand) -> None:
    """Runs of layers by shares, the output on the last device; what stays with the CPU takes nothing there."""
    two = [gpu("CUDA0", 18), gpu("CUDA1", 6)]
    first, second = device_bytes(big, two, 33)
    assert first + second == pytest.approx(sum(device_bytes(big, [gpu("CUDA0", 24)], 33)), rel=0.1)
    assert first > 2 * second
    only_output = device_bytes(big, [gpu("CUDA0", 24)], 1)
    assert only_output[0] < device_bytes(big, [gpu("CUDA0", 24)], 2)[0]
    assert device_bytes(big, two, 0) == [0, 0]
    shared = Demand("8B", big.footprint, Placement(1, tensor_split=(0.0, 1.0)), 4096)
    assert device_bytes(shared, two, 33)[0] == 0


def test_fewer_layers_take_less(big: Demand) -> None:
    """Layer by layer, except that the first one that stays with the CPU has its weights visit for long passes."""
    taken = [device_bytes(big, [gpu("CUDA0", 24)], n)[0] for n in range(33)]
    assert taken == sorted(taken)


def test_what_is_left_to_the_cpu_is_the_rest(big: Demand) -> None:
    """Embeddings stay with the CPU, and the layers that nobody else takes."""
    parts = big.footprint
    assert weight_bytes(parts, 0) == parts.file_bytes
    assert weight_bytes(parts, 33) == parts.input_bytes
    assert weight_bytes(parts, 1) == parts.input_bytes + sum(parts.layer_bytes)
    assert context_bytes(big, 33) == pass_bytes(parts, 4096)
    assert context_bytes(big, 1) == context_bytes(big, 0)


@pytest.mark.parametrize("free", [1, 2, 3, 4, 5, 6, 8])
def test_the_most_layers_are_the_most(free: float, big: Demand) -> None:
    """So many layers fit, and one more does not."""
    devices = [gpu("CUDA0", free, 8)]
    most = most_layers(big, devices)
    assert most == 0 or fits(big, devices, most)
    assert most == 33 or not fits(big, devices, most + 1)
    assert (most == 33) == (free >= 6)


@pytest.mark.parametrize("free", [5, 6, 7, 8])
def test_the_largest_context_is_the_largest(free: float, big: Demand) -> None:
    """A context of that size fits, and 256 tokens more do not; none where the layers alone are too many."""
    devices = [gpu("CUDA0", free, 8)]
    size = largest_context(big, devices)
    if size:
        assert fits(Demand("8B", big.footprint, Placement(1), size), devices, 33)
    assert not fits(Demand("8B", big.footprint, Placement(1), size + 256), devices, 33)
    assert (size > 0) == (free > 5)


def test_a_device_that_tells_nothing_takes_everything(big: Demand) -> None:
    """Where the backend does not know its memory, llama.cpp finds out when it allocates."""
    assert most_layers(big, [gpu("X0", 0, 0)]) == 33
    assert largest_context(big, [gpu("X0", 0, 0)]) == 131072


def test_a_reserve_stays_free() -> None:
    """As much as llama.cpp leaves by default, less on a small device."""
    assert reserve(gpu("CUDA0", 24, 24)) == 1 << 30
    assert reserve(gpu("CUDA0", 4, 4)) == 0.4 * GB


def test_what_a_model_takes_is_gone(big: Demand) -> None:
    """A device has less free beside a model, and never less than nothing."""
    (left,) = left_by(big, [gpu("CUDA0", 24)])
    assert left.free_bytes == 24 * GB - device_bytes(big, [gpu("CUDA0", 24)], 33)[0]
    assert left_by(big, [gpu("CUDA0", 1)])[0].free_bytes == 0
    on_cpu = Demand("8B", big.footprint, Placement(1, 0), 4096)
    assert left_by(on_cpu, [gpu("CUDA0", 24)]) == [gpu("CUDA0", 24)]


def test_layers_without_a_cache_of_their_own_take_none(tmp_path: Path) -> None:
    """Layers that read the cache of others, attention at intervals, and caches of keys alone, as the header says."""

    def numbers(**keys: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        writer = GGUFWriter(None, "x")
        writer.add_tensor("output_norm.weight", np.zeros(64, dtype=np.float32))
        shape = {"block_count": 4, "embedding_length": 64, "attention.head_count": 4, "attention.head_count_kv": 2}
        state = {"ssm.conv_kernel": 4, "ssm.inner_size": 8, "ssm.state_size": 16, "ssm.group_count": 1}
        for key, number in {**shape, **state, **{name.replace("__", "."): n for name, n in keys.items()}}.items():
            writer.add_uint32(f"x.{key}", number)
        writer.write_header_to_file(tmp_path / "x.gguf")
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        parts = footprint([read_header(tmp_path / "x.gguf")])
        return parts.key_numbers, parts.value_numbers, parts.state_numbers

    state = 3 * (8 + 2 * 16) + 8 * 16
    assert numbers() == ((32,) * 4, (32,) * 4, (0,) * 4)
    assert numbers(attention__shared_kv_layers=1) == ((32, 32, 32, 0), (32, 32, 32, 0), (0, 0, 0, state))
    assert numbers(full_attention_interval=2) == ((0, 32, 0, 32), (0, 32, 0, 32), (state, 0, state, 0))
    assert numbers(attention__key_length_mla=9) == ((32,) * 4, (0,) * 4, (0,) * 4)
