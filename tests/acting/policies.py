"""Untrained policies."""

from typing import Any

from actorlearn.acting.policy import Policy
from actorlearn.worker.settings import PolicySettings
from tests import named


def policy_settings(
    numbers: int = 4, actions: int | tuple[int, ...] = 2, algorithm: str = "a2c", **others: Any
) -> PolicySettings:
    """Settings of a policy for CartPole, or for another environment."""
    return PolicySettings(
        observation_shape=(numbers,),
        observation_dtype="float32",
        actions=actions,
        model=named.model("mlp", hidden_sizes=[8]),
        algorithm=named.algorithm(algorithm),
        **others,
    )


def policy(seed: int = 0, numbers: int = 4, actions: int | tuple[int, ...] = 2, algorithm: str = "a2c") -> Policy:
    """An untrained one."""
    return Policy(policy_settings(numbers, actions, algorithm), "cpu", seed, stream=0)
