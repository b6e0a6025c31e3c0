"""Defaults of a topology: what a key is when the file and the command line leave it out.

Reads the raw mapping of a topology and returns it with every missing key filled in, by kind of environment (``atari``
for ids that start with ALE/, ``vector`` for everything else: cheap environments with small observations) and by
algorithm and optimizer. What is already there, right or wrong, is left alone. Refuses to judge: checking is
``launch/topology/load.py``.
"""

from __future__ import annotations

import copy
import math
import re
from typing import Any

from msgspec import NODEFAULT

from launch.machine.cores import usable_cores
from launch.topology import defaults_replay as values
from launch.topology.keys import keys_of
from launch.topology.schema import Topology

Tree = dict[str, Any]

# Atari with a2c: PAAC as its authors released it (Clemente et al. 2017; configs/atari/paac.yaml says where the paper
# differs). The learning rate is 0.0007 x 32 environments and belongs to loss_scale 5 and these 32 environments.
ATARI: Tree = {
    "total_steps": 80_000_000,
    "env": {
        "preset": "paac",
        "frame_skip": 4,
        "stack": 4,
        "noop_max": 30,
        "repeat_action_probability": 0.0,
        "full_action_space": False,
        "fire_on_reset": False,
        "time_limit_steps": 0,
    },
    "model": {"name": "nips"},
    "algorithm": {
        "horizon": 5,
        "discount": 0.99,
        "entropy_cost": 0.02,
        "value_cost": 0.25,
        "loss_scale": 5.0,
        "reward_clip": 1.0,
        "life_loss_terminal": False,
        "bootstrap_on_truncation": False,
    },
    "optimizer": {"name": "rmsprop"},
    "evaluator": {"count": 0, "every_steps": 1_000_000, "episodes": 30, "greedy": False, "noop_max": 30},
}

# Cheap vector environments with a2c. Measured on CartPole-v1, 400,000 steps, seeds 1 to 4, mean of the last 100 games:
# these numbers 500, 500, 500, 500; with entropy_cost 0.01: 471, 261, 475, 458 (a policy that must stay random drops the
# pole); with learning rate 1e-3 as well: 499, 500, 492, 205.
VECTOR: Tree = {
    "total_steps": 500_000,
    "env": {
        "preset": "dqn",
        "frame_skip": 1,
        "stack": 1,
        "noop_max": 0,
        "repeat_action_probability": 0.0,
        "full_action_space": False,
        "fire_on_reset": False,
        "time_limit_steps": 0,
    },
    "model": {"name": "mlp"},
    "algorithm": {
        "horizon": 16,
        "discount": 0.99,
        "entropy_cost": 0.0,
        "value_cost": 0.5,
        "loss_scale": 1.0,
        "reward_clip": None,
        "life_loss_terminal": False,
        "bootstrap_on_truncation": True,
    },
    "optimizer": {"name": "adam"},
    "evaluator": {"count": 0, "every_steps": 50_000, "episodes": 20, "greedy": True, "noop_max": 0},
}

_SHARED: Tree = {
    "learning_rate_final": 0.0,
    "decay": 0.99,
    "betas": [0.9, 0.999],
    "epsilon_hat": False,
    "centered": False,
}

# An optimizer that is not the kind's own gets numbers of its own: PAAC's rate under Adam would destroy the network.
OPTIMIZERS: dict[tuple[str, str], Tree] = {
    ("atari", "rmsprop"): _SHARED
    | {"learning_rate": 0.0224, "epsilon": 0.1, "epsilon_inside_root": True, "accumulator_init": 1.0, "clip_norm": 3.0},
    ("atari", "adam"): _SHARED
    | {"learning_rate": 1e-3, "epsilon": 1e-5, "epsilon_inside_root": False, "accumulator_init": 0.0, "clip_norm": 0.5},
    ("vector", "rmsprop"): _SHARED
    | {"learning_rate": 1e-3, "epsilon": 1e-5, "epsilon_inside_root": True, "accumulator_init": 0.0, "clip_norm": 0.5},
    ("vector", "adam"): _SHARED
    | {"learning_rate": 3e-3, "epsilon": 1e-5, "epsilon_inside_root": False, "accumulator_init": 0.0, "clip_norm": 0.5},
}

