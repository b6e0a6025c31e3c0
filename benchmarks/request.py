"""The request that a benchmark gets, and the paths of the topologies in this package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from launch import bench
from launch.bench import SuiteRequest

TOPOLOGIES = Path(__file__).with_name("topologies")


@dataclass(frozen=True)
class BenchmarkRequest(SuiteRequest):
    """A request with fields that only benchmarks of this package use."""

    engine: str | None = None
    """Name of the engine that starts the nodes, for benchmarks that use one."""
    keys: Path | None = None
    """Folder of the keys with which nodes join."""
    minutes: float | None = None
    """For ``gpu``: minutes in which all parts must end; None: each part has only its own limit."""


def shipped(name: str) -> str:
    """Return the path of a topology in this package, or else of a shipped one; raises FailedError if there is none."""
    own = TOPOLOGIES / name
    return str(own) if own.is_file() else bench.shipped(name)
