"""Roles: what the processes of a run are for. Each is described by a spec and comes in by an entry point.

    [project.entry-points."actorlearn.roles"]
    auditor = "my_package.auditor_role:SPEC"

A role is two files: the module that its processes run, and its spec with the settings of such a process, the keys
of the role in a topology, and the plan: the number of processes and the settings of each. The shipped roles use entry
points too. Nothing here imports torch or ``launch``: a spec names its module, which the process itself imports, and its
plan, which the supervisor imports. The plans of the shipped roles are in ``launch/plan/roles.py``.

A role that is not shipped takes part in a run whose topology names it: ``roles: {auditor: {count: 1}}``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Generic, Literal, TypedDict, TypeVar

import msgspec
from msgspec import Meta

from actorlearn.address import Ipc, Shm
from actorlearn.registry import PlugIn, PlugIns
from actorlearn.wire.identity import ProcessId
from actorlearn.worker.settings import (
    DescribeSettings,
    EvaluateSettings,
    EvaluatorSettings,
    ExportSettings,
    InferenceSettings,
    LaggedSettings,
    MeasureSettings,
    ParameterServerSettings,
    ProcessSettings,
    SimulatorSettings,
    SpacesSettings,
    TrainerSettings,
)

Hang = Annotated[
    float,
    Meta(
        ge=2,
        le=1_000_000,
        description="a process hangs if it gives no sign of life and uses no processor time for this long",
    ),
]
Spin = Annotated[
    float,
    Meta(
        ge=2,
        le=1_000_000,
        description="a process hangs if it gives no sign of life for this long, although it uses processor time",
    ),
]


class RoleSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of a role in a topology, under ``roles.<name>``; a role with keys of its own subclasses this."""

    count: Annotated[
        int, Meta(ge=0, le=64, description="processes of each learner, or of the run, as the role's scope says")
    ] = 1
    hang_s: Hang = 30.0
    spin_s: Spin = 600.0


@dataclass(frozen=True, kw_only=True)
class TaskSpec(PlugIn):
    """A process that answers one question on its standard output and ends; ``made_by`` names the function it runs."""

    settings: type[msgspec.Struct]
    """Settings of such a process, with which the function is called."""


@dataclass(frozen=True, kw_only=True)
class RoleSpec(PlugIn):
    """A role of the processes of a run, which the supervisor starts, watches and starts again.

    ``made_by`` names the function that such a process runs, to its end: ``my_package.auditor:run``.
    """

    settings: type[ProcessSettings]
    """Settings of such a process, with which the function is called."""
    planned_by: str | None = None
    """The role's plan (`RolePlan`), as package.module:NAME; None for a shipped role, whose plan is in ``launch``."""
    section: type[RoleSection] | None = RoleSection
    """The role's keys in a topology; None where the topology has a section of its own for it, as for shipped roles."""
    scope: Literal["learner", "run"] = "learner"
    """Unit that a process works for; a process of a learner is attached and detached with the learner's trainer."""
    needed: Literal["each", "one", "none"] = "each"
    """Processes of the role that its learner, or the run, cannot go on without: each of them, at least one, or none."""
    latency_bound: bool = True
    """Whether it waits for others many times a second, and so loses most when it is woken late."""
    woken: bool = True
    """Whether it has a wakeup, by which other processes wake it."""
    learns: bool = False
    """Whether it is the learner's trainer: it saves, continues from its checkpoints, and the run ends with it."""
    makes_rows: bool = False
    """Whether it produces experience: it is listed as a member, each incarnation with a segment of blocks. Its shapes
    are checked at start, it may be attached or detached alone, and its rows are learned before its segment is freed."""
    spread: bool = False
    """Whether processes of the run stand on its nodes in turn, and not all where the first learner is."""
    scores: bool = False
    """Whether it keeps running after training, to score the final weights."""

    @property
    def drains(self) -> bool:
        """Whether it leaves by an order, after finishing its current work; other processes are ended by a signal."""
        return self.learns or self.makes_rows


