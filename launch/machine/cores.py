"""Cores that a run may use on this machine: their number, the quota on their time, and the order to assign them in.

Reads the allowed set (as restricted by cpusets, Slurm or taskset), the quota of control groups, and /sys.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from launch.machine.cgroups import Quota, quota

SYSTEM = Path("/sys/devices/system")


@dataclass(frozen=True)
class Cores:
    """Cores that this process and its children may use, and the quota on their time."""

    allowed: int
    """Number of allowed CPUs."""
    quota: Quota | None = None
    """Limit on the time of those CPUs; None if there is none."""

    @classmethod
    def here(cls) -> Cores:
        """Return the cores of this process."""
        return cls(allowed_cores(), quota())

    @property
    def usable(self) -> float:
        """Number of cores whose time may be used: a fraction if a quota limits it."""
        return float(self.allowed) if self.quota is None else min(float(self.allowed), self.quota.cores)

    @property
    def rationed(self) -> bool:
        """Whether a quota allows less time than the allowed CPUs have."""
        return self.usable < self.allowed

    def __str__(self) -> str:
        """Return a text such as: 2 cores, or 1.5 of 2 cores (the quota in cpu.max)."""
        cores = f"{self.allowed} core{'s' if self.allowed > 1 else ''}"
        if self.quota is None or not self.rationed:
            return cores
        return f"{self.usable:g} of {cores} (the quota in {self.quota.file.name})"


def allowed_cores() -> int:
    """Return the number of CPUs on which this process may run; a quota may allow less time on them."""
    return len(os.sched_getaffinity(0))


def usable_cores() -> float:
    """Return the number of cores whose time this process and its children may use: 1.5 under a quota of 1.5."""
    return Cores.here().usable


def begun_cores() -> int:
    """Return `usable_cores`, rounded up."""
    return math.ceil(usable_cores())


def boot_id() -> str:
    """Return the kernel's random id of this boot, the same in all containers of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def cores_word() -> str:
    """Return a text that identifies the CPUs of this process.

    It is the same for processes of a machine that may run on the same CPUs, under the same quota if one limits them.
    """
    cores = Cores.here()
    rationed_by = cores.quota.file.stat().st_ino if cores.quota and cores.rationed else None
    said = f"{sorted(os.sched_getaffinity(0))} {rationed_by}"
    return hashlib.blake2b(said.encode(), digest_size=8).hexdigest()


def in_turn(allowed: Iterable[int] | None = None, system: Path = SYSTEM) -> list[int]:
    """Return the allowed CPUs in the order in which processes are pinned to them.

    First comes one CPU of every physical core, one NUMA node after another, so that consecutive processes share memory;
    then come the other hyper-threads. Without the machine's topology in /sys, CPUs are ordered by number.
    """
    cpus = sorted(os.sched_getaffinity(0) if allowed is None else allowed)
    nodes = {cpu: number for number, listed in _nodes(system) for cpu in listed}
    siblings: dict[tuple[int, int], int] = {}
    ranked = []
    for cpu in cpus:
        core = (nodes.get(cpu, 0), _core(cpu, system))
        ranked.append((siblings.get(core, 0), nodes.get(cpu, 0), cpu))
        siblings[core] = siblings.get(core, 0) + 1
    return [cpu for *_, cpu in sorted(ranked)]


def _core(cpu: int, system: Path) -> int:
    """Return the first CPU of the physical core of a CPU; the CPU itself if that is unknown."""
    try:
        text = (system / f"cpu/cpu{cpu}/topology/thread_siblings_list").read_text()
    except OSError:
        return cpu
    return min(_numbers(text), default=cpu)


def _nodes(system: Path) -> list[tuple[int, list[int]]]:
    found = []
    for path in system.glob("node/node[0-9]*/cpulist"):
        found.append((int(path.parent.name.removeprefix("node")), _numbers(path.read_text())))
    return sorted(found)


def _numbers(text: str) -> list[int]:
    """Return the numbers of one of the kernel's lists: "0-3,8" is 0, 1, 2, 3, 8."""
    numbers: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            numbers += range(int(first), int(last or first) + 1)
    return numbers
