"""Stable-Baselines3's A2C on the same work, run inside a virtual environment of its own by
``benchmarks/peers/compare.py``.

Usage: SECONDS ENVS HORIZON NETWORK. Pong, with its own default network (Nature) or ours (nips); or CartPole, with its
own perceptron and the vector environment it says is the fastest there (cartpole). Prints one JSON line.
"""

from __future__ import annotations

import sys

import gymnasium
import torch
from sb3_measured import measure, pong
from stable_baselines3 import A2C
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor


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


def main() -> None:
    """Measure and print."""
    seconds, environments, horizon, network = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    if network == "cartpole":
        env = make_vec_env("CartPole-v1", n_envs=environments, seed=0)
        model = A2C("MlpPolicy", env, n_steps=horizon, device="cpu")
    else:
        nips = {"features_extractor_class": NipsEncoder, "net_arch": []} if network == "nips" else None
        model = A2C("CnnPolicy", pong(environments), n_steps=horizon, policy_kwargs=nips, device="cpu")
    measure(model, seconds)


if __name__ == "__main__":
    main()
