"""What this process is granted of the machine: cores, CPU time, memory.

Knows the machine and the limits of its control groups, not what they are used for.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

_CGROUPS = Path("/sys/fs/cgroup")
_NO_LIMIT = 1 << 60
"""Version 1 of control groups writes a number above this where there is no limit on memory."""


@dataclass(frozen=True)
class Cores:
    """How many cores there are for a pass, and what leaves so many.

    slow: whether there are cores besides that are left out because they are slower.
    """

    hardware_threads: int  # of the whole machine
    allowed_threads: int  # of the affinity mask
    cores: int  # physical ones among those
    slow: bool
    quota: float  # CPUs' worth of time, infinity without a limit

    @property
    def usable(self) -> int:
        return max(1, math.floor(min(self.cores, self.quota)))


def count_cores() -> Cores:
    """Return the physical cores this process may use: those of its affinity mask, within its CPU quota.

    Decoding waits for memory, so a second thread on one core does not help. All threads wait for the slowest, so where
    a processor has fast and slow cores only the fast ones count.
    """
    allowed, all_cores = _affinity(), psutil.cpu_count(logical=False) or 1
    fast = [cpu for cpu in allowed if cpu in _fast_cpus()] or allowed
    cores = len({_core_of(cpu) for cpu in fast}) if fast else _performance_cores() or all_cores
    slow = len(fast) < len(allowed) if fast else cores < all_cores
    return Cores(psutil.cpu_count() or 1, usable_cpus(), cores, slow, _quota())


def usable_cores() -> int:
    """Return how many threads a pass should have: one for each core that `count_cores` finds."""
    return count_cores().usable


def usable_cpus() -> int:
    """Return the hardware threads this process may use; more threads than these wait for each other."""
    return len(_affinity()) or psutil.cpu_count() or 1


def free_memory() -> int:
    """Return the bytes this process can still take before the system swaps or ends it."""
    granted = (limit - used for limit, used in _memory_limits())
    return max(0, min(int(psutil.virtual_memory().available), *granted, _NO_LIMIT))


def total_memory() -> int:
    """Return the bytes this process could take if it were alone."""
    return min(int(psutil.virtual_memory().total), *(limit for limit, _ in _memory_limits()), _NO_LIMIT)


def _affinity() -> list[int]:
    try:
        return sorted(os.sched_getaffinity(0))
    except AttributeError:  # macOS and Windows
        return []


def _core_of(cpu: int) -> str:
    """Return a name shared by the hardware threads of one core."""
    return _read(Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")) or str(cpu)


def _fast_cpus() -> set[int]:
    """Return the CPUs of the performance cores where Linux tells them apart: `0-7,16` on a hybrid Intel processor."""
    found: set[int] = set()
    for part in filter(None, _read(Path("/sys/devices/cpu_core/cpus")).split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def _performance_cores() -> int | None:
    """Return how many fast cores Apple's processors have, None elsewhere."""
    if sys.platform != "darwin":
        return None
    try:
        asked = ["/usr/sbin/sysctl", "-n", "hw.perflevel0.physicalcpu"]
        return int(subprocess.run(asked, capture_output=True, check=True, timeout=5).stdout)
    except (OSError, ValueError, subprocess.SubprocessError):  # Intel Macs have no such levels
        return None


def _quota() -> float:
    """Return how many CPUs' worth of time the control groups grant, infinity where they do not say."""
    grants = [math.inf]
    for group in _groups(""):
        quota, _, period = _read(group / "cpu.max").partition(" ")
        grants.append(_share(quota, period))
    for group in _groups("cpu"):
        grants.append(_share(_read(group / "cpu.cfs_quota_us"), _read(group / "cpu.cfs_period_us")))
    return max(1.0, min(grants))


def _share(quota: str, period: str) -> float:
    try:
        return int(quota) / int(period) if int(quota) > 0 else math.inf
    except (ValueError, ZeroDivisionError):  # `max`, and where there is no such file
        return math.inf


def _memory_limits() -> Iterator[tuple[int, int]]:
    """Yield the limits of the control groups in bytes, and how much of each is taken by more than copies of files."""
    for controller, limit, usage, cached in (
        ("", "memory.max", "memory.current", "file"),
        ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache"),
    ):
        for group in _groups(controller):
            try:
                most, used = int(_read(group / limit)), int(_read(group / usage))
            except ValueError:  # `max`, and where there is no such file
                continue
            copies = dict(line.split() for line in _read(group / "memory.stat").splitlines())
            if most < _NO_LIMIT:
                yield most, max(0, used - int(copies.get(cached, 0)))


def _groups(controller: str) -> Iterator[Path]:
    """Yield the control groups this process is in, from its own up to the root.

    controller: of version 1; empty for version 2. In a container the path from outside leads nowhere, and the root is
    the container's own group.
    """
    for line in _read(Path("/proc/self/cgroup")).splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            root = _CGROUPS / names
            own = root / path.strip("/")
            yield from (group for group in (own, *own.parents) if group.is_relative_to(root))
            return
    yield _CGROUPS / controller


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
