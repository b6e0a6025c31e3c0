"""An environment whose observation is a Dict of an image and a number, both of which a policy needs."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete

STEPS, SIDE, LENGTH = 20, 16, 5
"""Steps of a game, which is its best return; side of the image; length of the bar in it."""


class Parts(gymnasium.Env[Any, Any]):
    """A bar stands or lies anywhere in the image. The right action says which, or the opposite if the number is 1.

    A random policy has a return of 10.
    """

    observation_space = Dict({"image": Box(0, 255, (SIDE, SIDE, 1), np.uint8), "number": Box(0, 1, (1,), np.float32)})
    action_space = Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._steps = 0
        return self._drawn(), {}

    def step(self, action: Any) -> Any:
        reward = float(int(action) == self._right)
        self._steps += 1
        return self._drawn(), reward, False, self._steps >= STEPS, {}

    def _drawn(self) -> dict[str, Any]:
        stands, number = (int(drawn) for drawn in self.np_random.integers(2, size=2))
        line, column = self.np_random.integers(SIDE - LENGTH, size=2)
        image = np.zeros((SIDE, SIDE, 1), np.uint8)
        bar = image[line : line + LENGTH, column] if stands else image[line, column : column + LENGTH]
        bar[:] = 255
        self._right = stands ^ number
        return {"image": image, "number": np.array([number], np.float32)}
