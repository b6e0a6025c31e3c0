"""Defaults of value learning: what ``dqn`` and ``c51`` are where the file and the command line leave keys out.

Tables for ``defaults.py``, by kind of environment. Atari with dqn: Nature DQN (Mnih et al. 2015) as fast-DQN has
it (Daley and Amato 2021; configs/atari/dqn.yaml says more); with c51: Bellemare et al. 2017.
"""

from __future__ import annotations

from typing import Any

from actorlearn.algorithms.settings import ALGORITHMS as REGISTERED

Tree = dict[str, Any]

ATARI: Tree = {
    "algorithm": {
        "target_every_steps": 10_000,
        "epsilon_hold_steps": 50_000,
        "epsilon_steps": 1_000_000,
        "epsilon_eval": 0.05,
    },
    "replay": {"capacity_steps": 1_000_000, "learning_starts_steps": 50_000},
}

VECTOR: Tree = {
    "algorithm": {
        "target_every_steps": 1_000,
        "epsilon_hold_steps": 0,
        "epsilon_steps": 20_000,
        "epsilon_eval": 0.05,
    },
    "replay": {"capacity_steps": 50_000, "learning_starts_steps": 1_000},
}

_DQN_ATARI: Tree = {
    "env": {"preset": "dqn"},
    "model": {"name": "nature"},
    "algorithm": {"horizon": 4, "loss_scale": 1.0, "life_loss_terminal": True},
    "optimizer": {"name": "rmsprop"},
}
_DQN_VECTOR: Tree = {
    "algorithm": {"horizon": 4, "epsilon_final": 0.05},
    "optimizer": {"name": "adam"},
}

ALGORITHMS: dict[tuple[str, str], Tree] = {
    ("atari", "dqn"): _DQN_ATARI,
    ("atari", "c51"): _DQN_ATARI
    | {
        "algorithm": _DQN_ATARI["algorithm"] | {"epsilon_final": 0.01, "epsilon_eval": 0.001},
        "optimizer": {"name": "adam"},
    },
    ("vector", "dqn"): _DQN_VECTOR,
    ("vector", "c51"): _DQN_VECTOR,
}

_RATE: Tree = {"learning_rate": 2.5e-4, "learning_rate_final": 2.5e-4, "decay": 0.95, "betas": [0.9, 0.999]}
_RMSPROP: Tree = _RATE | {"epsilon": 0.01, "epsilon_inside_root": False, "accumulator_init": 0.0, "clip_norm": 0.0}
_ADAM: Tree = _RMSPROP | {"epsilon": 0.01 / 32, "epsilon_hat": True, "centered": False}
_CHEAP: Tree = _ADAM | {"learning_rate": 1e-3, "learning_rate_final": 1e-3, "epsilon": 1e-5, "clip_norm": 10.0}

# A constant rate: value learning has no natural end, and runs are compared at many of their steps.
_OF: dict[tuple[str, str], Tree] = {
    ("atari", "rmsprop"): _RMSPROP | {"epsilon_hat": False, "centered": True},
    ("atari", "adam"): _ADAM,
    ("vector", "adam"): _CHEAP | {"epsilon_hat": False},
}
REPLAYED = [spec.name for spec in REGISTERED.specs() if spec.replayed]
OPTIMIZERS: dict[tuple[str, str, str], Tree] = {
    (kind, name, optimizer): numbers for name in REPLAYED for (kind, optimizer), numbers in _OF.items()
}
