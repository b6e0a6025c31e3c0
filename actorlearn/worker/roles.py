"""Roles: the kinds of processes of a run, such as trainer and simulator. A plug-in can add a role.

A role consists of two modules. The first has the function that its processes run. The second has the role's spec
(`RoleSpec`), the settings of such a process, the role's keys in a topology, and its plan (`RolePlan`): how many
processes there are, and the settings of each. The spec is registered by an entry point, also for built-in roles:

    [project.entry-points."actorlearn.roles"]
    auditor = "my_package.auditor_role:SPEC"

A run has processes of a plug-in's role if its topology names the role: ``roles: {auditor: {count: 1}}``.

This module imports neither torch nor ``launch``. A spec only names the function, which the process imports, and the
plan, which the supervisor imports. The plans of built-in roles are in ``launch/plan/roles.py``.
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
        description="a process hangs if it gives no sign of life and uses no processor time for this long; it is then "
        "killed and started again",
    ),
]
Spin = Annotated[
    float,
    Meta(
        ge=2,
        le=1_000_000,
        description="a process hangs if it gives no sign of life for this long, although it uses processor time; it is "
        "then killed and started again",
    ),
]


class RoleSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of a role in a topology, under ``roles.<name>``; a role with further keys subclasses this."""

    count: Annotated[
        int,
        Meta(ge=0, le=64, description="number of processes, for each learner or for the run, as the role's scope says"),
    ] = 1
    hang_s: Hang = 30.0
    spin_s: Spin = 600.0


@dataclass(frozen=True, kw_only=True)
class TaskSpec(PlugIn):
    """Description of a task: a process that computes one answer for the supervisor or a command, and ends.

    ``made_by`` names the function that it runs. The function returns the answer, or raises an exception.
    """

    settings: type[msgspec.Struct]
    """Type of the function's only argument, the settings of the process."""


@dataclass(frozen=True, kw_only=True)
class RoleSpec(PlugIn):
    """Description of a role, that is, of a kind of process that the supervisor starts, watches and restarts.

    ``made_by`` names the function that a process of this role runs until it ends: ``my_package.auditor:run``.
    """

    settings: type[ProcessSettings]
    """Type of the function's only argument, the settings of the process."""
    planned_by: str | None = None
    """The role's plan (`RolePlan`), as package.module:NAME; None for a built-in role, whose plan is in ``launch``."""
    section: type[RoleSection] | None = RoleSection
    """Type of the role's keys in a topology, under ``roles.<name>``; None for built-in roles, which have sections of
    their own."""
    scope: Literal["learner", "run"] = "learner"
    """Whether each process works for one learner or for the whole run. Processes of a learner are attached to a run,
    and detached from it, together with the learner's trainer."""
    needed: Literal["each", "one", "none"] = "each"
    """How many of the role's processes the learner (or the run) needs to continue: each of them, at least one, or none.
    A process that will be restarted counts."""
    latency_bound: bool = True
    """Whether a process waits for other processes many times in a second. It then asks Linux for short time slices."""
    woken: bool = True
    """Whether a process has a named pipe by which other processes wake it."""
    learns: bool = False
    """Whether the role is the learner's trainer: it saves checkpoints and continues from them, and ends the run."""
    makes_rows: bool = False
    """Whether the role produces experience, as simulators do.

    Trainers and inference servers then treat its processes as simulators. At each start, a process gets a segment of
    shared memory for its time steps, and reports the shapes of its environments. It can be attached and detached alone.
    Its complete rollouts are learned from before the segment is removed."""
    spread: bool = False
    """Whether a run on several nodes places the role's processes on all nodes in turn. If not, all are on the node of
    the first learner."""
    scores: bool = False
    """Whether a process keeps running after training, to score the final weights."""

    @property
    def drains(self) -> bool:
        """Whether a process is ended by a message, so that it can finish its current work; others end by a signal."""
        return self.learns or self.makes_rows


class CommonSettings(TypedDict):
    """The fields of `ProcessSettings`, which a plan passes on to the settings of its role as ``**common``."""

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
    """Plan of a role: functions that return how many processes it has in a run, and the settings of each.

    ``launch/plan`` calls them. The type variables stand for ``Topology``, ``Plan`` and ``Start`` of its module
    ``plan.py``, which cannot be imported here. In the topology that they receive, every ``auto`` has been replaced by a
    value.
    """

    settings: Callable[[PlanT, CommonSettings, StartT], ProcessSettings]
    """Returns the settings of a process; called before each start of it.

    The first argument, the plan, has the attributes topology, description, addresses, resumption, and ``devices`` by
    role. The third describes the start; its attribute ``process`` is the id of the process."""
    count: Callable[[TopologyT], int] | None = None
    """Returns the number of processes of each learner, or of the run, as the role's scope says. None: the key ``count``
    of the role's section is this number."""
    does: Callable[[TopologyT], str] = lambda _: ""
    """Returns a description of the processes' work, which `actorlearn check` prints."""
    threads: Callable[[TopologyT], int] = lambda _: 1
    """Returns the number of threads that compute at the same time in a process."""
    device: Callable[[TopologyT], str] = lambda _: "cpu"
    """Returns the device on which a process computes, by torch's name."""


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
    """The registry of roles."""

    def specs(self) -> tuple[RoleSpec, ...]:
        """Return the roles that can be loaded, in the order in which their processes are started.

        The roles of a learner come first: the trainer, then roles that produce no experience, then those that do. The
        roles of the run follow, the evaluator first, so that plug-ins do not change its index.
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
