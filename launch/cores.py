"""Which cores processes are kept on: those we may use, whole cores before hyper-threads, one NUMA node after the other.

Reads the allowed set (what cgroups, Slurm or taskset leave) and /sys; changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

SYSTEM = Path("/sys/devices/system")


def in_turn(allowed: Iterable[int] | None = None, system: Path = SYSTEM) -> list[int]:
    """Allowed CPUs in the order in which to give them out.

    First one CPU of every physical core, node by node, so that neighbours share memory; then their hyper-threads. Where
    the kernel tells nothing, by number.
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
