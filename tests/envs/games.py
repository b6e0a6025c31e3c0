"""Small environments with every kind of space, and gymnasium's vectors of them."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv


class Counter(gymnasium.Env):
    """Adds up its actions -1, 0 and 1, of a Discrete that does not start at 0; ends at 3."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(3, start=-1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.sum = np.array([0.0, self.np_random.random()])
        return self.sum, {}  # the same array each step: it must be copied

    def step(self, action):
        assert action in (-1, 0, 1)
        self.sum[0] += action
        return self.sum, np.float32(action), np.bool_(self.sum[0] == 3), False, {}

    def state(self):
        return {"sum": self.sum, "generator": self.np_random.bit_generator.state}

    def restore(self, state):
        self.sum = state["sum"]
        self.np_random.bit_generator.state = state["generator"]


class Walk(gymnasium.Env):
    """Adds up two numbers within -1 … 0.5 and -0.5 … 1, and asserts these bounds; ends far from the start."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = gymnasium.spaces.Box(np.array([-1.0, -0.5]), np.array([0.5, 1.0]), (2,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.random(2).astype(np.float32)
        return self.place, {}

    def step(self, action):
        assert action in self.action_space, action
        self.place = (self.place + action).astype(np.float32)
        return self.place, float(action.sum()), bool(np.abs(self.place).max() > 4), False, {}

    def state(self):
        return {"place": self.place, "generator": self.np_random.bit_generator.state}

    def restore(self, state):
        self.place = state["place"]
        self.np_random.bit_generator.state = state["generator"]


class Safe(gymnasium.Env):
    """Opens when all its digits and its switch are right; shows how many are, in words too."""

    def __init__(self, digits: int = 2) -> None:
        self.observation_space = gymnasium.spaces.Dict(
            right=gymnasium.spaces.Discrete(digits + 2),
            last=gymnasium.spaces.MultiDiscrete([3] * digits + [2], start=[1] * digits + [0]),
            noise=gymnasium.spaces.Box(-1, 1, (2, 2), np.float64),
            said=gymnasium.spaces.Text(40),
        )
        self.action_space = gymnasium.spaces.MultiDiscrete([3] * digits + [2], start=[1] * digits + [0])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.secret = self.np_random.integers(self.action_space.nvec) + self.action_space.start
        return self._seen(self.action_space.start), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        right = int((action == self.secret).sum())
        return self._seen(action), float(right), right == len(action), False, {}

    def _seen(self, action):
        right = int((action == self.secret).sum())
        noise = self.np_random.uniform(-1, 1, (2, 2))
        return {"right": right, "last": action, "noise": noise, "said": f"{right} are right"}

    def state(self):
        return {"secret": self.secret, "generator": self.np_random.bit_generator.state}

    def restore(self, state):
        self.secret = state["secret"]
        self.np_random.bit_generator.state = state["generator"]


def synchronous(num_envs: int, name: str, mode: str, max_episode_steps: int | None = None) -> SyncVectorEnv:
    """gymnasium's own vector of environments of this module, in an autoreset mode."""

    def one() -> gymnasium.Env:
        env = globals()[name]()
        return gymnasium.wrappers.TimeLimit(env, max_episode_steps) if max_episode_steps else env

    return SyncVectorEnv([one] * num_envs, autoreset_mode=AutoresetMode(mode))


def limitless(num_envs: int, name: str, mode: str) -> SyncVectorEnv:
    """Like ``synchronous``, but without an argument for the time limit, so that actorlearn counts the steps."""
    return synchronous(num_envs, name, mode)