class CommonSettings(TypedDict):
    """The fields of `ProcessSettings`, as the settings of each role take them: ``**common``."""

    id: ProcessId
    run_id: str
    control: Ipc
    progress: Shm
    index: int
    seed: int
    threads: int


TopologyT = TypeVar("TopologyT")
PlanT = TypeVar("PlanT")
StartT = TypeVar("StartT")


@dataclass(frozen=True, kw_only=True)
class RolePlan(Generic[TopologyT, PlanT, StartT]):
    """Plan of a role: how many processes a topology means, and the settings of each. Pure; used by ``launch/plan``.

    The type variables stand for ``Topology``, ``Plan`` and ``Start`` of ``launch/plan/plan.py``, which no process of a
    run imports. The topology is without any ``auto``.
    """

    settings: Callable[[PlanT, CommonSettings, StartT], ProcessSettings]
    """Settings of an incarnation of a process, made before each start. The plan has topology, description, addresses,
    resumption, and ``devices`` by role; the action that starts the incarnation has its id, ``process``."""
    count: Callable[[TopologyT], int] | None = None
    """Processes of each learner, or of the run, as the role's scope says; None: as its section says."""
    does: Callable[[TopologyT], str] = lambda _: ""
    """Words that `actorlearn check` shows about such a process."""
    threads: Callable[[TopologyT], int] = lambda _: 1
    """Threads of such a process that compute at the same time."""
    device: Callable[[TopologyT], str] = lambda _: "cpu"
    """Device that such a process computes on, as torch names it."""


TRAINER = RoleSpec(
    name="trainer",
    made_by="actorlearn.processes.trainer:run",
    settings=TrainerSettings,
    section=None,
    learns=True,
)
INFERENCE = RoleSpec(
    name="inference",
    made_by="actorlearn.processes.inference:run",
    settings=InferenceSettings,
    section=None,
)
SIMULATOR = RoleSpec(
    name="simulator",
    made_by="actorlearn.processes.simulator:run",
    settings=SimulatorSettings,
    section=None,
    needed="one",
    makes_rows=True,
)
EVALUATOR = RoleSpec(
    name="evaluator",
    made_by="actorlearn.processes.evaluator:run",
    settings=EvaluatorSettings,
    section=None,
    scope="run",
    needed="none",
    latency_bound=False,
    woken=False,
    scores=True,
)

PARAMETER_SERVER = RoleSpec(
    name="parameter_server",
    made_by="actorlearn.processes.parameter_server:run",
    settings=ParameterServerSettings,
    section=None,
    scope="run",
    woken=False,
    spread=True,
)


class Roles(PlugIns[RoleSpec]):
    """The roles of processes, in the order in which they are started."""

    def specs(self) -> tuple[RoleSpec, ...]:
        """Return those that can be loaded: of a learner its trainer first, and those that make rows after those that
        answer them; then those of the run, of which the evaluator is first, so that others change nothing for it.
        """
        return tuple(sorted(super().specs(), key=lambda role: (role.scope == "run", not role.learns, role.makes_rows)))


ROLES = Roles("role", "actorlearn.roles", RoleSpec)

TASKS = {
    task.name: task
    for task in (
        TaskSpec(name="describe", made_by="actorlearn.tasks.describe:run", settings=DescribeSettings),
        TaskSpec(name="evaluate", made_by="actorlearn.tasks.evaluate:run", settings=EvaluateSettings),
        TaskSpec(name="export", made_by="actorlearn.tasks.export:run", settings=ExportSettings),
        TaskSpec(name="lagged", made_by="actorlearn.tasks.lagged:run", settings=LaggedSettings),
        TaskSpec(name="measure", made_by="actorlearn.tasks.measure:run", settings=MeasureSettings),
        TaskSpec(name="spaces", made_by="actorlearn.tasks.spaces:run", settings=SpacesSettings),
    )
}
