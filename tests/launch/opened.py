"""Plans and workspaces for tests: what a process is told, a workspace that is open, a loop that has not begun."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from actorlearn.wire.identity import ProcessId
from actorlearn.worker.settings import ProcessSettings
from launch.plan.addresses import Addresses
from launch.plan.placement import place
from launch.plan.plan import Plan, plan
from launch.plan.probe import Description
from launch.plan.processes import PlannedProcess
from launch.plan.resumption import Resumption
from launch.plan.roles import Briefing, Incarnation, settings_for
from launch.runtime import resume_checks
from launch.runtime.loop import Runner, open_local
from launch.runtime.workspace import Workspace
from launch.spawning.local import LocalSpawner
from launch.spawning.spawner import Spawner
from launch.supervision import events as ev
from launch.topology.load import Topology
from tests.launch.described import DESCRIPTION

NEW = Resumption(began_s=0.0)
ADDRESSES = Addresses.of_run("run-1", Path("run"), Path("/tmp/x"))


def briefing(made: Plan, addresses: Addresses = ADDRESSES, resumption: Resumption = NEW) -> Briefing:
    """The briefing, from which settings follow, of a run that is nowhere."""
    return Briefing(made.topology, made.description, made.exact, addresses, place(made.topology, [0]), resumption)


def told(made: Plan, process: str | ProcessId, incarnation: int = 0, addresses: Addresses = ADDRESSES) -> Any:
    """The settings that a process is told: one of the plan by its name, or any by its identity."""
    own = process if isinstance(process, ProcessId) else named(made.processes, process).id
    settings: ProcessSettings = settings_for(briefing(made, addresses), Incarnation(own.again(incarnation)), 0)
    return settings


def named(processes: Any, name: str) -> PlannedProcess:
    """The process of that name."""
    found: PlannedProcess = next(process for process in processes if process.name == name)
    return found


@contextmanager
def opened(
    folder: Path, topology: Topology, resume: bool = False, description: Description = DESCRIPTION
) -> Iterator[tuple[Plan, Resumption, Workspace]]:
    """A run whose ground is laid."""
    with Workspace(folder) as workspace:
        made = plan(topology, description)
        resumption = resume_checks.find_resumption(made, workspace.run_dir, resume)
        workspace.open(made, resumption)
        yield made, resumption, workspace


@contextmanager
def ready(
    folder: Path,
    topology: Topology,
    console: ev.Console | None = None,
    resume: bool = False,
    spawner: Spawner | None = None,
) -> Iterator[Runner]:
    """A run whose first process is still to be started."""
    with opened(folder, topology, resume) as (made, resumption, workspace):
        starts = spawner or LocalSpawner(workspace.run_dir / "logs", workspace.addresses.run_id)
        yield Runner(made, resumption, workspace, open_local(made, resumption, workspace, starts), console)
