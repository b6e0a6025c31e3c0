"""What a plan lists: processes and segments. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from actorlearn.memory.progress import ROWS
from actorlearn.parameters.settings import MOST_LEARNERS
from actorlearn.wire.identity import ProcessId
from launch.topology.load import Topology, TopologyError
from launch.topology.modes import mode


@dataclass(frozen=True)
class PlannedProcess:
    """One process of the run, through all its incarnations."""

    id: ProcessId
    """Of its first incarnation."""
    index: int
    """Row in the progress segment; that of a process that has left is used again."""

    @property
    def name(self) -> str:
        """What it is called."""
        return self.id.name


@dataclass(frozen=True)
class PlannedSegment:
    """One shared-memory segment, for people to read."""

    name: str
    bytes: int
    what: str


class Processes:
    """The processes of a run: those it begins with, and those that come later. No name is ever given again."""

    def __init__(self, topology: Topology) -> None:
        """List the first ones; raises TopologyError when they are too many."""
        self._topology = t = topology
        self.listed: list[PlannedProcess] = []
        """In the order in which they are started. The evaluator is last, so that it changes nothing for the others."""
        self.next_learner = 0
        """Number of the learner that comes next."""
        self._next_simulator = 0
        ids = [*self._of_learners(t.learners.count), *(ProcessId("evaluator", i) for i in range(t.evaluator.count))]
        if len(ids) > ROWS:
            raise TopologyError(
                f"simulators.count {t.simulators.count}, inference.count {t.inference.count}, "
                f"learners.count {t.learners.count}: {len(ids)} processes, and a run has at most {ROWS}; "
                "write fewer simulators, with more simulators.envs"
            )
        self._add(ids)

    def named(self, name: str) -> PlannedProcess:
        """The process of that name."""
        return next(process for process in self.listed if process.name == name)

    def add_simulators(self, count: int) -> list[PlannedProcess]:
        """Deal more simulators to the learners in turn; raises TopologyError when there is no room for them."""
        self._make_sure_of_room(f"attach {count} simulators", count, 1)
        learners = [process.id.learner for process in self.listed if process.id.role == "trainer"]
        return self._add([ProcessId("simulator", n, learners[n % len(learners)]) for n in self._numbers(count)])

    def add_learners(self, count: int) -> list[PlannedProcess]:
        """Add learners, each with servers and simulators of its own; raises TopologyError when there is no room."""
        left = MOST_LEARNERS - self.next_learner
        if count > left:
            raise TopologyError(
                f"attach {count} learners: a run has at most {MOST_LEARNERS} in its life, and this one has had "
                f"{self.next_learner}; attach at most {left}, or start another run"
            )
        graph = self._topology.gossip.graph
        if isinstance(graph, list) and self.next_learner + count > len(graph):
            raise TopologyError(
                f"attach {count} learners: gossip.graph lists in-peers of learners 0 to {len(graph) - 1}, and the next "
                f"is {self.next_learner}, which would mix with nobody; start a run with longer lists, or another graph"
            )
        each = 1 + self._topology.inference.count + self._topology.simulators.count
        self._make_sure_of_room(f"attach {count} learners", count, each)
        return self._add(self._of_learners(count))

    def remove(self, process: PlannedProcess) -> None:
        """Forget one that is gone for good; its row is free."""
        self.listed.remove(process)

    def _of_learners(self, count: int) -> list[ProcessId]:
        """What the next learners consist of."""
        learners = range(self.next_learner, self.next_learner + count)
        self.next_learner += count
        servers, simulators = self._topology.inference.count, self._topology.simulators.count
        return [
            *(trainer_of(self._topology, k) for k in learners),
            *(ProcessId("inference", k * servers + i, k) for k in learners for i in range(servers)),
            *(ProcessId("simulator", n, k) for k in learners for n in self._numbers(simulators)),
        ]

    def _numbers(self, simulators: int) -> range:
        self._next_simulator += simulators
        return range(self._next_simulator - simulators, self._next_simulator)

    def _make_sure_of_room(self, request: str, count: int, each: int) -> None:
        free = ROWS - len(self.listed)
        if count * each > free:
            raise TopologyError(
                f"{request}: a run has at most {ROWS} processes, and this one has {len(self.listed)}; "
                f"attach at most {free // each}, or detach others first"
            )

    def _add(self, ids: list[ProcessId]) -> list[PlannedProcess]:
        free = sorted(set(range(ROWS)) - {process.index for process in self.listed})
        new = [PlannedProcess(own, row) for own, row in zip(ids, free, strict=False)]
        self.listed += new
        return new


def trainer_of(topology: Topology, learner: int) -> ProcessId:
    """A learner's trainer: a number tells several apart, and those that may come."""
    return ProcessId("trainer", learner, learner, sole=not mode(topology).several(topology.learners.count))
