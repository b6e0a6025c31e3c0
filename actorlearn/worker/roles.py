"""Roles: what the processes of a run are for. Each is described by a spec and comes in by an entry point.

    [project.entry-points."actorlearn.roles"]
    auditor = "my_package.auditor_role:SPEC"

A role is two files: the module that its processes run, and its spec with the settings of such a process, the keys
of the role in a topology, and the plan: the number of processes and the settings of each. The shipped roles use entry
points too. Nothing here imports torch or ``launch``: a spec names its module, which the process itself imports, and its
plan, which the supervisor imports.

A role that is not shipped takes part in a run whose topology names it: ``roles: {auditor: {count: 1}}``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol

import msgspec
from msgspec import Meta

from actorlearn.registry import PlugIn, PlugIns
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
    planned_by: str
    """The role's plan, as package.module:NAME; its processes never import it."""
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


class SettingsFor(Protocol):
    """Function that makes the settings of one incarnation of a process; called before each start.

    The types of its arguments are named in ``launch/plan/roles.py``, for functions that annotate them.
    """

    def __call__(self, briefing: Any, base: dict[str, Any], incarnation: Any, /) -> ProcessSettings:
        """Return the settings.

        ``briefing`` is what they follow from (``Briefing``): topology, description, addresses, placement, resumption;
        ``base`` the fields of `ProcessSettings`, to be passed on as ``**base``; and ``incarnation`` the process's id
        with what differs from one incarnation to the next (``Incarnation``).
        """


@dataclass(frozen=True, kw_only=True)
class RolePlan:
    """Plan of a role: how many processes a topology means, and the settings of each. Pure; used by ``launch/plan``.

    A topology here is a ``launch.topology.schema.Topology`` without any ``auto``.
    """

    settings: SettingsFor
    count: Callable[[Any], int] | None = None
    """Topology -> processes of each learner, or of the run, as the role's scope says; None: as its section says."""
    does: Callable[[Any], str] = lambda _: ""
    """Topology -> words that `actorlearn check` shows about such a process."""
    threads: Callable[[Any], int] = lambda _: 1
    """Topology -> threads of it that compute at the same time."""
    device: Callable[[Any], str] = lambda _: "cpu"
    """Topology -> device it computes on, as torch names it; ``briefing.placement.of(process)`` has it."""


TRAINER = RoleSpec(
    name="trainer",
    made_by="actorlearn.processes.trainer:run",
    settings=TrainerSettings,
    planned_by="launch.plan.roles:TRAINER",
    section=None,
    learns=True,
)
INFERENCE = RoleSpec(
    name="inference",
    made_by="actorlearn.processes.inference:run",
    settings=InferenceSettings,
    planned_by="launch.plan.roles:INFERENCE",
    section=None,
)
SIMULATOR = RoleSpec(
    name="simulator",
    made_by="actorlearn.processes.simulator:run",
    settings=SimulatorSettings,
    planned_by="launch.plan.roles:SIMULATOR",
    section=None,
    needed="one",
    makes_rows=True,
)
EVALUATOR = RoleSpec(
    name="evaluator",
    made_by="actorlearn.processes.evaluator:run",
    settings=EvaluatorSettings,
    planned_by="launch.plan.roles:EVALUATOR",
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
    planned_by="launch.plan.roles:PARAMETER_SERVER",
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
