"""The request that a benchmark is given, and the topologies that benchmarks bring along."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from launch import bench
from launch.bench import SuiteRequest

TOPOLOGIES = Path(__file__).with_name("topologies")


@dataclass(frozen=True)
class BenchmarkRequest(SuiteRequest):
    """A request with the words that only benchmarks of this package take."""

    engine: str | None = None
    """Engine that starts the nodes, for benchmarks that take one."""
    keys: Path | None = None
    """Folder of the head's keys, for nodes on other machines."""
    minutes: float | None = None
    """Time in which every part that is begun is over, for the visit to a GPU machine; None: no limit but its own."""


def shipped(name: str) -> str:
    """Return the path of a topology of this package, or else of one that is shipped; raises FailedError."""
    own = TOPOLOGIES / name
    return str(own) if own.is_file() else bench.shipped(name)
