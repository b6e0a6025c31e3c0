"""The roles of processes, one row each: which module runs it, what it is told, and how a run depends on it.

A new role is a row here and its module; ``launch/plan/roles.py`` says how many of it a topology has and what each is
told. Nothing here imports torch: modules are named, and imported by the process itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from actorlearn.worker.settings import (
    AloneSettings,
    DescribeSettings,
    EvaluateSettings,
    EvaluatorSettings,
    InferenceSettings,
    ProcessSettings,
    SimulatorSettings,
    TrainerSettings,
)


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """A process that answers one question on its standard output and ends."""

    name: str
    module: str
    """Has ``run(settings)``."""
    settings: type[msgspec.Struct]


@dataclass(frozen=True, kw_only=True)
class RoleSpec(TaskSpec):
    """A role of the processes of a run, which the supervisor starts, watches and starts again."""

    settings: type[ProcessSettings]
    scope: Literal["learner", "run"] = "learner"
    """Whom it works for. What works for a learner comes and goes with its trainer."""
    needed: Literal["each", "one", "none"] = "each"
    """Without whom a learner, or the run, cannot go on: each of this role that it has, at least one, or none."""
    in_step: bool = True
    """Whether it waits for others many times a second, and so loses most when it is woken late."""
    woken: bool = True
    """Whether others wake it, by a wakeup of its own."""
    learns: bool = False
    """Whether it is its learner: it saves, goes on from its checkpoints, and the run ends with it."""
    makes_rows: bool = False
    """Whether it is listed as a member, with a segment of blocks for each of its incarnations: it must be built as the
    run expects, may be attached and detached by itself, and what it has made is learned from before it is forgotten."""
    scores: bool = False
    """Whether it goes on when all is learned, to play with the final weights."""

    @property
    def drains(self) -> bool:
        """Whether it is told by orders to leave, and finishes what it has begun; others are ended by a signal."""
        return self.learns or self.makes_rows


TRAINER = RoleSpec(name="trainer", module="actorlearn.processes.trainer", settings=TrainerSettings, learns=True)
INFERENCE = RoleSpec(name="inference", module="actorlearn.processes.inference", settings=InferenceSettings)
SIMULATOR = RoleSpec(
    name="simulator",
    module="actorlearn.processes.simulator",
    settings=SimulatorSettings,
    needed="one",
    makes_rows=True,
)
EVALUATOR = RoleSpec(
    name="evaluator",
    module="actorlearn.processes.evaluator",
    settings=EvaluatorSettings,
    scope="run",
    needed="none",
    in_step=False,
    woken=False,
    scores=True,
)

ROLES = {role.name: role for role in (TRAINER, INFERENCE, SIMULATOR, EVALUATOR)}
"""In the order in which processes are started. The evaluator is last, so that it changes nothing for the others."""

TASKS = {
    task.name: task
    for task in (
        TaskSpec(name="describe", module="actorlearn.tasks.describe", settings=DescribeSettings),
        TaskSpec(name="evaluate", module="actorlearn.tasks.evaluate", settings=EvaluateSettings),
        TaskSpec(name="measure", module="actorlearn.tasks.measure", settings=AloneSettings),
    )
}
