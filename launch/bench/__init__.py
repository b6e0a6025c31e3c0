"""Benchmarks: each suite measures this machine, its cases interleaved, and reports machine, versions and commit.

Rooms, each on those after it: ``claims`` (what papers claim, judged by suites), ``gpu`` (a visit to a machine with
one), ``peers`` (other programs on the same work), ``papers`` (tables and figures of a paper), ``suites`` (this program
alone), ``measure`` (runs and their parts, cases in turn, reports).
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
    keys: tuple[str, ...] = ()
    """Overrides of that topology, before those of the request."""
    takes_engine: bool = False
    """It runs topologies of several nodes, which the request's engine starts."""
    draws_seeds: bool = False
    """It draws the seeds of its runs from the clock, or is given them."""
    in_parts: bool = False
    """It is a list of parts, of which a request names some."""
    seconds: float = 15.0
    """Length of one measurement where none is given."""

    def load(self) -> Callable[[Request], Report]:
        """Import it; its docstring's first line says what it measures."""
        module, _, name = self.function.partition(":")
        return cast("Callable[[Request], Report]", getattr(import_module(f"launch.bench.{module}"), name))


DBA3C_CATCH = "bench/dba3c-catch.yaml"
ONE_LEARNER = (
    *("mode=sync", "learners.count=1", "learners.quorum=0", "parameter_servers.count=0"),
    *("simulators.envs=8", "algorithm.horizon=64", "total_steps=300_000"),
)
"""Keys by which one learner has the batch of many: the mean of their gradients of one version is its gradient."""
ONE_GAME = (*ONE_LEARNER, "total_steps=10_000_000")
"""Keys by which a run lasts as long as its seconds: Catch's steps are over before evaluations begin."""
FOUR_NODES = (
    *("nodes.count=4", "learners.count=4", "learners.quorum=4"),
    "env.id=launch.bench.measure.slow_catch:SlowCatch",
)
"""Keys by which nodes add speed though they share cores: their simulators sleep in every step."""
LONGER = ("total_steps=300_000",)
"""Keys by which Catch is learned with batches of more steps than its own."""
VALUES = ("total_steps=80_000",)
"""Keys by which Catch is learned by value learning."""
LONGER_VALUES = ("total_steps=120_000",)
"""The same with minibatches of many steps."""

