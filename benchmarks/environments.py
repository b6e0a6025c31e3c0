"""Environments for measurements, whose steps take no time, or take time without using the processor."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from actorlearn.envs.catch import Catch, Image

SLOW_STEP_S = 0.001


class Still(gymnasium.Env[NDArray[np.float32], np.int64]):
    """Does nothing: one number as observation, two actions without effect, games that do not end."""

    def __init__(self) -> None:
        """Make the environment."""
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self._observation = np.zeros(1, np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin a game."""
        super().reset(seed=seed, options=options)
        return self._observation, {}

    def step(self, action: np.int64) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Do nothing."""
        return self._observation, 0.0, False, False, {}


class Waiting(Still):
    """An environment that sleeps in each step, so that many learners can be measured on few cores."""

    def __init__(self, step_s: float, slow: str, slower: float) -> None:
        """Sleep ``step_s`` seconds in each step, and ``slower`` times as long while the file ``slow``/PID exists."""
        super().__init__()
        self._step_s, self._slower = step_s, slower
        self._slow = Path(slow, str(os.getpid()))

    def step(self, action: np.int64) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Sleep, and return the next observation."""
        time.sleep(self._step_s * (self._slower if self._slow.exists() else 1.0))
        return super().step(action)


class SlowCatch(Catch):
    """Catch whose every step sleeps 1 ms, so that learners which share cores are faster together."""

    def step(self, action: np.int64 | int) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        """Sleep, then move."""
        time.sleep(SLOW_STEP_S)
        return super().step(action)
