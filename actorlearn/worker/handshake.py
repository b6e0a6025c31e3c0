"""Sizes and types on which a simulator and its run must agree before the simulator gets shared memory.

A simulator reports the values of the environments that it has made (``Hello.shape``); the plan has those of the
topology. They are compared as text, so that a difference can be shown. Keys are those of the topology, if it has them.
"""

from __future__ import annotations

from typing import Protocol

from actorlearn.actions import Actions


class Playable(Protocol):
    """Spaces of an environment, which was made in this process or described by another one."""

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """Shape of one environment's observation, without a batch dimension."""

    @property
    def observation_dtype(self) -> str:
        """Name of the observation's numpy type."""

    @property
    def actions(self) -> Actions:
        """Space of the actions."""

    @property
    def agents(self) -> int:
        """Number of agents in a game; each has a row."""

    @property
    def frames_per_step(self) -> int:
        """Number of emulator frames in a step."""


def shape_to_match(env_id: str, env: Playable, horizon: int, blocks: int, groups: int) -> dict[str, str]:
    """Return the values that must be equal in a simulator and in the run's plan, as text by key."""
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
