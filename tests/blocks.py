"""Small blocks for tests of those who read and write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from actorlearn.memory.rollout import Blocks, BlockShape, make_segment


def block_shape(*, horizon: int, envs_per_group: int, **others: Any) -> BlockShape:
    """Blocks of an environment whose observation is two numbers, with two actions, unless ``others`` say otherwise."""
    usual: dict[str, Any] = {"groups": 1, "blocks": 1, "actions": 2}
    usual |= {"observation_shape": (2,), "observation_dtype": "float32"}
    return BlockShape(horizon=horizon, envs_per_group=envs_per_group, **{**usual, **others})


def make_members(folder: Path, count: int, *, blocks: int, envs: int, observation: int) -> list[Blocks]:
    """So many members of two groups and three timesteps, taking part from rollout 0."""
    shape = block_shape(groups=2, blocks=blocks, horizon=3, envs_per_group=envs, observation_shape=(observation,))
    made = [Blocks(make_segment(folder / str(number), shape)) for number in range(count)]
    for member in made:
        member.admit(0)
    return made