# Espeholt et al. 2018, appendix G; epsilon inside the root and the accumulator from 1 as TensorFlow has them.
OPTIMIZERS_OF: dict[tuple[str, str, str], Tree] = {
    ("atari", "impala", "rmsprop"): _SHARED
    | {"learning_rate": 6e-4, "epsilon": 0.01, "epsilon_inside_root": True, "accumulator_init": 1.0, "clip_norm": 40.0},
}

# What an algorithm wants otherwise than a2c. Atari with ppo: 32 environments x 64 steps, minibatches of 256, a clip of
# 0.1 as in Schulman et al. 2017. Atari with impala: Espeholt et al. 2018, appendix G, where 32 trajectories of 20 steps
# make a batch, losses are sums, and the squared error counts a half of 0.5. Cheap environments, seeds 1 and 2, steps to
# a mean of 475 on CartPole-v1 and of 0.95 on Catch (100,000 steps): ppo 91,000 and 99,000, 18,000 and 22,000; impala
# 165,000 and 190,000 on CartPole-v1; all four stay at 500 to the end. On Catch both seeds of impala stay near 0.6,
# which is not V-trace's doing: with entropy_cost 0 a policy gives up a column and never catches there again, a2c's the
# same. In these two an entropy_cost of 0.05 that falls to 0 ends at 1.0 within 75,000 steps, one of 0.02 does not, and
# on CartPole-v1 either collapses; more seeds were not tried.
ALGORITHMS: dict[tuple[str, str], Tree] = {
    ("atari", "ppo"): {
        "algorithm": {
            "horizon": 64,
            "entropy_cost": 0.01,
            "value_cost": 0.5,
            "loss_scale": 1.0,
            "gae_lambda": 0.95,
            "ratio_clip": 0.1,
            "normalize_advantage": True,
            "epochs": 4,
            "minibatches": 8,
        },
        "optimizer": {"name": "adam"},
    },
    ("vector", "ppo"): {
        "algorithm": {
            "horizon": 64,
            "gae_lambda": 0.95,
            "normalize_advantage": True,
            "epochs": 8,
            "minibatches": 4,
        },
        "optimizer": {"learning_rate": 1e-3},
    },
    ("atari", "impala"): {
        "algorithm": {"horizon": 20, "entropy_cost": 0.01, "loss_scale": 1.0, "reduction": "sum"},
        "simulators": {"blocks": 2},
    },
    ("vector", "impala"): {"simulators": {"blocks": 2}},
}

KINDS = {"atari": ATARI, "vector": VECTOR}
ENVIRONMENTS_IN_ALL = {"atari": 32, "vector": 16}
MOST_SIMULATORS = {"atari": 8, "vector": 2}
"""More processes than this do not help cheap environments: their step costs less than the hand-over."""


def kind_of(env_id: object) -> str:
    """Say which table of defaults an environment id uses."""
    return "atari" if isinstance(env_id, str) and env_id.startswith("ALE/") else "vector"


BY_CORES = (("simulators", "count"), ("trainer", "threads"))
"""Keys whose defaults follow the cores; ``launch/plan/auto.py`` says why they are what they are."""


def resolve(raw: Tree) -> Tree:
    """Return a copy of ``raw`` with every missing key filled in, some by the cores of this machine."""
    resolved: Tree = copy.deepcopy(raw)
    kind = kind_of(section(resolved, "env").get("id"))
    algorithm = str(section(resolved, "algorithm").get("name", _everywhere()["algorithm"]["name"]))
    cores = usable_cores()
    _fill(resolved, {"simulators": _simulators(resolved, kind, cores)})
    _fill(resolved, {"algorithm": _horizon(resolved)})
    _fill(resolved, (ALGORITHMS | values.ALGORITHMS).get((kind, algorithm), {}))
    _fill(resolved, {"atari": values.ATARI, "vector": values.VECTOR}[kind])
    _fill(resolved, KINDS[kind])
    _fill(resolved, _everywhere())
    _name_wrappers(section(resolved, "env"))
    _fill(resolved, {"inference": {"count": 0 if section(resolved, "inference").get("device") == "cpu" else 1}})
    own_optimizer = KINDS[kind]["optimizer"]["name"]
    chosen = str(section(resolved, "optimizer").get("name"))
    numbers = OPTIMIZERS.get((kind, chosen), OPTIMIZERS[kind, own_optimizer])
    numbers = (OPTIMIZERS_OF | values.OPTIMIZERS).get((kind, algorithm, chosen), numbers)
    _fill(resolved, {"optimizer": numbers})
    for key in ("ratio_clip", "entropy_cost"):
        _fill(resolved, {"algorithm": {f"{key}_final": section(resolved, "algorithm").get(key)}})
    _fill(resolved, {"trainer": {"threads": _trainer_threads(resolved, kind, cores)}})
    _fill(resolved, {"name": _name(resolved)})
    return resolved


