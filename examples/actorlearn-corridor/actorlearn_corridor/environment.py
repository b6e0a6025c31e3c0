"""Corridor: a lamp shows which of two doors is the way out. A gymnasium environment that does not use actorlearn."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

Seen = npt.NDArray[np.float32]


class Corridor(gymnasium.Env[Seen, np.int64]):
    """Observation [2]: place and lamp, each from -1 to 1; actions left, right; reward 1 at the right door, else -1."""

    def __init__(self, length: int = 6, slip: float = 0.1) -> None:
        """``length``: steps from the middle to a door; ``slip``: probability that a step goes the other way."""
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.length, self.slip = length, slip
        self.place = 0
        self.lamp = 1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Seen, dict[str, Any]]:
        """Stand in the middle; the lamp is drawn from the environment's own generator."""
        super().reset(seed=seed)
        self.place = 0
        self.lamp = int(self.np_random.choice((-1, 1)))
        return self._seen(), {}

    def step(self, action: np.int64) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """Take a step to the left or to the right."""
        slips = self.np_random.random() < self.slip
        self.place += 1 if bool(action) != slips else -1
        out = abs(self.place) == self.length
        reward = (1.0 if self.place * self.lamp > 0 else -1.0) if out else 0.0
        return self._seen(), reward, out, False, {}

    def state(self) -> dict[str, Any]:
        """All that the next steps follow from; with it a run that was interrupted goes on exactly."""
        return {"place": self.place, "lamp": self.lamp, "generator": self.np_random.bit_generator.state}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from such a state."""
        self.place, self.lamp = state["place"], state["lamp"]
        self.np_random.bit_generator.state = state["generator"]

    def _seen(self) -> Seen:
        return np.array([self.place / self.length, self.lamp], np.float32)
