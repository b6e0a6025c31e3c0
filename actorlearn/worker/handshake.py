"""Sizes and types on which a simulator and its run must agree before it is given shared memory.

A simulator reports those of the environments that it has made (``Hello.shape``), the plan has those of the topology.
They are compared as text, so that a difference can be shown. Keys are those of a topology where it has one.
"""

from __future__ import annotations

from typing import Protocol

from actorlearn.actions import Actions


class Playable(Protocol):
    """Spaces of an environment, whether it has been made here or was described by another process."""

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """Shape of one environment's observation, without a batch dimension."""

    @property
    def observation_dtype(self) -> str:
        """Name of its numpy type."""

    @property
    def actions(self) -> Actions:
        """Space of its actions."""

    @property
    def agents(self) -> int:
        """Rows of one game, one for each of its agents."""

    @property
    def frames_per_step(self) -> int:
        """Emulator frames of one step."""


def shape_to_match(env_id: str, env: Playable, horizon: int, blocks: int, groups: int) -> dict[str, str]:
    """Return the values that both sides must have alike: key -> value, as text."""
    return {
        "env.id": env_id,
        "observation": f"{env.observation_dtype}{list(env.observation_shape)}",
        "actions": str(env.actions),
        "agents": str(env.agents),
        "frames_per_step": str(env.frames_per_step),
        "algorithm.horizon": str(horizon),
        "simulators.blocks": str(blocks),
        "simulators.groups": str(groups),
    }
