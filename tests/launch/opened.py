"""Helpers: the settings of a process, an open workspace, and a runner whose loop has not begun."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from actorlearn.wire.identity import ProcessId
from actorlearn.worker.settings import ProcessSettings
from launch.plan.addresses import Addresses
from launch.plan.plan import Plan, PlannedProcess, Start
from launch.plan.probe import Description
from launch.plan.roles import settings_for
from launch.runtime.loop import Runner, open_local, plan_run
from launch.runtime.workspace import Workspace
from launch.spawning.spawner import Spawner
from launch.supervision import events as ev
from launch.topology.load import Topology
from tests.launch.described import DESCRIPTION

ADDRESSES = Addresses.of_run("run-1", Path("run"), Path("/tmp/x"))


def told(made: Plan, process: str | ProcessId, incarnation: int = 0, addresses: Addresses = ADDRESSES) -> Any:
    """Return the settings that a process receives; ``process``: a name in the plan, or any identity."""
    own = process if isinstance(process, ProcessId) else named(made.processes, process).id
    there = replace(made, addresses=addresses, pins=(0,) if made.topology.simulators.pin else ())
    settings: ProcessSettings = settings_for(there, Start(own.again(incarnation), 0))
    return settings


def named(processes: Any, name: str) -> PlannedProcess:
    """Return the process of that name."""
    found: PlannedProcess = next(process for process in processes if process.name == name)
    return found


@contextmanager
def opened(
    folder: Path, topology: Topology, resume: bool = False, description: Description = DESCRIPTION
) -> Iterator[tuple[Plan, Workspace]]:
    """Yield the plan and the open workspace of a run that has no processes yet."""
    with Workspace(folder) as workspace:
        made = plan_run(topology, description, workspace, resume)
        workspace.open(made)
        workspace.write_down(made)
        yield made, workspace


@contextmanager
def ready(
    folder: Path,
    topology: Topology,
    console: ev.Console | None = None,
    resume: bool = False,
    spawner: Spawner | None = None,
) -> Iterator[Runner]:
    """Yield the runner of a run whose first process is still to be started."""
    with opened(folder, topology, resume) as (made, workspace):
        starts = spawner or Spawner(workspace.run_dir / "logs", workspace.addresses.run_id)
        yield Runner(made, workspace, open_local(made, workspace, starts), console)
