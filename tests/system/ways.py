"""Settings with which Catch is learned."""

from __future__ import annotations

CATCH = ["simulators.envs=16", "model.hidden_sizes=[128]", "model.init=orthogonal", "checkpoint.every_steps=1_000_000"]

LEARNS = {
    "a2c": [
        *("algorithm.name=a2c", "algorithm.gae_lambda=0.95", "total_steps=1_000_000", "algorithm.horizon=10"),
        *("algorithm.entropy_cost=0.02", "optimizer.learning_rate=0.003"),
    ],
    "ppo": ["algorithm.name=ppo", "total_steps=400_000", "algorithm.entropy_cost=0.01"],
    "impala": [  # in mode async it takes up to 500,000 steps
        *("algorithm.name=impala", "total_steps=1_000_000", "algorithm.horizon=10"),
        *("algorithm.entropy_cost=0.05", "optimizer.learning_rate=0.006"),
    ],
}
