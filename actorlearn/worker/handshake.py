"""The numbers that a simulator and its run must agree on before it is let near shared memory.

The simulator says them of what it has made (``Hello.shape``), the plan of what was asked for; they are compared as
text, so that a difference can be shown. Keys are those of a topology where it has one.
"""

from __future__ import annotations

from typing import Protocol

from actorlearn.actions import Actions


class Playable(Protocol):
    """What is known of an environment, by whoever has made it and by whoever has only asked."""

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """Of one environment."""

    @property
    def observation_dtype(self) -> str:
        """As numpy names it."""

    @property
    def actions(self) -> Actions:
        """What it can be told."""

    @property
    def frames_per_step(self) -> int:
        """Emulator frames of one step."""


def agreed(env_id: str, env: Playable, horizon: int, blocks: int, groups: int) -> dict[str, str]:
    """Return what both sides must say alike: key -> value, as people read it."""
    return {
        "env.id": env_id,
        "observation": f"{env.observation_dtype}{list(env.observation_shape)}",
        "actions": str(env.actions),
        "frames_per_step": str(env.frames_per_step),
        "algorithm.horizon": str(horizon),
        "simulators.blocks": str(blocks),
        "simulators.groups": str(groups),
    }
