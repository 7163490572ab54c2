"""Cores, CPU time and memory are counted as the machine grants them to this process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from speclocal.llama.grants import free_memory, total_memory, usable_cores, usable_cpus

GB = 10**9
CGROUPS = "/sys/fs/cgroup"
TWO_THREADS_A_CORE = {0: "0,4", 1: "1,5", 2: "2,6", 3: "3,7", 4: "0,4", 5: "1,5", 6: "2,6", 7: "3,7"}


def pretend(
    monkeypatch: pytest.MonkeyPatch,
    *,
    allowed: set[int] | None,
    siblings: dict[int, str] | None = None,
    quota: str | None = None,
    **more: str,
) -> None:
    """Make this process believe in another machine. None: the system has no such thing to ask.

    more: other files by their paths.
    """
    files = more | {
        f"/sys/devices/system/cpu/cpu{c}/topology/thread_siblings_list": s for c, s in (siblings or {}).items()
    }
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


V1 = {"/proc/self/cgroup": "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n1:name=systemd:/"}
V2 = {"/proc/self/cgroup": "0::/user.slice/run.scope"}


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        (V1 | {f"{CGROUPS}/cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "200000"}, 4),  # without a period: no limit
        (
            V1
            | {
                f"{CGROUPS}/cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "200000",
                f"{CGROUPS}/cpu,cpuacct/docker/abc/cpu.cfs_period_us": "100000",
            },
            2,
        ),
        (  # in a container, where the path from outside leads nowhere
            V1
            | {
                f"{CGROUPS}/cpu,cpuacct/cpu.cfs_quota_us": "100000",
                f"{CGROUPS}/cpu,cpuacct/cpu.cfs_period_us": "100000",
            },
            1,
        ),
        (
            V1
            | {
                f"{CGROUPS}/cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "-1",
                f"{CGROUPS}/cpu,cpuacct/docker/abc/cpu.cfs_period_us": "100000",
            },
            4,
        ),
        (V2 | {f"{CGROUPS}/user.slice/cpu.max": "300000 100000"}, 3),
        (V2 | {f"{CGROUPS}/user.slice/cpu.max": "300000 100000", f"{CGROUPS}/cpu.max": "100000 100000"}, 1),
        (V2 | {f"{CGROUPS}/user.slice/run.scope/cpu.max": "max 100000"}, 4),
    ],
)
def test_quotas_of_every_control_group_count(
    files: dict[str, str], cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In both versions of control groups, and in all groups above the process's own: the tightest wins."""
    pretend(monkeypatch, allowed=set(range(8)), siblings=TWO_THREADS_A_CORE, **files)
    assert usable_cores() == cores


@pytest.mark.parametrize(("fast", "cores"), [("0-3", 4), ("0,4", 1), ("0-1,4-5", 2), ("", 4), ("16-23", 4)])
def test_slow_cores_do_not_count(fast: str, cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Linux tells fast cores from slow ones the fast ones are used, unless the process may use none of them."""
    fast_ones = {"/sys/devices/cpu_core/cpus": fast}
    pretend(monkeypatch, allowed=set(range(8)), siblings=TWO_THREADS_A_CORE, **fast_ones)
    assert usable_cores() == cores


def test_slow_cores_of_apple_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS tells how many performance cores there are; an Intel Mac, which has one kind, tells nothing."""
    pretend(monkeypatch, allowed=None)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: 12 if logical else 10)
    asked: list[list[str]] = []

    def sysctl(command: list[str], **_: Any) -> SimpleNamespace:
        asked.append(command)
        return SimpleNamespace(stdout=b"8\n")

    monkeypatch.setattr(subprocess, "run", sysctl)
    assert usable_cores() == 8
    assert asked[0][-1] == "hw.perflevel0.physicalcpu"

    def unknown(command: list[str], **_: Any) -> SimpleNamespace:
        raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(subprocess, "run", unknown)
    assert usable_cores() == 10


def test_hardware_threads_are_counted_within_the_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """More threads than these wait for each other; without a mask all of the machine's are meant."""
    pretend(monkeypatch, allowed={0, 4, 1})
    assert usable_cpus() == 3
    pretend(monkeypatch, allowed=None)
    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: 12)
    assert usable_cpus() == 12


@pytest.mark.parametrize(
    ("files", "free", "total"),
    [
        ({}, 20 * GB, 32 * GB),
        (V2 | {f"{CGROUPS}/user.slice/memory.max": "max"}, 20 * GB, 32 * GB),
        (
            V2
            | {
                f"{CGROUPS}/user.slice/memory.max": f"{8 * GB}",
                f"{CGROUPS}/user.slice/memory.current": f"{5 * GB}",
                f"{CGROUPS}/user.slice/memory.stat": f"anon {2 * GB}\nfile {3 * GB}",
            },
            6 * GB,
            8 * GB,
        ),
        (
            V1
            | {
                f"{CGROUPS}/memory/docker/abc/memory.limit_in_bytes": f"{8 * GB}",
                f"{CGROUPS}/memory/docker/abc/memory.usage_in_bytes": f"{5 * GB}",
                f"{CGROUPS}/memory/docker/abc/memory.stat": f"cache {GB}\ntotal_cache {3 * GB}",
            },
            6 * GB,
            8 * GB,
        ),
        (  # version 1 writes a huge number for no limit
            V1
            | {
                f"{CGROUPS}/memory/docker/abc/memory.limit_in_bytes": "9223372036854771712",
                f"{CGROUPS}/memory/docker/abc/memory.usage_in_bytes": f"{5 * GB}",
            },
            20 * GB,
            32 * GB,
        ),
        (  # a group that holds more than it may is full, not less than empty
            V2
            | {
                f"{CGROUPS}/memory.max": f"{GB}",
                f"{CGROUPS}/memory.current": f"{2 * GB}",
            },
            0,
            GB,
        ),
    ],
)
def test_memory_of_control_groups_counts(
    files: dict[str, str], free: int, total: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container has what its control group grants; copies of files that it holds can be given up, and are free."""
    pretend(monkeypatch, allowed={0}, **files)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=20 * GB, total=32 * GB))
    assert (free_memory(), total_memory()) == (free, total)
