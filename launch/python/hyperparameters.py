"""``from_stable_baselines3`` and ``from_cleanrl``: hyperparameters of other libraries as keys for ``train``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from launch.names import stable_baselines3
from launch.names.cleanrl import CLEANRL
from launch.names.library import Converted


def from_stable_baselines3(algorithm: str, hyperparameters: Mapping[str, Any]) -> Converted:
    """Return hyperparameters of Stable-Baselines3 as keys, with which ``train(env, **keys)`` trains.

    Args:
        algorithm: ppo, a2c, dqn or sac.
        hyperparameters: Arguments of its constructor, of ``learn``, or an entry of RL Baselines3 Zoo, with n_envs.
            Names that are left out have the defaults of Stable-Baselines3. ``policy_kwargs`` may be text, as in
            RL Baselines3 Zoo. A schedule is a function of the remaining progress, or ``"lin_3e-4"``, which is linear.

    Returns the keys, and the given names whose values have no counterpart, each with the reason. The entries of
    ``policy_kwargs`` count as names.

    Raises:
        ValueError: The algorithm has no such name, or a value is of a wrong type.
    """
    return stable_baselines3.convert(algorithm, hyperparameters)


def from_cleanrl(script: str, args: Mapping[str, Any] | object) -> Converted:
    """Return arguments of a script of CleanRL as keys, with which ``train(env, **keys)`` trains.

    Args:
        script: ppo, ppo_atari, ppo_continuous_action, dqn, dqn_atari or sac_continuous_action.
        args: Its ``Args``, or a mapping. Names that are left out have the defaults of the script.

    Returns the keys, and the given names whose values have no counterpart, each with the reason.

    Raises:
        ValueError: The script has no such name, or a value is of a wrong type.
    """
    return CLEANRL.convert(script, args if isinstance(args, Mapping) else vars(args))
