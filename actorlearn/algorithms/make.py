"""Turns `algorithm.name` into an algorithm: a shipped one, or "package.module:Name" called as Name(settings).

Reads the settings only; knows no network and no process.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from typing import cast

from actorlearn.algorithms.a2c import A2C
from actorlearn.algorithms.c51 import C51
from actorlearn.algorithms.dqn import DQN
from actorlearn.algorithms.impala import IMPALA
from actorlearn.algorithms.interface import SHIPPED, Algorithm, AlgorithmSettings
from actorlearn.algorithms.ppo import PPO

CLASSES: dict[str, Callable[[AlgorithmSettings], Algorithm]] = {
    "a2c": A2C,
    "ppo": PPO,
    "impala": IMPALA,
    "dqn": DQN,
    "c51": C51,
}


def make(settings: AlgorithmSettings) -> Algorithm:
    """Construct the algorithm that the settings name."""
    if settings.name in CLASSES:
        return CLASSES[settings.name](settings)
    try:
        return imported(settings.name)(settings)
    except TypeError as error:
        raise ValueError(
            f"algorithm.name: {settings.name!r} must be called as Name(AlgorithmSettings) and make an Algorithm "
            f"(actorlearn/algorithms/interface.py): {error}"
        ) from error


def imported(name: str) -> Callable[[AlgorithmSettings], Algorithm]:
    """Import the class that "package.module:Name" names."""
    try:
        if ":" not in name:
            raise ValueError("it has no colon")
        return cast(Callable[[AlgorithmSettings], Algorithm], pkgutil.resolve_name(name))
    except (ValueError, ImportError, AttributeError) as error:
        raise ValueError(
            f"algorithm.name: {name!r} must be one of {list(SHIPPED)} or 'package.module:Name', "
            f"a class on the Python path that is called as Name(AlgorithmSettings) ({error})"
        ) from error
