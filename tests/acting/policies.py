"""Untrained policies, and folders of runs that have them."""

from pathlib import Path
from typing import Any

import msgspec

from actorlearn.acting.policy import Policy
from actorlearn.parameters import checkpoint
from actorlearn.worker.settings import POLICY_FILE, LoadSettings, PolicySettings, write
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


def run_folder(path: Path, settings: PolicySettings, seed: int = 3, env: Any = None, **more: Any) -> Policy:
    """Make a run folder with what is read of one, and return the policy whose weights it has."""
    path.mkdir(parents=True, exist_ok=True)
    write(LoadSettings(env=env or named.env("CartPole-v1"), policy=settings, **more), path / POLICY_FILE)
    return save_policy(path / "checkpoints", settings, 500, seed)


def save_policy(directory: Path, settings: PolicySettings, env_steps: int, seed: int, **state: Any) -> Policy:
    """Save a checkpoint of an untrained policy, and return the policy."""
    trained = Policy(settings, "cpu", seed, stream=0)
    weights = {f"weights.{name}": tensor for name, tensor in trained.network.state_dict().items()}
    checkpoint.save(directory, env_steps, weights, {"env_steps": env_steps, "policy_version": 1, **state}, keep=1)
    return trained


def remembering() -> PolicySettings:
    """Return settings of a recurrent policy for CartPole."""
    model = named.model("mlp", hidden_sizes=[8], recurrence="gru", recurrent_size=4)
    return msgspec.structs.replace(policy_settings(), model=model)
