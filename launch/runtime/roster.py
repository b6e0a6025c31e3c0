"""The processes that a run has now: those of the plan, and those that are attached, with their environments.

Makes room on the node for what is attached, and frees what has left for good.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from actorlearn.envs.specs import EnvSettings
from actorlearn.worker.roles import ROLES
from launch.nodes.node import Node, Start
from launch.plan.plan import Plan
from launch.plan.processes import PlannedProcess
from launch.plan.resumption import Resumption
from launch.supervision import events as ev
from launch.supervision.process_table import ProcessTable
from launch.topology.load import TopologyError, dump, parse


class Roster:
    """Processes of a run."""

    def __init__(self, plan: Plan, resumption: Resumption, node: Node) -> None:
        """List the plan's, without learners that were detached in an earlier life."""
        self.table = ProcessTable(plan, resumption)
        self.environments: dict[str, EnvSettings] = {}
        """Environments of simulators that were attached with changes, by name; of others it is the topology's."""
        self._topology, self._node = plan.topology, node

    @property
    def rows(self) -> list[int]:
        """Rows of all processes in the progress segment."""
        return [process.index for process in self.table.listed]

    def spawn(self, action: ev.Spawn) -> ev.Event | None:
        """Start the next incarnation of a process."""
        process = self.table.find(action.name)
        own = process.id.again(action.incarnation)
        return self._node.do(Start(own, process.index, action.resume, self.environments.get(action.name)))

    def enlarge(self, action: ev.Enlarge) -> ev.Enlarged | ev.NotEnlarged:
        """Plan more simulators, or learners, with changes to nothing but the environment of the new simulators."""
        own = self._topology
        try:
            changed = parse(dump(own), action.overrides, "the run's topology")
            if msgspec.structs.replace(changed, env=own.env) != own:
                raise TopologyError(
                    f"attach {' '.join(action.overrides)}: only env.* can be changed; start another run"
                )
            if action.learners:
                new = self._add_learners(action.learners)
            else:
                new = self.table.add_simulators(action.simulators)
        except (TopologyError, OSError) as error:  # no room in the run, or in shared memory
            return ev.NotEnlarged(action.client, str(error))
        if changed != own:
            names = [process.name for process in new if ROLES.spec(process.id.role).makes_rows]
            self.environments.update(dict.fromkeys(names, changed.env))
        return ev.Enlarged(action.client, tuple(new))

    def _add_learners(self, count: int) -> list[PlannedProcess]:
        """Add learners and make room for each; leaves nothing behind where there is none."""
        new = self.table.add_learners(count)
        try:
            self._node.add_learners(sorted({process.id.learner for process in new}))
        except BaseException:
            for process in new:
                self.table.remove(process)
            raise
        return new

    def forget_all_but(self, names: Collection[str]) -> list[str]:
        """Free the rows and segments of all other processes; returns the names of these."""
        gone = [process for process in self.table.listed if process.name not in names]
        for process in gone:
            self.table.remove(process)
            if ROLES.spec(process.id.role).learns:
                self._node.drop_learner(process.id.learner)
            self.environments.pop(process.name, None)
        return [process.name for process in gone]
