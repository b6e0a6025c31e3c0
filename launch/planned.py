"""What a plan lists: processes and segments. Pure data, and the processes that a topology begins with."""

from __future__ import annotations

from dataclasses import dataclass

from actorlearn.memory.progress import ROWS
from launch.topology import Topology, TopologyError


@dataclass(frozen=True)
class PlannedProcess:
    """One process of the run."""

    name: str
    role: str
    index: int
    """Row in the progress segment; that of a simulator that has left is used again."""

    @property
    def number(self) -> int:
        """What the name ends in. A simulator's tells its random numbers from those of others: it is used only once."""
        return int(self.name.rsplit("-", 1)[1])


@dataclass(frozen=True)
class PlannedSegment:
    """One shared-memory segment, for people to read."""

    name: str
    bytes: int
    what: str


def first_processes(topology: Topology) -> list[PlannedProcess]:
    """The processes a run begins with, in the order in which they are started; raises TopologyError when too many.

    The evaluator is last, so that whether there is one changes nothing for the others.
    """
    names = [("trainer", "trainer")]
    for role, count in (
        ("inference", topology.inference.count),
        ("simulator", topology.simulators.count),
        ("evaluator", topology.evaluator.count),
    ):
        names += [(f"{role}-{i}", role) for i in range(count)]
    if len(names) > ROWS:
        raise TopologyError(
            f"simulators.count {topology.simulators.count}, inference.count {topology.inference.count}: "
            f"{len(names)} processes, and a run has at most {ROWS}; write fewer simulators, with more simulators.envs"
        )
    return [PlannedProcess(name, role, index) for index, (name, role) in enumerate(names)]
