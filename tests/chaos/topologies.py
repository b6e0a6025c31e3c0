"""Topologies of runs for faults: all modes, tiny networks, and a cheap environment that can be slowed down."""

from __future__ import annotations

from tests.chaos.schedule import HANG_S, LEASE_S
from tests.chaos.witness import OPTIMIZER

TOTAL_STEPS = 1_000_000
"""More steps than a run under faults ever makes."""
HORIZON = 5
ENVS = 2

_ROLES = ("simulator", "inference", "trainer", "evaluator")

EVERYWHERE = (*("name: chaos", "env: {id: tests.chaos.rows:Row}", "model: {name: tests.chaos.witness:Witness}"),)

COMMON = (
    f"total_steps={TOTAL_STEPS}",
    *OPTIMIZER,
    f"simulators.envs={ENVS}",
    "simulators.groups=1",
    "simulators.blocks=2",
    "simulators.pin=false",
    "simulators.decorrelation_steps=0",
    "inference.count=1",
    "inference.threads=1",
    "trainer.threads=1",
    "report.every_s=0.2",
    "checkpoint.every_steps=400",
    "checkpoint.keep=2",
    "supervision.restarts=100000",
    "supervision.unsaved_restarts=100000",
    "supervision.restart_delay_s=0",
    "supervision.longest_restart_delay_s=1",
    *(f"supervision.{role}_hang_s={HANG_S:g}" for role in _ROLES),
)

ALGORITHMS = {
    "a2c": (
        *("algorithm.name=a2c", f"algorithm.horizon={HORIZON}", "algorithm.reduction=mean"),
        *("algorithm.normalize_reward=false", "model.normalize_observation=false"),
    ),
    "ppo": (
        *("algorithm.name=ppo", f"algorithm.horizon={HORIZON}", "algorithm.epochs=2", "algorithm.minibatches=2"),
        *("algorithm.normalize_advantage=false", "algorithm.normalize_reward=false"),
        "model.normalize_observation=false",
    ),
    "dqn": (
        *("algorithm.name=dqn", "algorithm.horizon=8", "algorithm.target_every_steps=400", "algorithm.n_step=1"),
        *("replay.capacity_steps=200000", "replay.batch_size=16", "replay.ratio=1.0", "replay.save=true"),
        *("replay.learning_starts_steps=64", "replay.prioritised=false"),
    ),
}

MODES = {
    "alone": ("simulators.count=2",),
    "sync": ("mode=sync", "learners.count=2", "simulators.count=1"),
    "async": ("mode=async", "learners.count=2", "simulators.count=1", "learners.chunks=4", "learners.pull_rows=0"),
    "gossip": ("mode=gossip", "learners.count=3", "simulators.count=1", "gossip.graph=ring", "gossip.max_staleness=20"),
}
OVER_NODES = (
    # both learners fit on each node, and the machine's cores do not matter
    *("learners.count=2", "nodes.count=2", f"nodes.lease_s={LEASE_S:g}", "checkpoint.every_steps=200"),
    f"supervision.parameter_server_hang_s={HANG_S:g}",
)
"""Keys of runs over nodes, which follow those of the mode on one machine."""
EVALUATED = ("evaluator.count=1", "evaluator.every_steps=300", "evaluator.episodes=4")

EPOCHS = {"a2c": 1, "ppo": 2}
"""Number of gradients that each row is in, by algorithm; with a replay the number is random."""


def split(mode: str) -> tuple[str, str]:
    """The run's mode, and its algorithm, by the mode of a trial: ``nodes-sync-a2c`` is sync over nodes."""
    kind, algorithm = mode.split("-")[-2:]
    return kind, algorithm


def over_nodes(mode: str) -> bool:
    """Whether the learners of a trial are on several nodes."""
    return mode.startswith("nodes-")


def text() -> str:
    """The topology file."""
    return "\n".join(EVERYWHERE) + "\n"


def overrides(mode: str, seed: int) -> list[str]:
    """Arguments that the command line adds."""
    kind, algorithm = split(mode)
    evaluated = EVALUATED if evaluates(mode) else ()
    shared = MODES[kind]
    if over_nodes(mode):
        shared = (*(word for word in shared if not word.startswith("learners.chunks")), *OVER_NODES)
    return [f"seed={seed}", *COMMON, *shared, *ALGORITHMS[algorithm], *evaluated]


def evaluates(mode: str) -> bool:
    """Whether a run has an evaluator."""
    return split(mode)[0] in ("alone", "async")


def learners(mode: str) -> int:
    """Number of learners."""
    return 2 if over_nodes(mode) else {"alone": 1, "sync": 2, "async": 2, "gossip": 3}[split(mode)[0]]


def learner_of(mode: str, simulator: str) -> int:
    """The learner of a simulator, by its name."""
    return 0 if split(mode)[0] == "alone" else int(simulator.rpartition("-")[2])
