"""Stable-Baselines3's DQN on Pong, run inside a virtual environment of its own by ``launch/bench/peers.py``.

Usage: SECONDS ENVS. Its own network (Nature), 32 transitions every 4 steps, epsilon 0.1. Prints one JSON line.
"""

from __future__ import annotations

import json
import sys
import time

import ale_py
import gymnasium
import stable_baselines3
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import SubprocVecEnv, VecFrameStack

STARTS_STEPS = 1_000
WARMUP_S = 10.0


class Stopwatch(BaseCallback):
    """Counts steps from the end of a warm-up, when learning has begun, to a deadline."""

    def __init__(self, seconds: float) -> None:
        """Measure so long."""
        super().__init__()
        self.seconds = seconds
        self.began_s = time.monotonic()
        self.first: tuple[float, int] | None = None
        self.rate = 0.0

    def _on_step(self) -> bool:
        now = time.monotonic()
        if self.first is None:
            if now - self.began_s >= WARMUP_S and self.num_timesteps > 2 * STARTS_STEPS:
                self.first = (now, self.num_timesteps)
            return True
        self.rate = (self.num_timesteps - self.first[1]) / (now - self.first[0]) if now > self.first[0] else 0.0
        return now - self.first[0] < self.seconds


def main() -> None:
    """Measure and print."""
    seconds, environments = float(sys.argv[1]), int(sys.argv[2])
    gymnasium.register_envs(ale_py)
    env = make_atari_env("PongNoFrameskip-v4", n_envs=environments, seed=0, vec_env_cls=SubprocVecEnv)
    model = DQN(
        "CnnPolicy",
        VecFrameStack(env, n_stack=4),
        buffer_size=20_000,
        learning_starts=STARTS_STEPS,
        batch_size=32,
        train_freq=1,  # of all environments at once
        gradient_steps=environments // 4,
        target_update_interval=STARTS_STEPS,
        exploration_initial_eps=0.1,
        exploration_final_eps=0.1,
        device="cpu",
    )
    watch = Stopwatch(seconds)
    model.learn(10**9, callback=watch)
    print(json.dumps({"steps_per_s": watch.rate, "version": stable_baselines3.__version__}), flush=True)
    env.close()


if __name__ == "__main__":
    main()
