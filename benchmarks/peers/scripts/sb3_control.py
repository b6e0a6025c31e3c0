"""Stable-Baselines3's PPO on continuous actions, run inside a virtual environment of its own by
``benchmarks/peers/compare.py``.

Usage: SECONDS THREADS ENV ENVIRONMENTS HORIZON MINIBATCHES EPOCHS LEARNING_RATE. Two hidden layers of 64 with tanh for
policy and value each, which are its own default; observations and rewards normalised. The environments are in this
process, one after the other, which is its default. Prints one JSON line.
"""

from __future__ import annotations

import sys

import torch
from sb3_measured import measure
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize


def main() -> None:
    """Measure and print."""
    seconds, threads, env, *numbers, learning_rate = sys.argv[1:]
    environments, horizon, minibatches, epochs = map(int, numbers)
    torch.set_num_threads(int(threads))
    model = PPO(
        "MlpPolicy",
        VecNormalize(make_vec_env(env, n_envs=environments, seed=0)),
        learning_rate=float(learning_rate),
        n_steps=horizon,
        batch_size=environments * horizon // minibatches,
        n_epochs=epochs,
        device="cpu",
    )
    measure(model, float(seconds), warmup_steps=2 * environments * horizon)


if __name__ == "__main__":
    main()