def section(tree: Tree, key: str) -> Tree:
    """Return the mapping under ``key``, or an empty one where something else stands there."""
    found = tree.get(key)
    return found if isinstance(found, dict) else {}


def _fill(tree: Tree, defaults: Tree) -> None:
    """Add what is missing; never replace, also not a wrong value, which is then reported as written."""
    for key, default in defaults.items():
        if key not in tree:
            tree[key] = copy.deepcopy(default)
        elif isinstance(default, dict) and isinstance(tree[key], dict):
            _fill(tree[key], default)


def _everywhere() -> Tree:
    """What a key is in every topology that does not say otherwise (``schema.py``)."""
    sections = {name: keys_of(key.section) if key.section else {} for name, key in keys_of(Topology).items()}
    of_sections: Tree = {
        name: {inner: key.default for inner, key in keys.items() if key.default is not NODEFAULT}
        for name, keys in sections.items()
        if keys
    }
    return of_sections | {n: key.default for n, key in keys_of(Topology).items() if key.default is not NODEFAULT}


def _name_wrappers(env: Tree) -> None:
    """A wrapper's name alone will do."""
    wrappers = env.get("wrappers")
    if isinstance(wrappers, list):
        named = ({"name": wrapper} if isinstance(wrapper, str) else wrapper for wrapper in wrappers)
        env["wrappers"] = [{"kwargs": {}, **wrapper} if isinstance(wrapper, dict) else wrapper for wrapper in named]


def _simulators(tree: Tree, kind: str, cores: float) -> Tree:
    """Spread the kind's environments over the cores: a power of two of processes, so that none are left over.

    Of several learners each gets its share of cores and environments. A part of a core that a quota leaves is worth a
    process: they wait for the trainer, and while they play each has a core until the quota is used up. PAAC on two
    cores with a quota of 1.5 made 2,330 steps/s with two simulators and 1,650 with one.
    """
    given, learners = section(tree, "simulators"), _learners(tree)
    count = _positive(given.get("count")) or max(
        n for n in (1, 2, 4, 8) if n <= max(1, min(math.ceil(cores) // learners, MOST_SIMULATORS[kind]))
    )
    groups = _positive(given.get("groups")) or 1
    envs = max(1, ENVIRONMENTS_IN_ALL[kind] // learners // count)
    return {"count": count, "envs": max(groups, envs // groups * groups)}


def _horizon(tree: Tree) -> Tree:
    """The horizon at which all environments together give ``batch_steps``; nothing where that is not asked for."""
    steps = _positive(section(tree, "algorithm").get("batch_steps"))
    count, envs = (_positive(section(tree, "simulators").get(key)) for key in ("count", "envs"))
    return {"horizon": max(1, steps // (count * envs))} if steps and count and envs else {}


def _trainer_threads(tree: Tree, kind: str, cores: float) -> int:
    """All whole cores for convolutions, because simulators wait meanwhile; one for networks too small to share out.

    Also where a replay is learned from while simulators play, who have little to do: on two cores Fast DQN made 250
    steps/s with two threads, and 188 with one. Not the part of a core that a quota leaves: when it is used up all
    threads wait for the one that is stopped. PAAC under a quota of 1.5 cores made 1,900 steps/s with two threads and
    2,330 with one.
    """
    return min(max(1, math.floor(cores) // _learners(tree)), 8) if kind == "atari" else 1


def _learners(tree: Tree) -> int:
    return _positive(section(tree, "learners").get("count")) or 1


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _name(tree: Tree) -> str:
    """Name the run after its environment and algorithm: ALE/Pong-v5 with a2c is Pong-v5-a2c."""
    parts = [str(section(tree, key).get(field, "")) for key, field in (("env", "id"), ("algorithm", "name"))]
    words = [re.sub(r"[^A-Za-z0-9._-]+", "-", re.split(r"[/:]", part)[-1]).strip("-.") for part in parts]
    return "-".join(word for word in words if word)[:64] or "run"
