"""The present processes of a run: those it begins with, and those that are attached later.

Pure. Numbers of learners and simulators are never reused; rows in the progress segment are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from actorlearn.memory.progress import ROWS
from actorlearn.parameters.settings import MOST_LEARNERS
from actorlearn.wire.identity import ProcessId
from actorlearn.worker.roles import ROLES
from launch.plan.plan import Plan
from launch.plan.processes import PlannedProcess, learners
from launch.plan.resumption import Resumption
from launch.topology.load import TopologyError
from launch.topology.modes import asked, mode


class ProcessTable:
    """Table of the processes that a run has now, with the row of each in the progress segment."""

    def __init__(self, plan: Plan, resumption: Resumption) -> None:
        """Begin with the plan's processes, without learners that were detached in an earlier life."""
        self._topology = plan.topology
        self.listed: list[PlannedProcess] = [
            process
            for process in plan.processes
            if ROLES.spec(process.id.role).scope == "run" or process.id.learner not in resumption.left_out
        ]
        """Processes in the order in which they are started."""
        self._next_learner = max(plan.topology.learners.count, resumption.learners_so_far)
        self._next_simulator = sum(ROLES.spec(process.id.role).makes_rows for process in plan.processes)

    def find(self, name: str) -> PlannedProcess:
        """The process of that name."""
        return next(process for process in self.listed if process.name == name)

    def add_simulators(self, count: int) -> list[PlannedProcess]:
        """Deal more simulators to the learners in turn; raises TopologyError when there is no room for them."""
        self._make_sure_of_room(f"attach {count} simulators", count, 1)
        trainers = [process.id.learner for process in self.listed if ROLES.spec(process.id.role).learns]
        numbers = range(self._next_simulator, self._next_simulator + count)
        new = [ProcessId("simulator", number, trainers[number % len(trainers)]) for number in numbers]
        most = self._topology.simulators.count
        there = [process.id for process in self.listed if ROLES.spec(process.id.role).makes_rows]
        if self._topology.replay and max(Counter(process.learner for process in (*there, *new)).values()) > most:
            raise TopologyError(
                f"attach {count} simulators: a replay has room for {most} simulators of a learner (simulators.count); "
                "detach others first, or start a run with more"
            )
        self._next_simulator += count
        return self._add(new)

    def add_learners(self, count: int) -> list[PlannedProcess]:
        """Add learners, each with servers and simulators of its own; raises TopologyError when there is no room."""
        left = MOST_LEARNERS - self._next_learner
        if count > left:
            raise TopologyError(
                f"attach {count} learners: a run has at most {MOST_LEARNERS} in its life, and this one has had "
                f"{self._next_learner}; attach at most {left}, or start another run"
            )
        graph = mode(self._topology).graph(asked(self._topology))
        lists = graph.lists if graph else ()
        if lists and self._next_learner + count > len(lists):
            raise TopologyError(
                f"attach {count} learners: gossip.graph lists in-peers of learners 0 to {len(lists) - 1}, and the next "
                f"is {self._next_learner}, which would mix with nobody; start a run with longer lists, or another graph"
            )
        numbers = range(self._next_learner, self._next_learner + count)
        new = learners(self._topology, numbers, self._next_simulator)
        self._make_sure_of_room(f"attach {count} learners", count, len(new) // count)
        self._next_learner += count
        self._next_simulator += sum(ROLES.spec(process.role).makes_rows for process in new)
        return self._add(new)

    def remove(self, process: PlannedProcess) -> None:
        """Remove a process that has ended for good, and free its row."""
        self.listed.remove(process)

    def _make_sure_of_room(self, request: str, count: int, each: int) -> None:
        free = ROWS - len(self.listed)
        if count * each > free:
            raise TopologyError(
                f"{request}: a run has at most {ROWS} processes, and this one has {len(self.listed)}; "
                f"attach at most {free // each}, or detach others first"
            )

    def _add(self, ids: Sequence[ProcessId]) -> list[PlannedProcess]:
        free = sorted(set(range(ROWS)) - {process.index for process in self.listed})
        new = [PlannedProcess(process, row) for process, row in zip(ids, free, strict=False)]
        self.listed += new
        return new
