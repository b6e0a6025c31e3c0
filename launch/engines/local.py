"""The engine ``local``: all processes of a run on this machine, as children of one guardian."""

from __future__ import annotations

from pathlib import Path

from launch.engines.specs import EngineSpec
from launch.spawning.local import LocalSpawner
from launch.spawning.spawner import Spawner

LOCAL = EngineSpec(name="local", made_by="launch.engines.local:open_spawner")


def open_spawner(run_dir: Path, run_id: str) -> Spawner:
    """Open the spawner of a run; its processes write to ``logs/`` in the run's folder."""
    return LocalSpawner(run_dir / "logs", run_id)
