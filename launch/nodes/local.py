"""A node that is this machine: its processes, their control socket, their segments, and those that hang."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actorlearn.wire.messages import Hello
from launch.nodes.control import ControlSocket
from launch.nodes.incarnations import Incarnations
from launch.nodes.messages import DropLearner, DropMembers, Start
from launch.nodes.node import NodeAction, ProtocolWarning
from launch.nodes.segments import Segments
from launch.plan.roles import Briefing
from launch.spawning.spawner import Key, Spawner
from launch.supervision import events as ev
from launch.supervision.hangs import HangDetector, Watched

LAST_WORDS_S = 0.05
"""Seconds of listening for a process's last messages, as its exit may be seen before them."""


@dataclass
class _Living:
    """One living incarnation, as the hang detector watches it."""

    start: Start
    pid: int
    starting: bool = True
    """Whether it has not said Hello."""

    @property
    def watched(self) -> Watched:
        own = self.start.process
        return Watched(own.name, own.incarnation, own.role, self.start.index, self.pid, self.starting)


class LocalNode:
    """The processes of a run on this machine."""

    def __init__(self, briefing: Briefing, segments: Segments, spawner: Spawner) -> None:
        """Open the control socket and start nothing yet; closes the spawner at its end. Raises ChannelError."""
        topology = briefing.topology
        self.spawner, self._segments = spawner, segments
        self._control = ControlSocket(briefing.addresses.control)
        self._incarnations = Incarnations(briefing, segments, spawner)
        self._hangs = HangDetector(segments.progress["beat_ns"], topology.limits, topology.supervision.start_s)
        self._living: dict[Key, _Living] = {}
        self._begun = False
        self._actions: dict[type, Callable[[Any], ev.Event | None]] = {
            Start: self._start,
            ev.Kill: lambda kill: spawner.kill(kill.name, kill.incarnation, kill.signal),
            ev.ShowStack: lambda asked: spawner.show_stack(asked.name, asked.incarnation, asked.heading),
            ev.Send: lambda send: self._control.say(f"{send.name}.{send.incarnation}", send.message),
            ev.Answer: lambda answer: self._control.say(answer.client, answer.reply),
            DropMembers: lambda drop: self._incarnations.drop_members(drop.ids),
            DropLearner: lambda drop: segments.drop_learner(drop.learner),
        }
        """Type of action -> function that carries it out and returns the resulting event, if any."""

    @property
    def fds(self) -> tuple[int, ...]:
        """Descriptors that become readable when there are messages or exits."""
        return self._control.fd, self.spawner.fd

    @property
    def living(self) -> list[Start]:
        """Starts of living processes; their rows in the progress segment are theirs."""
        return [living.start for living in self._living.values()]

    @property
    def section_ns(self) -> NDArray[np.int64]:
        """Nanoseconds [rows, sections], as processes count them in shared memory."""
        return self._segments.progress["section_ns"]

    def do(self, action: NodeAction) -> ev.Event | None:
        """Carry out an action; returns Spawned or NotSpawned for a Start."""
        return self._actions[type(action)](action)

    def events(self, now_s: float, gap_s: float) -> Iterator[ev.Event | ProtocolWarning]:
        """Yield messages and exits, and processes that are silent."""
        if not self._begun:
            self._begun = True
            yield ev.Begin()
        if gap_s:
            self._hangs.forgive(gap_s)
        ended = self.spawner.ended()  # before their last messages are read
        yield from self._read(0.0)
        yield from self._reap(ended)
        self.spawner.reap_orphans()
        yield from self._hangs.look([living.watched for living in self._living.values()], now_s)

    def add_learners(self, learners: Collection[int]) -> None:
        """Make learners' segments; raises SharedMemoryFull, with none of them made."""
        self._segments.create_learners(learners)

    def end(self) -> None:
        """End all processes."""
        self.spawner.close()

    def close(self) -> None:
        """End all processes, and close the control socket."""
        self.end()
        self._control.close()

    def _start(self, start: Start) -> ev.Spawned | ev.NotSpawned:
        result = self._incarnations.spawn(start)
        if isinstance(result, ev.Spawned):
            self._control.admit(start.process)
            self._living[start.process.name, start.process.incarnation] = _Living(start, result.pid)
        return result

    def _read(self, patience_s: float) -> Iterator[ev.Event | ProtocolWarning]:
        for event in self._control.read(patience_s):
            if isinstance(event, ev.Received) and isinstance(event.message, Hello):
                self._living[event.name, event.incarnation].starting = False
            yield event

    def _reap(self, keys: list[Key]) -> Iterator[ev.Event | ProtocolWarning]:
        """Reap ended processes; their last messages come before their exits."""
        exits = [(key, self.spawner.reap(key)) for key in keys]
        if any(returncode >= 0 for _, returncode in exits):
            yield from self._read(LAST_WORDS_S)
        for key, returncode in exits:
            del self._living[key]
            self._control.forget(key)
            yield ev.Exited(*key, returncode)
