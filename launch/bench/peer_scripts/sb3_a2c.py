"""Stable-Baselines3's A2C on the same work, run inside a virtual environment of its own by ``launch/bench/peers.py``.

Usage: SECONDS ENVS HORIZON NETWORK. Pong, with its own default network (Nature) or ours (nips); or CartPole, with its
own perceptron and the vector environment it says is the fastest there (cartpole). Prints one JSON line.
"""

from __future__ import annotations

import json
import sys
import time

import ale_py
import gymnasium
import stable_baselines3
import torch
from stable_baselines3 import A2C
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import SubprocVecEnv, VecFrameStack


class NipsEncoder(BaseFeaturesExtractor):
    """16@8x8/4, 32@4x4/2, 256: the network of the Pong topology."""

    def __init__(self, observation_space: gymnasium.Space, features_dim: int = 256) -> None:
        """Build for [4, 84, 84] observations that are already scaled."""
        super().__init__(observation_space, features_dim)
        nn = torch.nn
        self.layers = nn.Sequential(
            *(nn.Conv2d(4, 16, 8, 4), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.Flatten()),
            *(nn.Linear(32 * 9 * 9, features_dim), nn.ReLU()),
        )

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Features [N, 256]."""
        return self.layers(observations)


class Stopwatch(BaseCallback):
    """Counts steps from the end of a warm-up to a deadline."""

    def __init__(self, seconds: float, warmup_s: float) -> None:
        """Measure ``seconds`` after ``warmup_s``."""
        super().__init__()
        self.seconds, self.warmup_s = seconds, warmup_s
        self.began_s = time.monotonic()
        self.first: tuple[float, int] | None = None
        self.rate = 0.0

    def _on_step(self) -> bool:
        now = time.monotonic()
        if self.first is None:
            if now - self.began_s >= self.warmup_s:
                self.first = (now, self.num_timesteps)
            return True
        self.rate = (self.num_timesteps - self.first[1]) / (now - self.first[0]) if now > self.first[0] else 0.0
        return now - self.first[0] < self.seconds


def main() -> None:
    """Measure and print."""
    seconds, environments, horizon = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    if sys.argv[4] == "cartpole":
        env = make_vec_env("CartPole-v1", n_envs=environments, seed=0)
        model = A2C("MlpPolicy", env, n_steps=horizon, device="cpu")
    else:
        nips = {"features_extractor_class": NipsEncoder, "net_arch": []} if sys.argv[4] == "nips" else None
        gymnasium.register_envs(ale_py)
        env = make_atari_env("PongNoFrameskip-v4", n_envs=environments, seed=0, vec_env_cls=SubprocVecEnv)
        stacked = VecFrameStack(env, n_stack=4)
        model = A2C("CnnPolicy", stacked, n_steps=horizon, policy_kwargs=nips, device="cpu")
    watch = Stopwatch(seconds, warmup_s=10.0)
    model.learn(10**9, callback=watch)
    print(json.dumps({"steps_per_s": watch.rate, "version": stable_baselines3.__version__}), flush=True)
    env.close()


if __name__ == "__main__":
    main()
