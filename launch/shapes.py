"""What shared memory is laid out by: the numbers of a topology and of its description, in the structs of their owners.

Pure.
"""

from __future__ import annotations

from actorlearn.memory.rollout import BlockShape
from actorlearn.replay.rows import ReplayShape
from launch.description import Description
from launch.topology import Topology


def environments(t: Topology) -> int:
    """How many there are at the start, of all learners."""
    return t.learners.count * t.simulators.environments


def block_shape(t: Topology, d: Description) -> BlockShape:
    """The numbers of every simulator's segment."""
    return BlockShape(
        groups=t.simulators.groups,
        blocks=t.simulators.blocks,
        horizon=t.algorithm.horizon,
        envs_per_group=t.simulators.envs // t.simulators.groups,
        observation_shape=d.observation_shape,
        observation_dtype=d.observation_dtype,
        actions=d.actions,
        columns=d.columns,
        state_size=d.state_size,
    )


def replay_shape(t: Topology, d: Description) -> ReplayShape:
    """The numbers of every learner's replay: a ring for each environment, of equal parts of the capacity."""
    rings = t.simulators.environments
    return ReplayShape(
        rings=rings,
        size=-(-t.replay.capacity_steps // rings),
        margin=t.algorithm.horizon + 1,
        stack=d.stack,
        observation_shape=d.observation_shape,
        observation_dtype=d.observation_dtype,
        actions=d.actions,
        prioritised=t.replay.prioritised,
    )
