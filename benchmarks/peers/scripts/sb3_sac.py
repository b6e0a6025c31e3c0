"""Stable-Baselines3's SAC on a gymnasium environment, run inside a virtual environment of its own by
``benchmarks/peers/compare.py``.

Usage: SECONDS ENV ENVIRONMENTS BATCH LEARNING_RATE THREADS LAYER…. An optimizer step for each step of an environment,
beginning after 1,000 steps with random actions; all else is its own default, which is the paper's. The environments are
in this process, one after the other, which is its default. Prints one JSON line.
"""

from __future__ import annotations

import sys

import torch
from sb3_measured import measure
from stable_baselines3 import SAC
from stable_baselines3.common.env_util import make_vec_env

STARTS_STEPS = 1_000
WARMUP_UPDATES = 200


def main() -> None:
    """Measure and print."""
    seconds, env, environments, batch, learning_rate, threads, *layers = sys.argv[1:]
    torch.set_num_threads(int(threads))
    model = SAC(
        "MlpPolicy",
        make_vec_env(env, n_envs=int(environments), seed=0),
        learning_rate=float(learning_rate),
        learning_starts=STARTS_STEPS,
        batch_size=int(batch),
        train_freq=1,  # of all environments at once
        gradient_steps=-1,  # as many as steps were collected
        policy_kwargs={"net_arch": [int(units) for units in layers]},
        device="cpu",
    )
    measure(model, float(seconds), warmup_steps=STARTS_STEPS + WARMUP_UPDATES)


if __name__ == "__main__":
    main()
