"""Catch (`env.id: actorlearn.envs.catch:Catch`): a game of pixels for tests and first tries, learned in seconds.

A ball falls through an image of 10x10 pixels. At the end the paddle on the bottom line must be under it.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]

SIZE = 10
"""Height and width of the image; the ball takes SIZE - 1 steps to fall."""
REACH = 1
"""Number of columns that the paddle covers on each side of its own column."""


class Catch(gymnasium.Env[Image, np.int64]):
    """A game of Catch, with observations uint8 [1, 10, 10] of 0 and 255, and the actions left, stay and right.

    The reward is 0 until the ball is down, and then +1 if it is caught and -1 if not. A game lasts 9 steps. Ball and
    paddle start in columns that are drawn independently. Every ball can be caught. A paddle that never moves catches 28
    of 100. If the paddle always started in the middle, an untrained policy would hardly ever catch a ball at the edge,
    and some runs would never learn to.
    """

    def __init__(self, render_mode: str | None = None) -> None:
        """Make the game; ``render_mode`` may be "rgb_array"."""
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Box(0, 255, (1, SIZE, SIZE), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(3)
        self._line = 0
        self._column = 0
        self._paddle = SIZE // 2

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Image, dict[str, Any]]:
        """Draw the columns of the paddle and of a new ball, which is at the top, from the environment's generator."""
        super().reset(seed=seed, options=options)
        self._line = 0
        self._column, self._paddle = (int(number) for number in self.np_random.integers(SIZE, size=2))
        return self._image(), {}

    def step(self, action: np.int64 | int) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        """Move the paddle by action - 1 columns, and let the ball fall by one line."""
        self._paddle = min(max(self._paddle + int(action) - 1, 0), SIZE - 1)
        self._line += 1
        down = self._line == SIZE - 1
        caught = abs(self._paddle - self._column) <= REACH
        reward = (1.0 if caught else -1.0) if down else 0.0
        return self._image(), reward, down, False, {}

    def render(self) -> Image:
        """Return the image in white on black: [10, 10, 3]."""
        return self._image()[0, :, :, None].repeat(3, axis=2)

    def state(self) -> dict[str, Any]:
        """Return the positions of ball and paddle, and the generator's state."""
        own = {"line": self._line, "column": self._column, "paddle": self._paddle}
        return {**own, "generator": self.np_random.bit_generator.state}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a state."""
        self._line, self._column, self._paddle = state["line"], state["column"], state["paddle"]
        self.np_random.bit_generator.state = state["generator"]

    def _image(self) -> Image:
        image = np.zeros((1, SIZE, SIZE), np.uint8)
        image[0, -1, max(self._paddle - REACH, 0) : self._paddle + REACH + 1] = 255
        image[0, self._line, self._column] = 255
        return image
