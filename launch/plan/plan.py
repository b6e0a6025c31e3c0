"""The plan of a run: its processes, segments, sockets and choices, as data. ``launch/plan/planning.py`` makes it.

The plan holds everything that the settings of a process are derived from. A node gets a plan of its own, with the
addresses of its machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from actorlearn.envs.specs import ENVIRONMENTS
from actorlearn.memory.progress import ROWS
from actorlearn.memory.rollout import BlockShape, block_fields
from actorlearn.memory.shared import segment_bytes
from actorlearn.parameters.mixing import GraphSettings
from actorlearn.registry import open_to
from actorlearn.wire.identity import ProcessId
from actorlearn.worker.handshake import shape_to_match
from actorlearn.worker.roles import ROLES, RoleSpec
from launch.machine.cores import Cores
from launch.plan import pace
from launch.plan.addresses import Addresses
from launch.plan.auto import Choice, cpu_flags, misfits, never_reached
from launch.plan.probe import Description
from launch.plan.segments import block_shape, learner_segments, run_segments, server_segments
from launch.topology.changes import Changes, changes_task
from launch.topology.load import Topology
from launch.topology.modes import asked, mode

if TYPE_CHECKING:
    from actorlearn.envs.specs import EnvSettings as Env
else:
    Env = open_to(ENVIRONMENTS)


class NodeMessage(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Base of the events and actions that the head of a run and its nodes send each other, encoded by msgspec."""


class Start(NodeMessage, frozen=True):
    """The order to start or restart a process; it is answered by Spawned or NotSpawned."""

    process: ProcessId
    index: Annotated[int, Meta(ge=0, lt=ROWS)]
    """Row of the process in the progress segment (``actorlearn/memory/progress.py``)."""
    resume: bool = False
    """Whether a trainer starts from the newest checkpoint."""
    env: Env | None = None
    """Environment of a simulator, if it differs from the topology's."""

    @property
    def name(self) -> str:
        """Name of the process; a restart does not change it."""
        return self.process.name

    @property
    def incarnation(self) -> int:
        """Number of restarts of the process before this start."""
        return self.process.incarnation


@dataclass(frozen=True)
class PlannedProcess:
    """One process of the run; it stays the same object when the process is restarted."""

    id: ProcessId
    """Identity of the process at its first start."""
    index: int
    """Row in the progress segment (``actorlearn/memory/progress.py``); the row of a process that has left is reused."""
    env: Env | None = None
    """Environment of a simulator that was attached with changes; None for the topology's."""

    @property
    def name(self) -> str:
        """Name of the process; a restart does not change it."""
        return self.id.name

    @property
    def role(self) -> RoleSpec:
        """Spec of the process's role."""
        return ROLES.spec(self.id.role)

    def start(self, incarnation: int, resume: bool = False) -> Start:
        """Return the order that starts the process; ``incarnation``: number of its restarts so far."""
        return Start(self.id.again(incarnation), self.index, resume, self.env)


@dataclass(frozen=True)
class PlannedSegment:
    """A segment of shared memory that the run will need, as `actorlearn check` lists it."""

    name: str
    bytes: int
    what: str
    """Its contents, in words."""


