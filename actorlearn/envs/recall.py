"""Recall (`env.id: actorlearn.envs.recall:Recall`): a tiny game that needs memory, for tests and first tries.

The first observation of a game shows a cue, which the last action must repeat. Games differ only in their first
observation, so every policy without memory scores 0 on average.
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
    """A game of 6 steps with observations float32 [2] and actions 0 and 1.

    Element 0 of an observation is the cue, -1 or 1, in the first observation of a game, and 0 afterwards. Element 1 is
    1 if the next action is the last, and 0 before. The reward of the last action is 1 if the action is 0 for the cue -1
    or 1 for the cue 1, and -1 otherwise. Other actions have no effect.
    """

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self._cue = 0
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Seen, dict[str, Any]]:
        """Begin a game: draw its cue from the environment's generator, and return it in the observation."""
        super().reset(seed=seed, options=options)
        self._cue = int(self.np_random.integers(2))
        self._steps = 0
        return np.array([2 * self._cue - 1, 0], np.float32), {}

    def step(self, action: np.int64 | int) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """Take an action; only the last action of a game has a reward."""
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
