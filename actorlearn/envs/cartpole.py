"""CartPole with the state of all games in one array, for speed: a subclass of gymnasium's vector class.

gymnasium's class draws the starts of all games from one generator and resets all games together. Here each environment
has its own generator and draws as gymnasium's `CartPoleEnv` does. So single games can be begun, and games are
bit-identical to those of `CartPoleEnv` (``tests/envs/test_cartpole.py``). A step computes the equations of the parent
class in the same order, without its checks of the action.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.utils.seeding import np_random

Array = npt.NDArray[Any]

EDGE = 0.05
"""The four state variables of a new game are drawn uniformly between -EDGE and EDGE."""


class CartPole(CartPoleVectorEnv):
    """B games in gymnasium's autoreset mode NEXT_STEP, in which chosen games can also be reset by a mask."""

    metadata = CartPoleVectorEnv.metadata | {"reset_mask": True}
    state: Any
    """[4, B] float64: position, speed, angle and angular speed; None before the first reset."""

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Begin all games, or those of ``options["reset_mask"]`` [B]; seeds, one each, make new generators."""
        if seed is not None:
            self._generators = [np_random(own)[0] for own in seed]
        if options is None or "reset_mask" not in options:
            self.state = np.zeros((4, self.num_envs))
            chosen = np.ones(self.num_envs, np.bool_)
        else:
            chosen = options["reset_mask"]
        self._begin(chosen)
        self.prev_done = self.prev_done & ~chosen
        return self._observations(), {}

    def step(self, action: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Push all carts left (0) or right (1); where a game ended in the previous step, begin a new one instead."""
        x: Array
        x, x_dot, theta, theta_dot = self.state  # views
        force = np.where(action == 1, self.force_mag, -self.force_mag)
        cosine, sine = np.cos(theta), np.sin(theta)
        temp = (force + self.polemass_length * np.square(theta_dot) * sine) / self.total_mass
        inertia = self.length * (4.0 / 3.0 - self.masspole * np.square(cosine) / self.total_mass)
        theta_acceleration = (self.gravity * sine - cosine * temp) / inertia
        acceleration = temp - self.polemass_length * theta_acceleration * cosine / self.total_mass
        x += self.tau * x_dot
        x_dot += self.tau * acceleration
        theta += self.tau * theta_dot
        theta_dot += self.tau * theta_acceleration
        terminated = (np.abs(x) > self.x_threshold) | (np.abs(theta) > self.theta_threshold_radians)
        self.steps += 1
        truncated = self.steps >= self.max_episode_steps
        reward = np.where(terminated, -1.0, 0.0) if self._sutton_barto_reward else np.ones(self.num_envs)
        if (first := self.prev_done).any():
            self._begin(first)
            reward[first] = 0.0
            terminated &= ~first
            truncated &= ~first
        self.prev_done = terminated | truncated
        return self._observations(), reward, terminated, truncated, {}

    @property
    def generators(self) -> list[Any]:
        """States of the environments' random generators, which ``envs/states.py`` saves and assigns."""
        return [generator.bit_generator.state for generator in self._generators]

    @generators.setter
    def generators(self, values: list[Any]) -> None:
        for generator, state in zip(self._generators, values, strict=True):
            generator.bit_generator.state = state

    def _begin(self, chosen: npt.NDArray[np.bool_]) -> None:
        for i in np.flatnonzero(chosen).tolist():
            self.state[:, i] = self._generators[i].uniform(low=-EDGE, high=EDGE, size=(4,))
        self.steps[chosen] = 0

    def _observations(self) -> Array:
        observations: Array = self.state.T.astype(np.float32)
        return observations
