"""Parts that the scripts sb3_*.py, which lie beside it, share: Pong in processes, and a model's rate."""

from __future__ import annotations

import json
import time

import ale_py
import gymnasium
import stable_baselines3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import SubprocVecEnv, VecFrameStack
from windows import Windows

WARMUP_S = 10.0


class Stopwatch(BaseCallback):
    """Counts steps from the end of a warm-up, when learning has begun, to a deadline."""

    def __init__(self, seconds: float, warmup_steps: int) -> None:
        """Measure ``seconds`` after a warm-up of so many steps at least."""
        super().__init__()
        self.seconds, self.warmup_steps = seconds, warmup_steps
        self.began_s = time.monotonic()
        self.first: tuple[float, int] | None = None
        self.rate = 0.0
        self.windows = Windows()

    def _on_step(self) -> bool:
        now = time.monotonic()
        if self.first is None:
            if now - self.began_s >= WARMUP_S and self.num_timesteps > self.warmup_steps:
                self.first = (now, self.num_timesteps)
                self.windows = Windows()
            return True
        self.windows.count(self.training_env.num_envs)
        self.rate = (self.num_timesteps - self.first[1]) / (now - self.first[0]) if now > self.first[0] else 0.0
        return now - self.first[0] < self.seconds


def pong(environments: int) -> VecFrameStack:
    """Pong, each environment in a process."""
    gymnasium.register_envs(ale_py)
    env = make_atari_env("PongNoFrameskip-v4", n_envs=environments, seed=0, vec_env_cls=SubprocVecEnv)
    return VecFrameStack(env, n_stack=4)


def measure(model: BaseAlgorithm, seconds: float, warmup_steps: int = 0) -> None:
    """Let it learn, print one JSON line, and end the environments."""
    watch = Stopwatch(seconds, warmup_steps)
    model.learn(10**9, callback=watch)
    answer = {"steps_per_s": watch.rate, "windows": watch.windows.rates, "version": stable_baselines3.__version__}
    print(json.dumps(answer), flush=True)
    model.get_env().close()
