"""This machine as the node of a run: its processes, their settings, segments and control socket, and hang detection."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from actorlearn.files import DISK_ERRORS
from actorlearn.memory.account import Account, LearnerSteps, StepCounts
from actorlearn.memory.fields import Field
from actorlearn.memory.rollout import Blocks, make_segment, steps_in_flight
from actorlearn.memory.shared import Segment
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import Hello, Member
from actorlearn.worker import settings as all_settings
from actorlearn.worker.roles import ROLES
from launch.nodes.control import ControlSocket
from launch.nodes.messages import DropLearner
from launch.nodes.node import NodeAction, ProtocolWarning
from launch.plan.plan import Plan, Start
from launch.plan.roles import server_of, settings_for
from launch.plan.segments import learner_segments, run_segments
from launch.spawning.spawner import Key, Spawner, SpawnerLostError
from launch.supervision import events as ev
from launch.supervision.hangs import HangDetector, LivingProcess

LAST_WORDS_S = 0.05
"""Seconds to wait for the last messages of a process, whose exit may be noticed before they arrive."""


class LocalNode:
    """The `Node` for this machine: it starts, watches and ends the processes of a run here.

    It writes ``settings/`` in the run's folder, and segments in the run's folder of shared memory, which must exist.
    """

    def __init__(self, plan: Plan, spawner: Spawner) -> None:
        """Make the segments that all learners share, and open the control socket; ``end`` closes the spawner.

        Raises SharedMemoryFull or ChannelError.
        """
        topology, description = plan.topology, plan.description
        self.spawner, self._plan = spawner, plan
        self._learner_fields = {kind: fields for kind, (fields, _) in learner_segments(topology, description).items()}
        """Kind of segment that each learner has -> its fields."""
        self._segments: dict[str, Segment] = {}
        """Segments of the run and of its learners, by name."""
        self._members: dict[str, Member] = {}
        """Simulators whose segments exist, by their socket ids."""
        self._removed: dict[int, LearnerSteps] = {}
        """Learner -> counts of steps from its segments that were removed: in flight, used and dropped."""
        for name, fields, _ in run_segments(topology, description):
            self._create(name, fields)
        beat_ns = self._segments["progress"]["beat_ns"]
        self._control = ControlSocket(plan.addresses.control)
        self._hangs = HangDetector(beat_ns, topology.limits, topology.supervision.start_s)
        self._living: dict[Key, LivingProcess] = {}
        self._begun = False
        self._actions: dict[type, Callable[[Any], ev.Event | None]] = {
            Start: self._start,
            ev.Kill: lambda kill: spawner.kill(kill.name, kill.incarnation, kill.signal),
            ev.ShowStack: lambda asked: spawner.show_stack(asked.name, asked.incarnation, asked.heading),
            ev.Send: lambda send: self._control.send(f"{send.name}.{send.incarnation}", send.message),
            ev.Answer: lambda answer: self._control.send(answer.client, answer.reply),
            ev.DropMembers: lambda drop: self._drop_members(drop.ids),
            DropLearner: lambda drop: self._drop_learner(drop.learner),
        }
        """Type of action -> function that carries it out and returns the resulting event, if any."""

    @property
    def fds(self) -> tuple[int, ...]:
        """Descriptors that become readable when there are messages or exits."""
        return self._control.fd, self.spawner.fd

    @property
    def living(self) -> list[Start]:
        """The orders that started the living processes; each has the process's index in the progress segment."""
        return [living.start for living in self._living.values()]

    @property
    def learners(self) -> set[int]:
        """Learners whose segments exist."""
        return {int(name.removeprefix("account-")) for name in self._segments if name.startswith("account-")}

    @property
    def section_ns(self) -> NDArray[np.int64]:
        """Nanoseconds [process index, section] that processes have spent in each section of their work."""
        return self._segments["progress"]["section_ns"]

    def do(self, action: NodeAction) -> ev.Event | None:
        """Carry out an action; returns Spawned or NotSpawned for a Start."""
        return self._actions[type(action)](action)

    def events(self, now_s: float, gap_s: float) -> Iterator[ev.Event | ProtocolWarning]:
        """Yield Begin once, then messages and exits of processes, and processes that are silent."""
        if not self._begun:
            self._begun = True
            yield ev.Begin()
        if gap_s:
            self._hangs.forgive(gap_s)
        ended = self.spawner.ended()  # determined before their last messages are read
        yield from self._read(0.0)
        yield from self._reap(ended)
        self.spawner.reap_orphans()
        yield from self._hangs.look(self._living.values(), now_s)

    def add_learners(self, learners: Collection[int]) -> None:
        """Make the segments of learners, before their processes start; raises SharedMemoryFull, and then makes none."""
        with ExitStack() as undo:
            for learner in learners:
                undo.callback(self._drop_learner, learner)
                for kind, fields in self._learner_fields.items():
                    self._create(f"{kind}-{learner}", fields)
            undo.pop_all()

    def release(self, learner: int) -> LearnerSteps:
        """Remove all segments of a learner whose processes have ended, and return its final steps."""
        self._drop_members([own for own, member in self._members.items() if member.id.learner == learner])
        self._drop_learner(learner)
        return self._removed.pop(learner, LearnerSteps(counts=StepCounts()))

    def learner_steps(self) -> dict[int, LearnerSteps]:
        """Return the step counts of all learners, also of removed ones; call it after ``end``, when they are final."""
        found = {learner: self._account(learner) for learner in self.learners | self._removed.keys()}
        for member in self._members.values():
            found[member.id.learner].in_flight += _in_flight(member, found[member.id.learner])
        return found

    def end(self) -> None:
        """End all processes."""
        self.spawner.close()

    def close(self) -> None:
        """End all processes and close the control socket."""
        self.end()
        self._control.close()

    def _start(self, start: Start) -> ev.Spawned | ev.NotSpawned:
        process = start.process
        name, incarnation = process.name, process.incarnation
        member: Member | None = None
        path = self._plan.addresses.settings(process)
        try:
            if ROLES.spec(process.role).makes_rows:
                member = self._create_member(process)
            settings = settings_for(self._plan, start)
            all_settings.write(settings, path)
            pid = self.spawner.spawn(name, incarnation, process.role, path, settings.threads)
        except OSError as error:
            self._drop_members([process.socket_id])
            passing = error.errno in DISK_ERRORS or isinstance(error, SpawnerLostError)
            return ev.NotSpawned(name, incarnation, f"cannot be started: {error}", passing)
        self._control.admit(process)
        self._living[name, incarnation] = LivingProcess(start, pid)
        return ev.Spawned(name, incarnation, pid, member)

    def _create_member(self, simulator: ProcessId) -> Member:
        """Make the segment into which a simulator writes rollouts.

        A restarted simulator gets a new segment, so that late writes of its predecessor have no effect.
        """
        plan, addresses = self._plan, self._plan.addresses
        member = Member(
            id=simulator,
            segment=addresses.blocks(simulator),
            wakeup=addresses.wakeup(simulator),
            server=server_of(plan.topology, simulator).number,
        )
        has_server = plan.topology.inference.count > 0
        make_segment(member.segment.file, plan.block_shape, simulator.number, has_server=has_server).close()
        self._members[simulator.socket_id] = member
        return member

    def _drop_members(self, ids: Iterable[str]) -> None:
        """Remove the segments of ended simulators; steps in them that no trainer has counted remain in flight."""
        for id in ids:
            if member := self._members.pop(id, None):
                self._removed[member.id.learner] = steps = self._account(member.id.learner)
                steps.in_flight += _in_flight(member, steps)
                member.segment.file.unlink(missing_ok=True)

    def _drop_learner(self, learner: int) -> None:
        """Remove a learner's segments; processes that have mapped them can still use them."""
        if f"account-{learner}" in self._segments:
            self._removed[learner] = self._account(learner)
        for kind in self._learner_fields:
            if segment := self._segments.pop(f"{kind}-{learner}", None):
                segment.unlink()
                segment.close()

    def _account(self, learner: int) -> LearnerSteps:
        """Return the steps that a learner's trainer has counted, and those in flight of its removed simulators."""
        removed = self._removed.get(learner, LearnerSteps(counts=StepCounts()))
        if (segment := self._segments.get(f"account-{learner}")) is None:
            return msgspec.structs.replace(removed)
        own = Account(segment)
        return LearnerSteps(
            counts=own.steps,
            in_flight=removed.in_flight,
            rollouts_learned=own.rollouts_learned,
            commits=own.commits,
        )

    def _create(self, name: str, fields: list[Field]) -> None:
        self._segments[name] = Segment.create(self._plan.addresses.shm / name, fields)

    def _read(self, patience_s: float) -> Iterator[ev.Event | ProtocolWarning]:
        for event in self._control.read(patience_s):
            if isinstance(event, ev.Received) and isinstance(event.message, Hello):
                self._living[event.name, event.incarnation].starting = False
            yield event

    def _reap(self, keys: list[Key]) -> Iterator[ev.Event | ProtocolWarning]:
        """Reap ended processes; yield their last messages, and then their exits."""
        exits = [(key, self.spawner.reap(key)) for key in keys]
        if any(returncode >= 0 for _, returncode in exits):
            yield from self._read(LAST_WORDS_S)
        for key, returncode in exits:
            del self._living[key]
            self._control.forget(key)
            yield ev.Exited(*key, returncode)


def _in_flight(member: Member, steps: LearnerSteps) -> int:
    """Return the steps in a simulator's segment that its trainer has neither learned from nor counted as dropped."""
    segment = Segment.open(member.segment.file)
    try:
        blocks = Blocks(segment)
        counted = 0 < blocks.released <= steps.commits
        return 0 if counted else steps_in_flight(blocks, steps.rollouts_learned)
    finally:
        segment.close()
