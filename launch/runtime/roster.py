"""The processes that a run has now: those of the plan, and those that are attached, with their environments.

Makes room on the node for what is attached, and frees what has left for good.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from actorlearn.envs.specs import EnvSettings
from actorlearn.wire.messages import Member
from actorlearn.worker.roles import ROLES
from launch.nodes.messages import MOST_DROPPED, DropLearner, DropMembers, Start
from launch.nodes.node import Node
from launch.plan.plan import Plan
from launch.plan.processes import PlannedProcess
from launch.plan.resumption import Resumption
from launch.spawning.spawner import Key
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
        self._members: dict[Key, str] = {}
        """Living simulators, and the ids by which their segments are removed."""
        self._ended: list[str] = []
        """Ids of ended simulators whose segments still exist."""

    @property
    def rows(self) -> list[int]:
        """Rows of all processes in the progress segment."""
        return [process.index for process in self.table.listed]

    @property
    def simulator_rows(self) -> list[int]:
        """Those of them whose processes make rows of experience."""
        return [process.index for process in self.table.listed if ROLES.spec(process.id.role).makes_rows]

    def spawn(self, action: ev.Spawn) -> ev.Event | None:
        """Start the next incarnation of a process."""
        process = self.table.find(action.name)
        own = process.id.again(action.incarnation)
        return self._node.do(Start(own, process.index, action.resume, self.environments.get(action.name)))

    def follow(self, event: ev.Event) -> None:
        """Remember whose segments there are."""
        if isinstance(event, ev.Spawned) and event.member:
            self._members[event.name, event.incarnation] = event.member.id.socket_id
        elif isinstance(event, ev.Exited) and (ended := self._members.pop((event.name, event.incarnation), "")):
            self._ended.append(ended)
        elif isinstance(event, ev.Lost):
            for key in event.processes:
                self._members.pop(key, None)

    def drop_members(self, needed: Collection[Member]) -> None:
        """Have the segments of ended simulators removed, but for these, which trainers still need."""
        kept = {member.id.socket_id for member in needed}
        dropped = [ended for ended in self._ended if ended not in kept][:MOST_DROPPED]
        if dropped:
            self._ended = [ended for ended in self._ended if ended not in dropped]
            self._node.do(DropMembers(dropped))

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
                self._node.do(DropLearner(process.id.learner))
            self.environments.pop(process.name, None)
        return [process.name for process in gone]
