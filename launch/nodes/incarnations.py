"""Starts the processes of a node at the supervisor's request, each incarnation with its own settings and segments.

Writes ``settings/`` in the run's folder; makes and removes simulators' segments.
"""

from __future__ import annotations

from collections.abc import Collection

from actorlearn.files import DISK_ERRORS
from actorlearn.wire.messages import Member
from actorlearn.worker import settings as all_settings
from actorlearn.worker.roles import ROLES
from launch.nodes.node import Start
from launch.nodes.segments import Segments
from launch.plan.roles import Briefing, Incarnation, settings_for
from launch.spawning.spawner import Key, Spawner, SpawnerLostError
from launch.supervision import events as ev


class Incarnations:
    """Incarnations of processes, with their settings and segments."""

    def __init__(self, briefing: Briefing, segments: Segments, spawner: Spawner) -> None:
        """Start none yet."""
        self._briefing, self._segments, self._spawner = briefing, segments, spawner
        self._members: dict[Key, Member] = {}
        """Members of living simulators."""
        self._gone: list[Member] = []
        """Members of ended simulators whose segments still exist."""

    def spawn(self, start: Start) -> ev.Spawned | ev.NotSpawned:
        """Start an incarnation; a failed start leaves nothing behind."""
        process = start.process
        key = name, incarnation = process.name, process.incarnation
        path = self._briefing.addresses.settings(process)
        try:
            if ROLES.spec(process.role).makes_rows:
                self._members[key] = self._segments.create_member(process)
            settings = settings_for(self._briefing, Incarnation(process, start.resume, start.env), start.index)
            all_settings.write(settings, path)
            pid = self._spawner.spawn(name, incarnation, process.role, path, settings.threads)
        except OSError as error:
            if member := self._members.pop(key, None):
                self._segments.drop_member(member)
            passing = error.errno in DISK_ERRORS or isinstance(error, SpawnerLostError)
            return ev.NotSpawned(name, incarnation, f"cannot be started: {error}", passing)
        return ev.Spawned(name, incarnation, pid, self._members.get(key))

    def ended(self, key: Key) -> None:
        """Keep the segment of an incarnation that has ended, until its trainer has learned from it."""
        if member := self._members.pop(key, None):
            self._gone.append(member)

    def keep_members(self, needed: Collection[Member]) -> None:
        """Remove the segments of ended simulators, but for these."""
        for member in self._gone:
            if member not in needed:
                self._segments.drop_member(member)
        self._gone = [member for member in self._gone if member in needed]
