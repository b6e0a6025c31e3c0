"""Segments of a run on this machine, made and removed as learners and simulators come and go."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack

from actorlearn.memory.fields import Field
from actorlearn.memory.rollout import make_segment
from actorlearn.memory.shared import Segment
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import Member
from launch.plan.addresses import Addresses
from launch.plan.probe import Description
from launch.plan.roles import server_of
from launch.plan.segments import block_shape, learner_segments, run_segments
from launch.topology.load import Topology


class Segments:
    """Segments in the run's directory of shared memory, which must exist; they are removed with it."""

    def __init__(self, topology: Topology, description: Description, addresses: Addresses) -> None:
        """Make those that a run has once; raises SharedMemoryFull."""
        self._topology, self._addresses = topology, addresses
        self._block_shape = block_shape(topology, description)
        self._of_learners = {kind: fields for kind, (fields, _) in learner_segments(topology, description).items()}
        """Fields of each kind of segment that every learner has one of."""
        self._made: dict[str, Segment] = {}
        for name, fields, _ in run_segments(topology, description):
            self._create(name, fields)

    @property
    def progress(self) -> Segment:
        """The segment with the heartbeats of all processes."""
        return self._made["progress"]

    def create_learners(self, learners: Iterable[int]) -> None:
        """Make learners' segments, before their processes start; raises SharedMemoryFull, with none of them made."""
        with ExitStack() as undo:
            for learner in learners:
                undo.callback(self.drop_learner, learner)
                for kind, fields in self._of_learners.items():
                    self._create(f"{kind}-{learner}", fields)
            undo.pop_all()

    def drop_learner(self, learner: int) -> None:
        """Remove a learner's segments; a process that has them mapped keeps its view."""
        for kind in self._of_learners:
            if segment := self._made.pop(f"{kind}-{learner}", None):
                segment.unlink()
                segment.close()

    def create_member(self, simulator: ProcessId) -> Member:
        """Make the segment of one incarnation. A dead incarnation may go on writing to its own, to no effect."""
        made = self.member(simulator)
        make_segment(made.segment.file, self._block_shape, simulator.number).close()
        return made

    def member(self, simulator: ProcessId) -> Member:
        """Return the member that one incarnation of a simulator is: its blocks, its wakeup and its server."""
        return Member(
            id=simulator,
            segment=self._addresses.blocks(simulator),
            wakeup=self._addresses.wakeup(simulator),
            server=server_of(self._topology, simulator).number,
        )

    def drop_member(self, member: Member) -> None:
        """Remove an ended incarnation's segment, once its trainer has learned from its complete rollouts."""
        member.segment.file.unlink(missing_ok=True)

    def _create(self, name: str, fields: list[Field]) -> None:
        self._made[name] = Segment.create(self._addresses.shm / name, fields)
