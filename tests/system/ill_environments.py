"""Environments from which nothing can be learned; named as tests.system.ill_environments:Name."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from actorlearn.envs.catch import Catch, Image

Outcome = tuple[Image, float, bool, bool, dict[str, Any]]


class Unrewarded(Catch):
    """Catch in which nothing is ever won or lost."""

    def step(self, action: np.int64 | int) -> Outcome:
        seen, _, terminated, truncated, info = super().step(action)
        return seen, 0.0, terminated, truncated, info


class Blind(Catch):
    """Catch with black observations."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Image, dict[str, Any]]:
        seen, info = super().reset(seed=seed, options=options)
        return np.zeros_like(seen), info

    def step(self, action: np.int64 | int) -> Outcome:
        seen, *outcome = super().step(action)
        return np.zeros_like(seen), *outcome


class Huge(gymnasium.Env[Any, Any]):
    """Shows numbers of a million and says at random whether an action was right; ten make a game."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-1e7, 1e7, (4,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(3)
        self.left = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = 10
        return self._show(), {}

    def step(self, action: np.int64 | int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        return self._show(), float(self.np_random.integers(2)), self.left <= 0, False, {}

    def _show(self) -> Any:
        return self.np_random.normal(0.0, 1e6, 4).astype(np.float32)


class Endless(Huge):
    """Shows small numbers, in a game that never ends."""

    def step(self, action: np.int64 | int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._show() / 1e6, float(self.np_random.integers(2)), False, False, {}
