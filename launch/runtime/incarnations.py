"""Starts the processes of a run at the supervisor's request, each incarnation with its own settings and segments.

Adds simulators and learners to a living run. Writes ``settings/`` in the run's folder; makes and removes shared memory
through the workspace.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from actorlearn.envs.specs import EnvSettings
from actorlearn.files import DISK_ERRORS
from actorlearn.wire.messages import Member
from actorlearn.worker import settings as all_settings
from actorlearn.worker.roles import ROLES
from launch.machine.cores import in_turn
from launch.plan.placement import place
from launch.plan.plan import Plan
from launch.plan.processes import PlannedProcess
from launch.plan.resumption import Resumption
from launch.plan.roles import Briefing, Incarnation, settings_for
from launch.runtime.workspace import Workspace
from launch.spawning.spawner import Key, Spawner, SpawnerLostError
from launch.supervision import events as ev
from launch.supervision.process_table import ProcessTable
from launch.topology.load import TopologyError, dump, parse


class Incarnations:
    """Incarnations of a run's processes, with their settings and segments."""

    def __init__(self, plan: Plan, resumption: Resumption, workspace: Workspace, spawner: Spawner) -> None:
        """Start none yet."""
        topology, addresses = plan.topology, workspace.addresses
        self.table = ProcessTable(plan, resumption)
        self.environments: dict[str, EnvSettings] = {}
        """Environments of simulators that were attached with changes, by name; of others it is the topology's."""
        self._topology = topology
        self._workspace, self._spawner = workspace, spawner
        placement = place(topology, in_turn())
        self._briefing = Briefing(topology, plan.description, plan.exact, addresses, placement, resumption)
        self._members: dict[Key, Member] = {}
        """Members of living simulators."""
        self._gone: list[Member] = []
        """Members of ended simulators whose segments still exist."""

    def spawn(self, action: ev.Spawn) -> ev.Spawned | ev.NotSpawned:
        """Start the next incarnation of a process; a failed start leaves nothing behind."""
        key = name, incarnation = action.name, action.incarnation
        process = self.table.find(name)
        own = Incarnation(process.id.again(incarnation), action.resume, self.environments.get(name))
        path = self._workspace.addresses.settings(own.id)
        try:
            if ROLES.spec(own.id.role).makes_rows:
                self._members[key] = self._workspace.create_member(own.id)
            settings = settings_for(self._briefing, own, process.index)
            all_settings.write(settings, path)
            pid = self._spawner.spawn(name, incarnation, own.id.role, path, settings.threads)
        except OSError as error:
            if member := self._members.pop(key, None):
                self._workspace.drop_member(member)
            passing = error.errno in DISK_ERRORS or isinstance(error, SpawnerLostError)
            return ev.NotSpawned(name, incarnation, f"cannot be started: {error}", passing)
        return ev.Spawned(name, incarnation, pid, self._members.get(key))

    def ended(self, key: Key) -> None:
        """Keep the segment of an incarnation that has ended, until its trainer has learned from it."""
        if member := self._members.pop(key, None):
            self._gone.append(member)

    def drop_members(self, needed: Collection[Member]) -> None:
        """Remove the segments of ended simulators, but for these, which trainers still need."""
        for member in self._gone:
            if member not in needed:
                self._workspace.drop_member(member)
        self._gone = [member for member in self._gone if member in needed]

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
        """Add learners and make the segments of each; leaves nothing behind where memory does not suffice."""
        new = self.table.add_learners(count)
        try:
            self._workspace.create_learners(sorted({process.id.learner for process in new}))
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
                self._workspace.drop_learner(process.id.learner)
            self.environments.pop(process.name, None)
        return [process.name for process in gone]