@dataclass(frozen=True)
class Resumption:
    """The checkpoints and the time from which a resumed run continues; for a new run, only ``began_s`` is set."""

    began_s: float = 0.0
    """CLOCK_MONOTONIC at the start of the run, in seconds; for a resumed run, now minus the time it took so far."""
    resumed: bool = False
    """Whether the run continues from checkpoints."""
    env_steps: int = 0
    """Environment steps of the checkpoint that the run continues from, the newest of several; 0 for a new run."""
    checkpoints: tuple[str, ...] = ()
    """Checkpoints whose weights the learners continue from, each once, as paths relative to the run folder."""
    goes_on_from: Mapping[int, Path] = field(default_factory=dict)
    """Learner -> checkpoint from which its simulators continue exactly; empty if simulators begin new games."""
    begins_anew: str = ""
    """Reason why simulators of a resumed run begin new games; empty if they do not."""
    changed: Changes = field(default_factory=dict)
    """Keys of the topology that differ from those with which the run was last started."""
    stretched: str = ""
    """Warning about schedules that end at other steps than before the resume; empty if there are none."""
    damaged: tuple[str, ...] = ()
    """Warnings about newer, damaged checkpoints that the trainers do not report themselves."""
    left_out: Mapping[int, str] = field(default_factory=dict)
    """Learner that is not resumed, because it was detached or had failed long before -> name of its trainer."""
    left: tuple[Mapping[str, int], ...] = ()
    """Counters of each learner that the run had before and that is not resumed, such as steps and games."""
    rows: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Trainer of a learner that continues from its own checkpoint -> its metrics at this checkpoint: counts, scores."""
    learners_so_far: int = 0
    """Number of learners that the run has had. The next attached learner gets this number, and has no checkpoints."""

    @property
    def other_task(self) -> bool:
        """Whether a key of the environment was changed, so that scores cannot be compared with earlier ones."""
        return changes_task(self.changed)


@dataclass(frozen=True)
class Plan:
    """The processes, devices and shared memory of a run, computed before it starts; supervisor and nodes follow it."""

    topology: Topology
    """The topology of the run, without any ``auto``."""
    description: Description
    exact: bool
    """Whether checkpoints allow an exact resume."""
    addresses: Addresses
    resumption: Resumption
    cores: Cores
    pins: tuple[int, ...]
    """Cores to which simulators are pinned, in turn; empty if they are not pinned."""
    devices: Mapping[str, str]
    """Role -> device on which the role's processes compute, by torch's name, such as cpu or cuda:0."""
    processes: tuple[PlannedProcess, ...]
    """Processes at the start of the run, in the order in which they are started."""
    choices: tuple[Choice, ...] = ()
    """Values chosen for ``auto``, and defaults that depend on the number of cores, each with its reason."""

    @property
    def block_shape(self) -> BlockShape:
        """Shape of the shared memory into which each simulator writes rollouts."""
        return block_shape(self.topology, self.description)

    @property
    def segments(self) -> list[PlannedSegment]:
        """Segments at the start of the run, with their sizes."""
        topology, simulators = self.topology, self.topology.simulators
        kinds = learner_segments(topology, self.description).items()
        several = [(f"{kind}-{learner}", *made) for learner in range(topology.learners.count) for kind, made in kinds]
        shared = [*several, *run_segments(topology, self.description), *server_segments(topology, self.description)]
        rows = f"{simulators.groups} group(s) x {simulators.blocks} block(s) x {topology.algorithm.horizon + 1} rows"
        what = f"{rows} x {simulators.envs // simulators.groups} environments"
        size = segment_bytes(block_fields(self.block_shape))
        return [
            *(PlannedSegment(name, segment_bytes(fields), said) for name, fields, said in shared),
            *(PlannedSegment(process.name, size, what) for process in self.processes if process.role.makes_rows),
        ]

    @property
    def bytes_total(self) -> int:
        """Bytes of shared memory that the run needs at its start."""
        return sum(segment.bytes for segment in self.segments)

    @property
    def misfits(self) -> list[str]:
        """Warnings about settings that do not suit this machine or the length of the run, each with a remedy."""
        slow = pace.warning(self.topology, self.description.step_s, self.cores.usable)
        of_machine = misfits(self.topology, cpu_flags(), self.cores.usable)
        return [*of_machine, *filter(None, [slow]), *never_reached(self.topology)]

    @property
    def expectation(self) -> str:
        """How often an update is expected with a slow environment, in words; empty for other environments."""
        return pace.expectation(self.topology, self.description.step_s, self.cores.usable)

    @property
    def expected_shape(self) -> dict[str, str]:
        """Values, by key, that a simulator must report when it connects; a simulator with other values is refused."""
        horizon, simulators = self.topology.algorithm.horizon, self.topology.simulators
        return shape_to_match(self.topology.env.id, self.description, horizon, simulators.blocks, simulators.groups)

    @property
    def graph(self) -> GraphSettings | None:
        """Graph of the learners that mix their weights (mode gossip); None in other modes."""
        return mode(self.topology).graph(asked(self.topology))

    @property
    def trainers(self) -> list[ProcessId]:
        """Trainers at the start of the run."""
        return [process.id for process in self.processes if process.role.learns]

    def core(self, process: ProcessId) -> int | None:
        """Return the core to which a process is pinned; None if it is not pinned."""
        pinned = ROLES.spec(process.role).makes_rows and self.pins
        return self.pins[process.number % len(self.pins)] if pinned else None

    def mailbox(self, process: PlannedProcess) -> str:
        """Return the endpoint at which a trainer receives messages of other learners; empty if it has none."""
        if not process.role.learns:
            return ""
        exchange = mode(self.topology).exchange(process.id.learner, 0, asked(self.topology), self.addresses)
        return exchange.listens.endpoint if exchange.listens else ""

    @property
    def sockets(self) -> list[str]:
        """Endpoints of the run's ipc sockets, which only their owner can access."""
        return [self.addresses.control.endpoint, *filter(None, map(self.mailbox, self.processes))]
