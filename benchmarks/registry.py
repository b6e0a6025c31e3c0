"""Lists the benchmarks by name: suites of papers and of this program, and comparisons with other programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.request import shipped
from launch import bench


@dataclass(frozen=True)
class Benchmark(bench.Suite):
    """A suite of this package."""

    takes_engine: bool = False
    """Whether it runs topologies with several nodes, which the request's engine starts."""

    def path(self) -> str:
        """Return the path of its topology, in this package or among the shipped ones."""
        return shipped(self.topology or "pong.yaml")


DBA3C_CATCH = "dba3c-catch.yaml"
ONE_LEARNER = (
    *("mode=sync", "learners.count=1", "learners.quorum=0", "parameter_servers.count=0"),
    *("simulators.envs=8", "algorithm.horizon=64", "total_steps=300_000"),
)
"""Keys with which one learner has a batch as large as those of all learners together."""
ONE_GAME = (*ONE_LEARNER, "total_steps=10_000_000")
"""The same, with so many steps that a run lasts for all its seconds; Catch would be over before an evaluation."""
FOUR_NODES = (
    *("nodes.count=4", "learners.count=4", "learners.quorum=4"),
    "env.id=benchmarks.environments:SlowCatch",
)
"""Keys with which several nodes are faster although they share cores: their environments sleep in every step."""
LONGER = ("total_steps=300_000",)
"""Keys with which Catch is learned with batches of more steps."""
DQN = (
    *("algorithm.name=dqn", "algorithm.target_every_steps=1_000", "algorithm.epsilon_steps=20_000"),
    *("model.activation=tanh", "optimizer.schedule=constant", "replay.batch_size=32", "replay.ratio=8"),
)
"""Keys of DQN on Catch, written here so that entries of the ledger do not depend on defaults."""
VALUES = (*DQN, "total_steps=80_000")
"""Keys with which DQN learns Catch."""
LONGER_VALUES = (*DQN, "total_steps=120_000")
"""Keys with which DQN learns Catch with large minibatches."""
SECONDARY = (
    *LONGER_VALUES,
    "evaluator.count=1",
    "evaluator.every_steps=5_000",
    "evaluator.episodes=50",
    "evaluator.greedy=true",
)
"""Keys with which DQN learns Catch and two networks are evaluated."""


def _catch(function: str, *keys: str, sets_modes: bool = False) -> Benchmark:
    return Benchmark(f"benchmarks.papers.{function}", "catch-defaults.yaml", keys=keys, sets_modes=sets_modes)


def _on_nodes(function: str, *keys: str) -> Benchmark:
    return Benchmark(f"benchmarks.papers.{function}", DBA3C_CATCH, keys=keys, takes_engine=True)


def _paper(function: str, topology: str | None = None, sets_modes: bool = False, takes_keys: bool = True) -> Benchmark:
    return Benchmark(f"benchmarks.papers.{function}", topology, sets_modes=sets_modes, takes_keys=takes_keys)


