"""Small blocks for tests of those who read and write them."""

from __future__ import annotations

from pathlib import Path

from actorlearn.memory.rollout import Blocks, BlockShape, make_segment


def make_members(folder: Path, count: int, *, blocks: int, envs: int, observation: int) -> list[Blocks]:
    """So many members of two groups and three timesteps, taking part from rollout 0."""
    shape = BlockShape(
        groups=2,
        blocks=blocks,
        horizon=3,
        envs_per_group=envs,
        observation_shape=(observation,),
        observation_dtype="float32",
        actions=2,
    )
    made = [Blocks(make_segment(folder / str(number), shape)) for number in range(count)]
    for member in made:
        member.admit(0)
    return made
