"""An environment that does nothing, so that only the hand-over of its steps is measured."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray


class Still(gymnasium.Env[NDArray[np.float32], np.int64]):
    """One number to see, two actions without effect, no end."""

    def __init__(self) -> None:
        """There is nothing to set up."""
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self._observation = np.zeros(1, np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin."""
        super().reset(seed=seed, options=options)
        return self._observation, {}

    def step(self, action: np.int64) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Go on."""
        return self._observation, 0.0, False, False, {}
