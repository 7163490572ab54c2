"""Threads follow what the machine grants; absurd numbers are refused before llama.cpp sees them."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from speclocal.errors import UsageError
from speclocal.llama.grants import usable_cores
from speclocal.llama.placement import MAX_THREADS, Placement

TWO_THREADS_A_CORE = {0: "0,4", 1: "1,5", 2: "2,6", 3: "3,7", 4: "0,4", 5: "1,5", 6: "2,6", 7: "3,7"}


def pretend(
    monkeypatch: pytest.MonkeyPatch,
    *,
    allowed: set[int] | None,
    siblings: dict[int, str] | None = None,
    quota: str | None = None,
) -> None:
    """Make this process believe in another machine. None: the system has no such thing to ask."""
    files = {f"/sys/devices/system/cpu/cpu{c}/topology/thread_siblings_list": s for c, s in (siblings or {}).items()}
    if quota is not None:
        files["/sys/fs/cgroup/cpu.max"] = quota

    def read_text(path: Path, *_: object, **__: object) -> str:
        if path.as_posix() not in files:
            raise FileNotFoundError(path)
        return files[path.as_posix()] + "\n"

    monkeypatch.setattr(Path, "read_text", read_text)
    if allowed is None:
        monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    else:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: allowed, raising=False)


def test_one_thread_for_each_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hardware threads of one core count once."""
    pretend(monkeypatch, allowed=set(range(8)), siblings=TWO_THREADS_A_CORE)
    assert usable_cores() == 4


@pytest.mark.parametrize(("allowed", "cores"), [({0, 1}, 2), ({0, 4}, 1), ({3}, 1), ({0, 4, 1}, 2)])
def test_affinity_mask_is_respected(allowed: set[int], cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cores outside the process's mask are not counted (taskset, Slurm, a container's cpuset)."""
    pretend(monkeypatch, allowed=allowed, siblings=TWO_THREADS_A_CORE)
    assert usable_cores() == cores


@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        ("max 100000", 4),
        ("200000 100000", 2),
        ("250000 100000", 2),
        ("50000 100000", 1),
        ("1600000 100000", 4),
        ("nonsense", 4),
        ("", 4),
    ],
)
def test_cpu_quota_is_respected(quota: str, cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's share of CPU time caps the threads, never below one; what cannot be read caps nothing."""
    pretend(monkeypatch, allowed=set(range(8)), siblings=TWO_THREADS_A_CORE, quota=quota)
    assert usable_cores() == cores


def test_unknown_topology_counts_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system does not tell which threads share a core, each counts as one."""
    pretend(monkeypatch, allowed={0, 1, 2})
    assert usable_cores() == 3


def test_system_without_affinity_counts_physical_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS and Windows have no affinity mask to ask for."""
    pretend(monkeypatch, allowed=None)
    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: 12 if logical else 6)
    assert usable_cores() == 6
    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: None)
    assert usable_cores() == 1


def test_this_machine_has_at_least_one_core() -> None:
    """Whatever this machine says, the answer is usable."""
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


def test_what_is_asked_for_is_what_is_used() -> None:
    """Numbers in range are taken as they are, more threads than cores included; 0 layers means the CPU."""
    assert Placement.choose(1, 0) == Placement(1, 0)
    assert Placement.choose(MAX_THREADS, 99) == Placement(MAX_THREADS, 99)


def test_what_is_left_out_is_chosen() -> None:
    """Left out: all usable cores, and all layers that the build can place."""
    assert Placement.choose() == Placement(usable_cores(), None)


@pytest.mark.parametrize("threads", [0, -1, MAX_THREADS + 1, 10**12])
def test_absurd_threads_are_refused(threads: int) -> None:
    """The error names the option, the value and the range."""
    with pytest.raises(UsageError, match=f"--threads {threads}") as caught:
        Placement.choose(threads)
    assert str(MAX_THREADS) in caught.value.hint


@pytest.mark.parametrize("layers", [-1, -(10**9)])
def test_absurd_layers_are_refused(layers: int) -> None:
    """A negative number of layers means nothing."""
    with pytest.raises(UsageError, match=f"--gpu-layers {layers}"):
        Placement.choose(1, layers)
