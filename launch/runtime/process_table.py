"""The processes that a run has now: those of the plan, and those attached since, without those that were detached.

Each process has a row in a segment of shared memory where it reports progress (``actorlearn/memory/progress.py``). Rows
are reused; numbers of learners and simulators are not. The shared memory of learners is made when they are attached,
and removed when they have left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import msgspec

from actorlearn.envs.specs import EnvSettings
from actorlearn.memory.progress import ROWS
from actorlearn.parameters.settings import MOST_LEARNERS
from actorlearn.wire.identity import ProcessId
from actorlearn.worker.roles import ROLES
from launch.nodes.messages import DropLearner
from launch.nodes.node import Node
from launch.plan.plan import Plan, PlannedProcess
from launch.plan.roles import processes_of_learners
from launch.supervision import events as ev
from launch.topology.load import TopologyError, dump, parse
from launch.topology.overrides import Override
from launch.topology.strict_yaml import Origin


class ProcessTable:
    """The processes that a run has now, each with its row in the shared memory for progress."""

    def __init__(self, plan: Plan, node: Node) -> None:
        self._plan, self._topology, self._node = plan, plan.topology, node
        left_out = plan.resumption.left_out
        self.listed: list[PlannedProcess] = [
            process for process in plan.processes if process.role.scope == "run" or process.id.learner not in left_out
        ]
        """Processes in the order in which they are started."""
        self._next_learner = max(plan.topology.learners.count, plan.resumption.learners_so_far)
        self._next_simulator = sum(process.role.makes_rows for process in plan.processes)

    @property
    def rows(self) -> dict[str, int]:
        """Name of each process -> its row in the shared memory for progress."""
        return {process.name: process.index for process in self.listed}

    @property
    def simulator_rows(self) -> list[int]:
        """Rows of the simulators in the shared memory for progress."""
        return [process.index for process in self.listed if process.role.makes_rows]

    def keep_only(self, names: Collection[str]) -> list[str]:
        """Remove all processes except ``names``, and free their shared memory; returns the removed names."""
        gone = [process for process in self.listed if process.name not in names]
        for process in gone:
            self.listed.remove(process)
            if process.role.learns:
                self._node.do(DropLearner(process.id.learner))
        return [process.name for process in gone]

    def enlarge(self, action: ev.Enlarge) -> ev.Enlarged | ev.NotEnlarged:
        """Add the simulators or learners that an attach command requests; NotEnlarged has the reason of a refusal.

        Overrides of the request may only change ``env``, and apply to the new simulators.
        """
        topology = self._topology
        overrides = [Override(text, Origin("attach")) for text in action.overrides]
        try:
            changed = parse(dump(topology), overrides, "the run's topology")
            if msgspec.structs.replace(changed, env=topology.env) != topology:
                raise TopologyError(
                    f"attach {' '.join(action.overrides)}: only keys of env can be changed; leave out the others, "
                    "or start another run"
                )
            env = changed.env if changed != topology else None
            if action.learners:
                new = self.add_learners(action.learners, env)
            else:
                new = self.add_simulators(action.simulators, env, action.without)
        except (TopologyError, OSError) as error:  # also if there is no room in the run or in shared memory
            return ev.NotEnlarged(action.client, "; ".join([str(error), *getattr(error, "__notes__", ())]))
        return ev.Enlarged(action.client, tuple(new))

    def add_simulators(
        self, count: int, env: EnvSettings | None = None, without: Collection[int] = ()
    ) -> list[PlannedProcess]:
        """Add simulators, assigned in turn to all learners but those in ``without``.

        Raises TopologyError if there is no room for them.
        """
        self._make_sure_of_room(f"attach {count} simulators", count, 1)
        trainers = [process.id.learner for process in self.listed if process.role.learns]
        trainers = [learner for learner in trainers if learner not in without]
        numbers = range(self._next_simulator, self._next_simulator + count)
        new = [ProcessId("simulator", number, trainers[number % len(trainers)]) for number in numbers]
        most = self._topology.simulators.count
        there = [process.id for process in self.listed if process.role.makes_rows]
        if self._topology.replay and max(Counter(process.learner for process in (*there, *new)).values()) > most:
            raise TopologyError(
                f"attach {count} simulators: a replay has room for {most} simulators of a learner (simulators.count); "
                "detach others first, or start a run with a larger simulators.count"
            )
        self._next_simulator += count
        return self._add(new, env)

    def add_learners(self, count: int, env: EnvSettings | None = None) -> list[PlannedProcess]:
        """Add learners with their servers and simulators, and make their shared memory.

        Raises TopologyError or OSError if there is no room; no shared memory is then left behind.
        """
        left = MOST_LEARNERS - self._next_learner
        if count > left:
            raise TopologyError(
                f"attach {count} learners: a run can have at most {MOST_LEARNERS} learners from its start to its end, "
                f"and this run has had {self._next_learner}; attach at most {left}, or start another run"
            )
        graph = self._plan.graph
        lists = graph.lists if graph else ()
        if lists and self._next_learner + count > len(lists):
            raise TopologyError(
                f"attach {count} learners: gossip.graph lists the in-peers of learners 0 to {len(lists) - 1}, and the "
                f"next learner is {self._next_learner}; start a run with longer lists, or with another graph"
            )
        numbers = range(self._next_learner, self._next_learner + count)
        new = processes_of_learners(self._topology, numbers, self._next_simulator)
        self._make_sure_of_room(f"attach {count} learners", count, len(new) // count)
        self._next_learner += count
        self._next_simulator += sum(ROLES.spec(process.role).makes_rows for process in new)
        self._node.add_learners(numbers)
        return self._add(new, env)

    def _make_sure_of_room(self, request: str, count: int, each: int) -> None:
        free = ROWS - len(self.listed)
        if count * each > free:
            raise TopologyError(
                f"{request}: a run has at most {ROWS} processes, and this run has {len(self.listed)}; "
                f"attach at most {free // each}, or detach others first"
            )

    def _add(self, ids: Sequence[ProcessId], env: EnvSettings | None) -> list[PlannedProcess]:
        free = sorted(set(range(ROWS)) - {process.index for process in self.listed})
        new = [
            PlannedProcess(process, row, env if ROLES.spec(process.role).makes_rows else None)
            for process, row in zip(ids, free, strict=False)
        ]
        self.listed += new
        return new
