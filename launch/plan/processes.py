"""Processes and segments that a plan lists. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from actorlearn.memory.progress import ROWS
from actorlearn.wire.identity import ProcessId
from actorlearn.worker.roles import ROLES
from launch.plan.role_plans import count_of
from launch.plan.roles import trainer_of
from launch.topology.load import Topology, TopologyError


@dataclass(frozen=True)
class PlannedProcess:
    """One process of the run, through all its incarnations."""

    id: ProcessId
    """Identity of its first incarnation."""
    index: int
    """Row in the progress segment; the row of a process that has left is reused."""

    @property
    def name(self) -> str:
        """Name that all its incarnations share."""
        return self.id.name


@dataclass(frozen=True)
class PlannedSegment:
    """One shared-memory segment, for people to read."""

    name: str
    bytes: int
    what: str


def first_processes(topology: Topology) -> tuple[PlannedProcess, ...]:
    """Return the processes that a run begins with, in the order of their start; raises TopologyError for too many."""
    run = [role for role in ROLES.specs() if role.scope == "run"]
    ids = learners(topology, range(topology.learners.count), 0)
    ids += [ProcessId(role.name, number) for role in run for number in range(count_of(role, topology))]
    if len(ids) > ROWS:
        raise TopologyError(
            f"simulators.count {topology.simulators.count}, inference.count {topology.inference.count}, "
            f"learners.count {topology.learners.count}: {len(ids)} processes, and a run has at most {ROWS}; "
            "write fewer simulators, with more simulators.envs"
        )
    return tuple(PlannedProcess(process, row) for row, process in enumerate(ids))


def learners(topology: Topology, numbers: Sequence[int], first_simulator: int) -> list[ProcessId]:
    """Return the processes of learners of these numbers; their simulators are numbered from ``first_simulator`` on."""
    simulators, ids = count(first_simulator), list[ProcessId]()
    for role in ROLES.specs():
        each = count_of(role, topology)
        for learner in numbers if role.scope == "learner" else ():
            for place in range(each):
                number = next(simulators) if role.makes_rows else learner * each + place
                process = ProcessId(role.name, number, learner)
                ids.append(trainer_of(topology, learner) if role.learns else process)
    return ids
