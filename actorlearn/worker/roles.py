"""Roles: the tasks of the processes of a run. Each role is described by a spec and registered by an entry point.

    [project.entry-points."actorlearn.roles"]
    auditor = "my_package.auditor_role:SPEC"

A role consists of two files. One is the module that its processes run. The other has its spec, the settings of such a
process, the keys of the role in a topology, and its plan: the number of processes and the settings of each. Built-in
roles use entry points too. Nothing here imports torch or ``launch``: a spec names its module, which the process itself
imports, and its plan, which the supervisor imports. The plans of built-in roles are in ``launch/plan/roles.py``.

A role from a plug-in takes part in a run if the topology names it: ``roles: {auditor: {count: 1}}``.
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
    """The keys of a role in a topology, under ``roles.<name>``; a role with further keys subclasses this."""

    count: Annotated[
        int, Meta(ge=0, le=64, description="processes of each learner, or of the run, as the role's scope says")
    ] = 1
    hang_s: Hang = 30.0
    spin_s: Spin = 600.0


@dataclass(frozen=True, kw_only=True)
class TaskSpec(PlugIn):
    """Description of a process that answers one question and ends.

    ``made_by`` names the function that it runs, which returns the answer or raises an exception.
    """

    settings: type[msgspec.Struct]
    """Type of the settings of such a process, with which the function is called."""


@dataclass(frozen=True, kw_only=True)
class RoleSpec(PlugIn):
    """Description of a role, whose processes the supervisor starts, watches and restarts.

    ``made_by`` names the function that such a process runs until it ends: ``my_package.auditor:run``.
    """

    settings: type[ProcessSettings]
    """Type of the settings of such a process, with which the function is called."""
    planned_by: str | None = None
    """The role's plan (`RolePlan`), as package.module:NAME; None for a built-in role, whose plan is in ``launch``."""
    section: type[RoleSection] | None = RoleSection
    """Type of the role's keys in a topology; None if the topology has its own section for it, as for built-in roles."""
    scope: Literal["learner", "run"] = "learner"
    """Whether a process works for a learner or for the run; in the first case it is attached and detached with the
    learner's trainer."""
    needed: Literal["each", "one", "none"] = "each"
    """Processes of the role without which its learner, or the run, cannot continue: each, at least one, or none."""
    latency_bound: bool = True
    """Whether such a process waits for others many times a second, so that late wakeups slow it down most."""
    woken: bool = True
    """Whether such a process has a wakeup, by which other processes wake it."""
    learns: bool = False
    """Whether the role is the learner's trainer: it saves, continues from its checkpoints, and the run ends with it."""
    makes_rows: bool = False
    """Whether the role produces experience. Its processes are then listed as members, and each incarnation has a
    segment of blocks. Shapes are checked at the start, a process can be attached or detached alone, and its rows are
    learned before its segment is freed."""
    spread: bool = False
    """Whether processes of the run are placed on its nodes in turn; if not, all are on the first learner's node."""
    scores: bool = False
    """Whether a process keeps running after training, to score the final weights."""

    @property
    def drains(self) -> bool:
        """Whether an order ends such a process after it has finished its current work; a signal ends the others."""
        return self.learns or self.makes_rows


class CommonSettings(TypedDict):
    """The fields of `ProcessSettings`, which are passed to the settings of each role: ``**common``."""

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
    """Plan of a role: the number of its processes and the settings of each. Pure; used by ``launch/plan``.

    The type variables stand for ``Topology``, ``Plan`` and ``Start`` of ``launch/plan/plan.py``, which no process of a
    run imports. In the topology, every ``auto`` is replaced by a value.
    """

    settings: Callable[[PlanT, CommonSettings, StartT], ProcessSettings]
    """Returns the settings of an incarnation of a process; called before each start. The plan has topology,
    description, addresses, resumption, and ``devices`` by role; the action that starts the incarnation has its id,
    ``process``."""
    count: Callable[[TopologyT], int] | None = None
    """Returns the number of processes of each learner or of the run, by the role's scope; None: the ``count`` of its
    section."""
    does: Callable[[TopologyT], str] = lambda _: ""
    """Returns the description of such a process that `actorlearn check` prints."""
    threads: Callable[[TopologyT], int] = lambda _: 1
    """Returns the number of threads of such a process that compute at the same time."""
    device: Callable[[TopologyT], str] = lambda _: "cpu"
    """Returns the device on which such a process computes, by torch's name."""


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
        """Return the roles that can be loaded, in the order of start.

        The roles of a learner come first: its trainer, then those that make no rows, then those that make rows. The
        roles of the run follow, the evaluator first, so that other roles do not change anything for it.
        """
        return tuple(sorted(super().specs(), key=lambda role: (role.scope == "run", not role.learns, role.makes_rows)))


ROLES = Roles("role", "actorlearn.roles", RoleSpec)

TASKS = {
    task.name: task
    for task in (
        TaskSpec(name="describe", made_by="actorlearn.tasks.describe:run", settings=DescribeSettings),
        TaskSpec(name="evaluate", made_by="actorlearn.tasks.evaluate:run", settings=EvaluateSettings),
        TaskSpec(name="export", made_by="actorlearn.tasks.export:run", settings=ExportSettings),
        TaskSpec(name="measure", made_by="actorlearn.tasks.measure:run", settings=MeasureSettings),
        TaskSpec(name="spaces", made_by="actorlearn.tasks.spaces:run", settings=SpacesSettings),
    )
}
