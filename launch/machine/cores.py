"""Cores of this machine that a run may use: their number, the quota on their time, and the order to use them in.

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
    """CPUs they may run on."""
    quota: Quota | None = None
    """Limit on those CPUs' time; None where there is none."""

    @classmethod
    def here(cls) -> Cores:
        """Return the cores of this process."""
        return cls(allowed_cores(), quota())

    @property
    def usable(self) -> float:
        """Cores' worth of time: a fraction where a quota leaves one."""
        return float(self.allowed) if self.quota is None else min(float(self.allowed), self.quota.cores)

    @property
    def rationed(self) -> bool:
        """Whether the quota leaves less than the allowed CPUs."""
        return self.usable < self.allowed

    def __str__(self) -> str:
        """For people: 2 cores, or 1.5 of 2 cores (the quota in cpu.max)."""
        cores = f"{self.allowed} core{'s' if self.allowed > 1 else ''}"
        if self.quota is None or not self.rationed:
            return cores
        return f"{self.usable:g} of {cores} (the quota in {self.quota.file.name})"


def allowed_cores() -> int:
    """CPUs that this process may run on, whatever share of their time it gets."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def usable_cores() -> float:
    """Cores' worth of time that this process and its children may use: 1.5 under a quota of that much."""
    return Cores.here().usable


def begun_cores() -> int:
    """Return `usable_cores` rounded up: processes that each want a core, of which the last may get a part of one."""
    return math.ceil(usable_cores())


def boot_id() -> str:
    """Return the kernel's random word of this boot of this machine, the same in all its containers."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def cores_word() -> str:
    """Return a word that processes on a machine have in common if they share the time of the same CPUs.

    That is so if these are all that they may run on, under the same quota if it leaves less than them.
    """
    cores = Cores.here()
    rationed_by = cores.quota.file.stat().st_ino if cores.quota and cores.rationed else None
    said = f"{sorted(os.sched_getaffinity(0))} {rationed_by}"
    return hashlib.blake2b(said.encode(), digest_size=8).hexdigest()


def in_turn(allowed: Iterable[int] | None = None, system: Path = SYSTEM) -> list[int]:
    """Allowed CPUs in the order in which to give them out.

    First one CPU of every physical core, node by node, so that neighbours share memory; then their hyper-threads. By
    number where /sys does not describe the topology.
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
    """The first CPU of the physical core that a CPU is a thread of; itself when that is not known."""
    try:
        text = (system / f"cpu/cpu{cpu}/topology/thread_siblings_list").read_text()
    except OSError:
        return cpu
    return min(_numbers(text), default=cpu)


def _nodes(system: Path) -> list[tuple[int, list[int]]]:
    """NUMA nodes and their CPUs."""
    found = []
    for path in system.glob("node/node[0-9]*/cpulist"):
        found.append((int(path.parent.name.removeprefix("node")), _numbers(path.read_text())))
    return sorted(found)


def _numbers(text: str) -> list[int]:
    """The kernel's lists: "0-3,8" is 0, 1, 2, 3, 8."""
    numbers: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            numbers += range(int(first), int(last or first) + 1)
    return numbers
