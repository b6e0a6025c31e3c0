"""The engine ``local``: all nodes on this machine, to try out a topology with several nodes."""

from __future__ import annotations

from launch.engines.specs import EngineSpec

LOCAL = EngineSpec(name="local", made_by="launch.engines.shells:ShellEngine", here=True)
