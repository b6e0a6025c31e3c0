"""Starts the processes of a node at the supervisor's request, each incarnation with its own settings and segments.

Writes ``settings/`` in the run's folder; makes and removes simulators' segments.
"""

from __future__ import annotations

from collections.abc import Iterable

from actorlearn.files import DISK_ERRORS
from actorlearn.wire.messages import Member
from actorlearn.worker import settings as all_settings
from actorlearn.worker.roles import ROLES
from launch.nodes.messages import Start
from launch.nodes.segments import Segments
from launch.plan.roles import Briefing, Incarnation, settings_for
from launch.spawning.spawner import Spawner, SpawnerLostError
from launch.supervision import events as ev


class Incarnations:
    """Incarnations of processes, with their settings and segments."""

    def __init__(self, briefing: Briefing, segments: Segments, spawner: Spawner) -> None:
        """Start none yet."""
        self._briefing, self._segments, self._spawner = briefing, segments, spawner
        self._members: dict[str, Member] = {}
        """Members of simulators whose segments exist, by their ids on sockets."""

    def spawn(self, start: Start) -> ev.Spawned | ev.NotSpawned:
        """Start an incarnation; a failed start leaves nothing behind."""
        process = start.process
        name, incarnation = process.name, process.incarnation
        member: Member | None = None
        path = self._briefing.addresses.settings(process)
        try:
            if ROLES.spec(process.role).makes_rows:
                member = self._members[process.socket_id] = self._segments.create_member(process)
            settings = settings_for(self._briefing, Incarnation(process, start.resume, start.env), start.index)
            all_settings.write(settings, path)
            pid = self._spawner.spawn(name, incarnation, process.role, path, settings.threads)
        except OSError as error:
            self.drop_members([process.socket_id])
            passing = error.errno in DISK_ERRORS or isinstance(error, SpawnerLostError)
            return ev.NotSpawned(name, incarnation, f"cannot be started: {error}", passing)
        return ev.Spawned(name, incarnation, pid, member)

    def drop_members(self, ids: Iterable[str]) -> None:
        """Remove the segments of these ended simulators."""
        for id in ids:
            if member := self._members.pop(id, None):
                self._segments.drop_member(member)
