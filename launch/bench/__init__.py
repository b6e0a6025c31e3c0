"""Benchmarks: each suite measures this machine, its cases interleaved, and reports machine, versions and commit.

Rooms, each on those after it: ``peers`` (other programs on the same work), ``papers`` (tables and figures of a paper),
``suites`` (this program alone), ``measure`` (runs and their parts, cases in turn, reports).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from launch.bench.measure.report import Report
    from launch.bench.measure.request import Request


@dataclass(frozen=True)
class Suite:
    """A suite: its function, and a line that says what it measures."""

    function: str
    """Module below ``launch.bench``, imported at first use."""
    topology: str | None = "pong.yaml"
    """Shipped topology it measures when none is named; None: it brings its own, or measures nothing."""
    reads_runs: bool = False
    """It measures nothing and reads runs, named where the others have topology and overrides."""
    sets_modes: bool = False
    """It runs a topology in several modes, and gives each run the overrides that its mode reads."""

    def load(self) -> Callable[[Request], Report]:
        """Import it; its docstring's first line says what it measures."""
        module, _, name = self.function.partition(":")
        return cast("Callable[[Request], Report]", getattr(import_module(f"launch.bench.{module}"), name))


SUITES: Mapping[str, Suite] = {
    "sampling": Suite("suites.sampling:sampling"),
    "training": Suite("suites.training:training"),
    "handover": Suite("suites.handover:handover", topology=None),
    "peers": Suite("peers.works:peers", topology=None),
    "peers-cheap": Suite("peers.works:peers_cheap", topology=None),
    "peers-dqn": Suite("peers.works:peers_dqn", topology=None),
    "peers-sac": Suite("peers.works:peers_sac", topology="pendulum-sac.yaml"),
    "sb3": Suite("peers.works:sb3", topology=None),
    "time-to-score": Suite("suites.time_to_score:time_to_score"),
    "learners": Suite("suites.learners:learners", topology=None),
    "learners-dqn": Suite("suites.learners:learners_dqn", topology=None),
    "fast-dqn": Suite("papers.fast_dqn:fast_dqn", topology=None),
    "dba3c-sizes": Suite("papers.dba3c_sizes:dba3c_sizes", topology=None),
    "scaling": Suite("suites.scaling:scaling", topology=None),
    "nodes": Suite("suites.nodes:nodes", sets_modes=True),
    "stragglers": Suite("suites.stragglers:stragglers"),
    "dba3c-prediction": Suite("papers.dba3c_prediction:dba3c_prediction", topology=None),
    "prediction": Suite("suites.prediction:prediction", sets_modes=True),
    "neighbours": Suite("peers.neighbours:neighbours", topology="atari/paac.yaml"),
    "gossip": Suite("papers.gossip:gossip", topology="catch.yaml", sets_modes=True),
    "memory": Suite("suites.memory:memory"),
    "replay": Suite("suites.replay:replay", topology=None),
    "gpu": Suite("suites.gpu:gpu"),
    "games": Suite("papers.games:games_of", topology=None, reads_runs=True),
}
"""Name on the command line -> suite."""
