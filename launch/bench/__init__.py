"""Benchmarks of this machine: each suite measures its cases in turn, and reports machine, versions and commit.

``suites`` has the measurements; ``measure`` has their common parts: runs, cases in turn, reports. A checkout also has
the package ``benchmarks``, which compares with papers and other programs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from launch.bench.measure.request import shipped

if TYPE_CHECKING:
    from launch.bench.measure.report import SuiteReport


@dataclass(frozen=True)
class Suite:
    """A suite: its function, and which arguments of the command it takes."""

    function: str
    """Module and name; imported at first use."""
    topology: str | None = "pong.yaml"
    """Shipped topology measured by default; None: the suite has its own topologies, or measures nothing."""
    reads_runs: bool = False
    """Whether it reads runs instead of measuring; runs then take the place of topology and overrides."""
    sets_modes: bool = False
    """Whether it runs a topology in several modes, and gives each run the overrides that its mode reads."""
    keys: tuple[str, ...] = ()
    """Overrides of that topology, before those of the request."""
    draws_seeds: bool = False
    """Whether it takes seeds; without them it draws them from the clock."""
    in_parts: bool = False
    """Whether it has parts that a request can select, and a device to measure."""

    def path(self) -> str:
        """Return the path of its topology; of pong.yaml if the suite has its own topologies."""
        return shipped(self.topology or "pong.yaml")

    def load(self) -> Callable[[Any], SuiteReport]:
        """Import and return its function, which takes a SuiteRequest; `bench` lists its docstring's first line."""
        module, _, name = self.function.partition(":")
        return cast("Callable[[Any], SuiteReport]", getattr(import_module(module), name))


SUITES: Mapping[str, Suite] = {
    "sampling": Suite("launch.bench.suites.sampling:sampling"),
    "training": Suite("launch.bench.suites.training:training"),
    "emulators": Suite("launch.bench.suites.emulators:emulators"),
    "replay": Suite("launch.bench.suites.replay:replay", topology=None),
    "memory": Suite("launch.bench.suites.memory:memory"),
    "neighbours": Suite("launch.bench.suites.neighbours:neighbours", topology="atari/paac.yaml"),
    "time-to-score": Suite("launch.bench.suites.time_to_score:time_to_score", draws_seeds=True),
    "gpu": Suite("launch.bench.suites.gpu:gpu", topology=None, in_parts=True),
    "games": Suite("launch.bench.suites.games:games_of", topology=None, reads_runs=True),
}
"""Name on the command line -> suite."""
