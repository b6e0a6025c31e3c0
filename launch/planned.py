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
    learner: int = 0
    """The learner it works for."""

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
    learners = range(topology.learners.count)
    names = [(trainer_name(topology, learner), "trainer", learner) for learner in learners]
    for role, count in (("inference", topology.inference.count), ("simulator", topology.simulators.count)):
        names += [(f"{role}-{learner * count + i}", role, learner) for learner in learners for i in range(count)]
    names += [(f"evaluator-{i}", "evaluator", 0) for i in range(topology.evaluator.count)]
    if len(names) > ROWS:
        raise TopologyError(
            f"simulators.count {topology.simulators.count}, inference.count {topology.inference.count}, "
            f"learners.count {topology.learners.count}: {len(names)} processes, and a run has at most {ROWS}; "
            "write fewer simulators, with more simulators.envs"
        )
    return [PlannedProcess(name, role, index, learner) for index, (name, role, learner) in enumerate(names)]


def trainer_name(topology: Topology, learner: int) -> str:
    """What a learner's trainer is called: a number tells several apart, and those to come in mode gossip."""
    several = topology.learners.count > 1 or topology.mode == "gossip"
    return f"trainer-{learner}" if several else "trainer"