PAPERS: Mapping[str, Benchmark] = {
    "paac-time": _paper("paac:paac_time", "atari/paac.yaml"),
    "paac-environments": _paper("paac:paac_environments", "paac-catch.yaml"),
    "paac-games": _paper("tables_of_games:paac_games", "paac-minatar.yaml", sets_modes=True),
    "learners": _paper("learners:learners"),
    "learners-dqn": _paper("learners:learners_dqn"),
    "scaling": _paper("scaling:scaling"),
    "a2c-environments": _catch("accelerated:a2c_environments", *LONGER),
    "a3c-learners": _catch("accelerated:a3c_learners", *LONGER, sets_modes=True),
    "ppo-environments": _catch("accelerated:ppo_environments", *LONGER),
    "dqn-batches": _catch("accelerated:dqn_batches", *LONGER_VALUES),
    "policy-gradients": _catch("accelerated:policy_gradients", *LONGER, sets_modes=True),
    "pong": _paper("accelerated:pong", "pong-fast.yaml"),
    "update-rules": _catch("accelerated:update_rules", *VALUES),
    "secondary-learner": _catch("accelerated:secondary_learner", *SECONDARY),
    "fast-dqn": _paper("fast_dqn:fast_dqn"),
    "fast-dqn-learning": _catch("fast_dqn:fast_dqn_learning", *VALUES),
    "fast-dqn-games": _paper("fast_dqn:fast_dqn_games", "atari/fast-dqn.yaml"),
    "fast-dqn-repeated": _catch("fast_dqn:fast_dqn_repeated", *DQN, "total_steps=10_000"),
    "gossip": _catch("gossip:gossip", sets_modes=True),
    "gala-games": _paper("tables_of_games:gala_games", "gala-minatar.yaml", sets_modes=True),
    "experience": _catch("experience:experience", sets_modes=True),
    "asynchrony": _catch("asynchrony:asynchrony"),
    "dba3c-sizes": _paper("dba3c_sizes:dba3c_sizes"),
    "dba3c-servers": _paper("dba3c_servers:dba3c_servers"),
    "dba3c-async": _on_nodes("dba3c_learning:dba3c_async"),
    "dba3c-rate": _on_nodes("dba3c_learning:dba3c_rate", *ONE_LEARNER),
    "dba3c-epsilon": _on_nodes("dba3c_learning:dba3c_epsilon", *ONE_LEARNER),
    "dba3c-nodes": _on_nodes("dba3c_nodes:dba3c_nodes", *FOUR_NODES),
    "dba3c-games": _on_nodes("dba3c_games:dba3c_games", *ONE_GAME),
    "dba3c-stragglers": _paper("dba3c_stragglers:dba3c_stragglers"),
    "dba3c-prediction": _paper("dba3c_prediction:dba3c_prediction", takes_keys=False),
}
"""Suites of figures and tables of papers."""
PROGRAM: Mapping[str, Benchmark] = {
    "handover": Benchmark("benchmarks.suites.handover:handover", topology=None, takes_keys=False),
    "nodes": Benchmark("benchmarks.suites.nodes:nodes", sets_modes=True),
    "stragglers": Benchmark("benchmarks.suites.stragglers:stragglers"),
    "prediction": Benchmark("benchmarks.suites.prediction:prediction", sets_modes=True),
    "desk": Benchmark("benchmarks.suites.desk:desk", topology=None, takes_keys=False),
    "guard": Benchmark("benchmarks.suites.guard:guard", topology=None, takes_keys=False),
}
"""Suites of this program alone."""
SUITES: Mapping[str, Benchmark] = {**PAPERS, **PROGRAM}
PEERS: Mapping[str, Benchmark] = {
    "pong": Benchmark("benchmarks.peers.works:peers_pong", topology=None, takes_keys=False),
    "sb3": Benchmark("benchmarks.peers.works:peers_sb3", topology=None, takes_keys=False),
    "cartpole": Benchmark("benchmarks.peers.works:peers_cartpole", topology=None, takes_keys=False),
    "dqn": Benchmark("benchmarks.peers.works:peers_dqn", topology=None, takes_keys=False),
    "sac": Benchmark("benchmarks.peers.works:peers_sac", topology="pendulum-sac.yaml"),
    "control": Benchmark("benchmarks.peers.works:peers_control", topology="control/halfcheetah-ppo.yaml"),
    "neighbours": Benchmark("benchmarks.peers.neighbours:neighbours", topology="atari/paac.yaml"),
    "scores": Benchmark("benchmarks.peers.scores:scores", topology=None, takes_names=True),
}
"""Comparisons with other programs, named by the work or by the program."""
VISIT = Benchmark("benchmarks.gpu.visit:gpu", topology=None)
"""The measurements on a machine with a GPU."""
MEASURING: Mapping[str, bench.Suite] = {**bench.SUITES, **SUITES}
"""All suites that a claim may name, including those of ``actorlearn bench``."""