SUITES: Mapping[str, Suite] = {
    "sampling": Suite("suites.sampling:sampling"),
    "training": Suite("suites.training:training"),
    "handover": Suite("suites.handover:handover", topology=None),
    "emulators": Suite("suites.emulators:emulators"),
    "peers": Suite("peers.works:peers", topology=None),
    "peers-cheap": Suite("peers.works:peers_cheap", topology=None),
    "peers-dqn": Suite("peers.works:peers_dqn", topology=None),
    "peers-sac": Suite("peers.works:peers_sac", topology="pendulum-sac.yaml"),
    "peers-control": Suite("peers.works:peers_control", topology="control/halfcheetah-ppo.yaml"),
    "sb3": Suite("peers.works:sb3", topology=None),
    "time-to-score": Suite("suites.time_to_score:time_to_score", draws_seeds=True),
    "learners": Suite("suites.learners:learners", topology=None),
    "learners-dqn": Suite("suites.learners:learners_dqn", topology=None),
    "paac-time": Suite("papers.paac:paac_time", topology="atari/paac.yaml"),
    "paac-environments": Suite("papers.paac:paac_environments", topology="bench/paac-catch.yaml"),
    "a2c-environments": Suite("papers.accelerated:a2c_environments", topology="catch.yaml", keys=LONGER),
    "a3c-learners": Suite("papers.accelerated:a3c_learners", topology="catch.yaml", keys=LONGER, sets_modes=True),
    "ppo-environments": Suite("papers.accelerated:ppo_environments", topology="catch.yaml", keys=LONGER),
    "dqn-batches": Suite("papers.accelerated:dqn_batches", topology="catch.yaml", keys=LONGER_VALUES),
    "policy-gradients": Suite(
        "papers.accelerated:policy_gradients", topology="catch.yaml", keys=LONGER, sets_modes=True
    ),
    "pong": Suite("papers.accelerated:pong", topology="pong-fast.yaml"),
    "update-rules": Suite("papers.accelerated:update_rules", topology="catch.yaml", keys=VALUES),
    "secondary-learner": Suite(
        "papers.accelerated:secondary_learner",
        topology="catch.yaml",
        keys=(*LONGER_VALUES, "evaluator.every_steps=5_000", "evaluator.episodes=50", "evaluator.greedy=true"),
    ),
    "fast-dqn": Suite("papers.fast_dqn:fast_dqn", topology=None),
    "fast-dqn-learning": Suite("papers.fast_dqn:fast_dqn_learning", topology="catch.yaml", keys=VALUES),
    "fast-dqn-games": Suite("papers.fast_dqn:fast_dqn_games", topology="atari/fast-dqn.yaml"),
    "fast-dqn-repeated": Suite(
        "papers.fast_dqn:fast_dqn_repeated", topology="catch.yaml", keys=("total_steps=10_000",)
    ),
    "dba3c-sizes": Suite("papers.dba3c_sizes:dba3c_sizes", topology=None),
    "dba3c-servers": Suite("papers.dba3c_servers:dba3c_servers", topology=None),
    "dba3c-async": Suite("papers.dba3c_learning:dba3c_async", topology=DBA3C_CATCH, takes_engine=True),
    "dba3c-rate": Suite("papers.dba3c_learning:dba3c_rate", DBA3C_CATCH, keys=ONE_LEARNER, takes_engine=True),
    "dba3c-epsilon": Suite("papers.dba3c_learning:dba3c_epsilon", DBA3C_CATCH, keys=ONE_LEARNER, takes_engine=True),
    "dba3c-nodes": Suite("papers.dba3c_nodes:dba3c_nodes", DBA3C_CATCH, keys=FOUR_NODES, takes_engine=True),
    "dba3c-games": Suite("papers.dba3c_games:dba3c_games", DBA3C_CATCH, keys=ONE_GAME, takes_engine=True),
    "scaling": Suite("suites.scaling:scaling", topology=None),
    "nodes": Suite("suites.nodes:nodes", sets_modes=True),
    "stragglers": Suite("suites.stragglers:stragglers"),
    "dba3c-stragglers": Suite("papers.dba3c_stragglers:dba3c_stragglers", topology=None),
    "dba3c-prediction": Suite("papers.dba3c_prediction:dba3c_prediction", topology=None),
    "prediction": Suite("suites.prediction:prediction", sets_modes=True),
    "neighbours": Suite("peers.neighbours:neighbours", topology="atari/paac.yaml"),
    "gossip": Suite("papers.gossip:gossip", topology="catch.yaml", sets_modes=True),
    "gala-games": Suite("papers.tables_of_games:gala_games", topology="bench/gala-minatar.yaml", sets_modes=True),
    "paac-games": Suite("papers.tables_of_games:paac_games", topology="bench/paac-minatar.yaml", sets_modes=True),
    "experience": Suite("papers.experience:experience", topology="catch.yaml", sets_modes=True),
    "asynchrony": Suite("papers.asynchrony:asynchrony", topology="catch.yaml"),
    "memory": Suite("suites.memory:memory"),
    "desk": Suite("suites.desk:desk", topology=None),
    "replay": Suite("suites.replay:replay", topology=None),
    "gpu": Suite("gpu.visit:gpu", topology=None, in_parts=True, seconds=5.0),
    "families": Suite("suites.families:families", topology=None, reads_runs=True),
    "games": Suite("papers.games:games_of", topology=None, reads_runs=True),
}
"""Name on the command line -> suite."""
