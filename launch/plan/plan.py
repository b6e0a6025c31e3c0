"""The plan: which processes, sockets and segments a topology means on this machine. Data that can be printed.

Pure but for the segments it makes when told to. What it must know of environment and network is in its Description.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from actorlearn.memory.fields import Field
from actorlearn.memory.rollout import BlockShape, block_fields, make_segment
from actorlearn.memory.shared import SHM_ROOT, Segment, segment_bytes
from actorlearn.parameters.checkpoint_folders import directory_of
from actorlearn.parameters.mixing import GraphSettings
from actorlearn.parameters.modes import Places
from actorlearn.parameters.settings import AnyExchange
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import Member
from actorlearn.worker.handshake import agreed
from launch.machine.cores import Cores
from launch.plan import exactness
from launch.plan.auto import Choice, choose, cpu_flags
from launch.plan.probe import Description
from launch.plan.processes import PlannedProcess, PlannedSegment, Processes
from launch.plan.segments import block_shape, learner_segments, run_segments
from launch.topology.load import Topology, TopologyError
from launch.topology.modes import asked, mode


@dataclass
class Plan:
    """Everything about a run that follows from topology, description and machine."""

    topology: Topology
    description: Description
    run_id: str
    run_dir: Path
    shm: Path
    sockets_dir: Path
    cores: Cores
    choices: list[Choice] = field(default_factory=list)
    """What ``auto`` became in the topology, and what followed the cores."""
    left_out: list[str] = field(default_factory=list)
    """Trainers of the topology without which a resumed run begins: they were detached before."""
    resumed_at: int = 0
    """Environment steps of the checkpoint the run goes on from, the newest of several; 0 for a new run."""
    resumed_from: list[str] = field(default_factory=list)
    """The checkpoints whose weights learners go on with, each once, as paths in the run folder."""
    exact: bool = False
    """Whether checkpoints have all that a run goes on from as if it had not been interrupted."""
    goes_on_from: dict[int, Path] = field(default_factory=dict)
    """The checkpoint of each learner whose simulators go on where they stood too; none where others begin."""
    begins_anew: str = ""
    """Why simulators of a resumed run begin anew; empty where they do not."""
    damaged: list[str] = field(default_factory=list)
    """What a person should see of newer checkpoints, where trainers do not look for themselves."""
    began_s: float = 0.0
    """Where CLOCK_MONOTONIC stood at the run's time zero: before now by what a resumed run had already taken."""
    places: Processes = field(init=False)
    _segments: dict[str, Segment] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """List the processes; raises TopologyError when they are too many."""
        self.places = Processes(self.topology)

    # What is shown ---------------------------------------------------------------------------------------------

    @property
    def processes(self) -> list[PlannedProcess]:
        """All there are now, in the order in which they were planned."""
        return self.places.listed

    @property
    def block_shape(self) -> BlockShape:
        """The numbers of every simulator's segment."""
        return block_shape(self.topology, self.description)

    @property
    def segments(self) -> list[PlannedSegment]:
        """Segments at the start of the run, with their sizes."""
        s = self.topology.simulators
        rows = f"{s.groups} group(s) x {s.blocks} block(s) x {self.topology.algorithm.horizon + 1} rows"
        size = segment_bytes(block_fields(self.block_shape))
        blocks = [
            PlannedSegment(p.name, size, f"{rows} x {s.envs // s.groups} environments")
            for p in self.processes
            if p.id.role == "simulator"
        ]
        learners = range(self.topology.learners.count)
        own = [(f"{kind}-{k}", *made) for k in learners for kind, made in self._learner_segments.items()]
        return [
            *(PlannedSegment(name, segment_bytes(fields), what) for name, fields, what in (*own, *self._run_segments)),
            *blocks,
        ]

    @property
    def bytes_total(self) -> int:
        """Shared memory the run needs at its start."""
        return sum(segment.bytes for segment in self.segments)

    @property
    def sockets(self) -> list[str]:
        """Endpoints that will be listened on; all are ipc, owner-only."""
        return [self.endpoint("control"), *filter(None, map(self.mailbox, self.processes))]

    def mailbox(self, process: PlannedProcess) -> str:
        """Where a trainer listens for messages of other learners; "" where nobody sends it any."""
        listens = self.exchange(process.id.learner).listens if process.id.role == "trainer" else None
        return listens.endpoint if listens else ""

    @property
    def expected_shape(self) -> dict[str, str]:
        """What a simulator must say of itself to take part."""
        t = self.topology
        horizon, simulators = t.algorithm.horizon, t.simulators
        return agreed(t.env.id, self.description, horizon, simulators.blocks, simulators.groups)

    def weights(self, learner: int | str) -> str:
        """Path of the segment with a learner's published weights; "{}" stands for any learner."""
        return str(self.shm / f"weights-{learner}")

    def blocks(self, simulator: ProcessId) -> str:
        """Path of the segment with the blocks of one incarnation of a simulator."""
        return str(self.shm / simulator.peer)

    def rollouts(self, learner: int) -> str:
        """Path of the segment with a learner's rollouts."""
        return str(self.shm / f"rollouts-{learner}")

    def checkpoints(self, learner: int) -> Path:
        """Where a learner saves."""
        return directory_of(self.run_dir / "checkpoints", learner)

    def states(self, learner: int) -> str:
        """Folder for the snapshots of a learner's simulators, until they are in a checkpoint; "" where none are."""
        return str(self.checkpoints(learner) / ".states") if self.exact else ""

    def account(self, learner: int) -> str:
        """Path of the segment that says what became of a learner's experience."""
        return str(self.shm / f"account-{learner}")

    def replay(self, learner: int) -> str:
        """Path of the segment with a learner's replay."""
        return str(self.shm / f"replay-{learner}")

    def endpoint(self, name: str) -> str:
        """The ipc endpoint of a listener."""
        return f"ipc://{self.sockets_dir / name}.sock"

    def wakeup(self, name: str) -> str:
        """The wakeup of a process, the same for all its incarnations."""
        return f"{self.sockets_dir / name}.wakeup"

    def exchange(self, learner: int, incarnation: int = 0) -> AnyExchange:
        """How one incarnation of a learner exchanges what it learns."""
        places = Places(self.shm, self.sockets_dir, self.run_dir)
        return mode(self.topology).exchange(learner, incarnation, asked(self.topology), places)

    @property
    def graph(self) -> GraphSettings | None:
        """Who mixes whose weights; None where nobody does."""
        return mode(self.topology).graph(asked(self.topology))

    @property
    def _learner_segments(self) -> dict[str, tuple[list[Field], str]]:
        return learner_segments(self.topology, self.description)

    @property
    def _run_segments(self) -> list[tuple[str, list[Field], str]]:
        return run_segments(self.topology, self.description)

    # What is made ----------------------------------------------------------------------------------------------

    def create_segments(self) -> None:
        """Make the run's own segments; raises SharedMemoryFull. Simulators' segments are made when they join."""
        for name, fields, _ in self._run_segments:
            self._create(name, fields)
        for learner in range(self.topology.learners.count):
            self.create_learner(learner)

    def create_learner(self, learner: int) -> None:
        """Make what a learner has of its own, before its processes start; raises SharedMemoryFull."""
        for kind, (fields, _) in self._learner_segments.items():
            self._create(f"{kind}-{learner}", fields)

    def _create(self, name: str, fields: list[Field]) -> None:
        self._segments[name] = Segment.create(self.shm / name, fields)

    @property
    def progress(self) -> Segment:
        """The progress segment, for the supervisor to read."""
        return self._segments["progress"]

    def member(self, name: str, incarnation: int) -> Member:
        """Where one incarnation of a simulator is found."""
        process = self.process(name)
        own = process.id.again(incarnation)
        return Member(id=own, segment=self.blocks(own), wakeup=self.wakeup(name), server=self.server_of(own).number)

    def create_member(self, name: str, incarnation: int) -> Member:
        """Make one incarnation's segment. A dead incarnation may go on writing to its own, to no effect."""
        member = self.member(name, incarnation)
        make_segment(Path(member.segment), self.block_shape, member.id.number).close()
        return member

    def drop_member(self, member: Member) -> None:
        """Remove an ended incarnation's segment; its trainer has learned from what was complete in it."""
        Path(member.segment).unlink(missing_ok=True)

    def add_simulators(self, count: int) -> list[PlannedProcess]:
        """Plan more simulators for a running run; raises TopologyError when there is no room for them."""
        new = self.places.add_simulators(count)
        most = self.topology.simulators.count
        members = Counter(process.id.learner for process in self.processes if process.id.role == "simulator")
        if self.topology.replayed and max(members.values()) > most:
            for process in new:
                self.remove(process.name)
            raise TopologyError(
                f"attach {count} simulators: a replay has room for {most} simulators of a learner (simulators.count); "
                "detach others first, or start a run with more"
            )
        return new

    def add_learners(self, count: int) -> list[PlannedProcess]:
        """Plan more learners for a running run in mode gossip, and make the segments that each has of its own.

        Raises TopologyError when there is no room for them, and SharedMemoryFull; then nothing is left of them.
        """
        new = self.places.add_learners(count)
        try:
            for learner in sorted({process.id.learner for process in new}):
                self.create_learner(learner)
        except BaseException:
            for process in new:
                self.remove(process.name)
            raise
        return new

    def remove(self, name: str) -> None:
        """Forget a process that is gone for good: its row is free, its name is never given again."""
        process = self.process(name)
        self.places.remove(process)
        if process.id.role == "trainer":
            self._drop_learner(process.id.learner)

    def _drop_learner(self, learner: int) -> None:
        """Remove what a learner had of its own; whoever still has it mapped keeps it."""
        for kind in self._learner_segments:
            if segment := self._segments.pop(f"{kind}-{learner}", None):
                segment.unlink()
                segment.close()

    def process(self, name: str) -> PlannedProcess:
        """The planned process of that name."""
        return self.places.named(name)

    def server_of(self, simulator: ProcessId) -> ProcessId:
        """The inference server that answers a simulator; number 0 where it answers itself."""
        servers = self.topology.inference.count
        number = simulator.learner * servers + simulator.number % max(servers, 1)
        return ProcessId("inference", number, simulator.learner)


def plan(topology: Topology, run_dir: Path, run_id: str, sockets_dir: Path, description: Description) -> Plan:
    """Work out the run; changes nothing. Raises TopologyError when it has too many processes, or cannot be exact."""
    shm = SHM_ROOT / f"actorlearn-{os.getuid()}-{run_id}"
    cores = Cores.here()
    chosen, choices = choose(topology, cpu_flags(), cores)
    exact = exactness.chosen(chosen, description)
    of = (chosen, description, run_id, run_dir.absolute(), shm, sockets_dir, cores)
    return Plan(*of, [*choices, exact], exact=exact.value)
