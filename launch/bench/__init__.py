"""Benchmarks of this machine: each suite measures its cases in turn, and reports machine, versions and commit.

``suites`` has the measurements, ``measure`` what they share: runs and their parts, cases in turn, reports. A checkout
has the package ``benchmarks`` too, which measures papers and other programs with it.
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
    """A suite: its function, and which words of the command it takes."""

    function: str
    """Module and name, imported at first use."""
    topology: str | None = "pong.yaml"
    """Shipped topology it measures when none is named; None: it brings its own, or measures nothing."""
    reads_runs: bool = False
    """It measures nothing and reads runs, named where the others have topology and overrides."""
    sets_modes: bool = False
    """It runs a topology in several modes, and gives each run the overrides that its mode reads."""
    keys: tuple[str, ...] = ()
    """Overrides of that topology, before those of the request."""
    draws_seeds: bool = False
    """It draws the seeds of its runs from the clock, or is given them."""
    in_parts: bool = False
    """It has parts, of which a request names some, and measures a device that a request names."""

    def path(self) -> str:
        """Return the path of its topology, of pong.yaml for one that brings its own."""
        return shipped(self.topology or "pong.yaml")

    def load(self) -> Callable[[Any], SuiteReport]:
        """Import its function, which takes a SuiteRequest; the docstring's first line says what it measures."""
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
