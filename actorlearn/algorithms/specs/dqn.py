"""Spec of DQN: its keys, with the numbers of Mnih et al. 2015."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from actorlearn.algorithms.settings import AlgorithmSpec
from actorlearn.algorithms.specs.q_learning import ATARI, OPTIMIZERS, VECTOR, QSettings


class DQNSettings(QSettings, frozen=True, kw_only=True, tag="dqn"):
    """Keys of deep Q-networks."""

    huber_delta: Annotated[
        float,
        Meta(
            gt=0,
            le=1_000_000,
            description="temporal-difference error beyond which the loss is linear instead of quadratic; it is also "
            "the largest error that counts for a priority",
        ),
    ] = 1.0


SPEC = AlgorithmSpec(
    name="dqn",
    settings=DQNSettings,
    made_by="actorlearn.algorithms.dqn:DQN",
    replayed=True,
    defaults={
        "atari": ATARI,
        # Half an optimizer step for each agent step, as RL Baselines3 Zoo has for CartPole-v1. The learning rate falls
        # to 0, so that the score of the final weights depends less on the step at which training ends. Greedy scores of
        # 50 games: Acrobot-v1 after 100,000 steps, seed 1: -76 (with VECTOR alone: -500). CartPole-v1 after 50,000
        # steps, seeds 1 to 3: 500, 500 and 176 (with VECTOR alone, seed 1: 176; double Q-learning: 344, 188 and 500;
        # learning rate 5e-4: 112, 446 and 500).
        "vector": {
            **VECTOR,
            "model": {"hidden_sizes": [128, 128], "activation": "relu"},
            "algorithm": {**VECTOR["algorithm"], "target_every_steps": 256, "epsilon_steps": 10_000},
            "replay": {**VECTOR["replay"], "batch_size": 64, "ratio": 32.0},
        },
    },
    optimizers={**OPTIMIZERS, "vector": {"adam": {**OPTIMIZERS["vector"]["adam"], "schedule": "linear"}}},
)
