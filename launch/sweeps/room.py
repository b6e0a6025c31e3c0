"""Number of runs that this machine's cores, memory and GPUs allow at once. ``count_at_once`` is pure."""

from __future__ import annotations

from dataclasses import dataclass

import psutil

from actorlearn.memory.shared import free_bytes
from launch.machine.cores import usable_cores
from launch.machine.gpus import visible_gpus
from launch.plan.nodes import need_of
from launch.plan.planning import plan
from launch.plan.probe import describe
from launch.topology.load import Topology

PROCESS_BYTES = 256 << 20
"""Memory of a process without shared memory: a process that has imported torch takes 200 MB."""
_GIB = 1 << 30


@dataclass(frozen=True)
class Room:
    """Cores, memory and GPUs, of a machine or of a run."""

    cores: float
    memory_bytes: int
    shm_bytes: int
    gpus: int


def here() -> Room:
    """Return the memory and GPUs that are free on this machine now, and all cores that this process may use."""
    memory = psutil.virtual_memory().available
    return Room(cores=usable_cores(), memory_bytes=memory, shm_bytes=free_bytes(), gpus=len(visible_gpus()))


def taken_by(topology: Topology) -> Room:
    """Return the cores, memory and GPUs that a run takes; makes environment and network once, in a child process."""
    description = describe(topology)
    made, learners = plan(topology, description), topology.learners.count
    need = need_of(made.topology, description)
    agents = topology.nodes.count if topology.nodes.several else 0
    return Room(
        cores=need.cores * learners,
        memory_bytes=made.bytes_total + PROCESS_BYTES * (1 + agents + len(made.processes)),
        shm_bytes=made.bytes_total,
        gpus=need.gpus * learners,
    )


def count_at_once(run: Room, machine: Room) -> tuple[int, str]:
    """Return the number of runs that fit at once, at least one, and the resource that bounds it."""
    bounds = {
        f"{machine.cores:g} cores, of which a run takes {run.cores:g}": machine.cores / run.cores,
        f"{machine.memory_bytes / _GIB:.1f} GiB of memory, of which a run takes about {run.memory_bytes / _GIB:.1f}": (
            machine.memory_bytes / run.memory_bytes
        ),
        f"{machine.shm_bytes / _GIB:.1f} GiB of shared memory, of which a run takes {run.shm_bytes / _GIB:.2f}": (
            machine.shm_bytes / run.shm_bytes
        ),
    }
    if run.gpus:
        bounds[f"{machine.gpus} GPUs, of which a run takes {run.gpus}"] = machine.gpus / run.gpus
    why = min(bounds, key=bounds.__getitem__)
    return max(1, int(bounds[why])), why


def heads_at_once(machine: Room) -> tuple[int, str]:
    """Return the number of heads that fit here, for runs whose processes are on other machines, and what bounds it."""
    why = (
        f"{machine.memory_bytes / _GIB:.1f} GiB of memory here, of which a run's head takes {PROCESS_BYTES / _GIB:.2f}"
    )
    return max(1, machine.memory_bytes // PROCESS_BYTES), why
