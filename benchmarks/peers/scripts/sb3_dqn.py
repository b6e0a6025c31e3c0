"""Stable-Baselines3's DQN on Pong, run inside a virtual environment of its own by ``benchmarks/peers/compare.py``.

Usage: SECONDS ENVS. Its own network (Nature), 32 transitions every 4 steps, epsilon 0.1. Prints one JSON line.
"""

from __future__ import annotations

import sys

from sb3_measured import measure, pong
from stable_baselines3 import DQN

STARTS_STEPS = 1_000


def main() -> None:
    """Measure and print."""
    seconds, environments = float(sys.argv[1]), int(sys.argv[2])
    model = DQN(
        "CnnPolicy",
        pong(environments),
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
    measure(model, seconds, warmup_steps=2 * STARTS_STEPS)


if __name__ == "__main__":
    main()
