"""An environment whose observation is a Dict of an image and numbers; both are needed."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete

STEPS = 20
"""Length of a game, and its best return."""


class Parts(gymnasium.Env[Any, Any]):
    """One cell of the image is bright. The action is its quadrant, counted from the other end if the number is 1.

    A random policy has a return of 5.
    """

    observation_space = Dict({"image": Box(0, 255, (12, 12, 1), np.uint8), "number": Box(0, 1, (1,), np.float32)})
    action_space = Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._steps = 0
        return self._drawn(), {}

    def step(self, action: Any) -> Any:
        reward = float(int(action) == self._right)
        self._steps += 1
        return self._drawn(), reward, False, self._steps >= STEPS, {}

    def _drawn(self) -> dict[str, Any]:
        line, column = self.np_random.integers(12, size=2)
        number = int(self.np_random.integers(2))
        quadrant = 2 * int(line >= 6) + int(column >= 6)
        self._right = 3 - quadrant if number else quadrant
        image = np.zeros((12, 12, 1), np.uint8)
        image[line, column] = 255
        return {"image": image, "number": np.array([number], np.float32)}
