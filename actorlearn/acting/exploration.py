"""Exploration: random numbers of each batch of rows, and epsilon of each row.

Both depend on seeds and on places in the run alone, so nothing of them needs saving.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from actorlearn.acting.batching import Asked
from actorlearn.algorithms.interface import Algorithm, learns_from_replay
from actorlearn.memory.rollout import Rollouts
from actorlearn.models.unroll import Outputs


def mix(seed: int, moment: int) -> int:
    """Return a well-spread 32-bit number made of two counters (the finaliser of splitmix64)."""
    z = (seed * 0x9E3779B97F4A7C15 + moment + 1) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
    return (z ^ (z >> 31)) & 0xFFFFFFFF


def epsilon(
    algorithm: Algorithm, rollouts: Rollouts | None, environments: int, asked: Sequence[Asked]
) -> Tensor | None:
    """Return epsilon [N] of the rows asked for, of so many environments in all; None where nobody explores by it.

    A row's step is what the rollout began with, and one of every environment for each row of it before this one.
    """
    if rollouts is None or not learns_from_replay(algorithm):
        return None
    parts = []
    for blocks, group, timestep in asked:
        rollout, t = divmod(timestep, blocks.horizon)
        first = (blocks.number * blocks.groups + group) * blocks.envs_per_group
        numbers = torch.arange(first, first + blocks.envs_per_group) % environments  # attached ones share
        parts.append(algorithm.epsilon(rollouts.env_steps(rollout) + t * environments, numbers, environments))
    return torch.cat(parts)


def choose(
    algorithm: Algorithm, outputs: Outputs, generator: torch.Generator, greedy: bool, explore: Tensor | None
) -> dict[str, Tensor]:
    """Choose actions and columns [N, …] from outputs [N, size]; with probability ``explore`` [N], if any, at random."""
    if explore is not None and learns_from_replay(algorithm):
        return algorithm.act(outputs, generator, greedy, explore)
    return algorithm.act(outputs, generator, greedy)
