"""Recall: a game's first observation shows a cue, which the last action must repeat.

This is the smallest task that needs memory, for tests and first tries: `actorlearn.envs.recall:Recall`. Games differ
only in their first observation, so every policy without memory scores 0 on average.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

Seen = npt.NDArray[np.float32]

LENGTH = 6
"""Steps of a game."""


class Recall(gymnasium.Env[Seen, np.int64]):
    """Observation float32 [2]: the cue, -1 or 1, in the first row and 0 after it; 1 in the row of the last action.

    There are two actions, 0 and 1. The reward of the last action is 1 if it is 0 for the cue -1 or 1 for the cue 1,
    and -1 otherwise. The other actions have no effect.
    """

    def __init__(self) -> None:
        """Take no arguments: an environment named by its class must not need any."""
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self._cue = 0
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Seen, dict[str, Any]]:
        """Show a cue drawn from the environment's generator."""
        super().reset(seed=seed, options=options)
        self._cue = int(self.np_random.integers(2))
        self._steps = 0
        return np.array([2 * self._cue - 1, 0], np.float32), {}

    def step(self, action: np.int64 | int) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """Show only whether the next action is the last one, and reward the last action."""
        self._steps += 1
        over = self._steps == LENGTH
        reward = (1.0 if int(action) == self._cue else -1.0) if over else 0.0
        return np.array([0, self._steps == LENGTH - 1], np.float32), reward, over, False, {}

    def state(self) -> dict[str, Any]:
        """Return the cue, the number of steps, and the generator's state."""
        return {"cue": self._cue, "steps": self._steps, "generator": self.np_random.bit_generator.state}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a state."""
        self._cue, self._steps = state["cue"], state["steps"]
        self.np_random.bit_generator.state = state["generator"]
