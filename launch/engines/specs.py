"""Engines start the processes of a run. Each is described by a spec and registered by an entry point.

    [project.entry-points."actorlearn.engines"]
    my-engine = "my_package.my_engine:SPEC"

``actorlearn run TOPOLOGY --engine my-engine`` then has the loop start, signal and reap processes through the `Spawner`
that the engine opens. The shipped one, ``local``, starts them on this machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Self, cast

from actorlearn.registry import PlugIn, PlugIns
from launch.spawning.spawner import Spawner

Open = Callable[[Path, str], Spawner]
"""Opens the spawner of a run, given its folder (absolute) and its id; raises OSError. No process is started yet."""


@dataclass(frozen=True, kw_only=True)
class EngineSpec(PlugIn):
    """An engine, before it is opened; ``made_by`` names a class or function that can be called as an `Open`."""

    methods = ("spawn", "ended", "reap", "kill", "show_stack", "reap_orphans", "close")
    described_in = "launch/spawning/spawner.py"

    def load(self) -> Open:
        """Import the class or function that opens a spawner; raises ValueError, one line."""
        return cast("Open", super().load())

    @classmethod
    def of(cls, name: str, found: Any, module: ModuleType) -> Self:
        """Describe a class of spawners that brings no spec."""
        return cls(name=name, made_by=name)


ENGINES = PlugIns("engine", "actorlearn.engines", EngineSpec)
