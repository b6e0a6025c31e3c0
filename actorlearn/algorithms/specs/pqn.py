"""Spec of PQN: its keys, with the numbers of Gallici et al. 2024, from the configs of the authors' code.

T is the horizon: agent steps per environment in a rollout. "1 -> .001" is a number that falls linearly.

    number               Atari (the defaults)      MinAtar              CartPole             CleanRL, CartPole
    environments x T     128 x 32                  128 x 32             32 x 64              4 x 128
    epochs, minibatch    2, of 128                 2, of 128            4, of 128            4, of 128
    q_lambda             0.65                      0.65                 0.95                 0.65
    learning rate        2.5e-4                    5e-4 -> 0            1e-4 -> 0            2.5e-4 -> 0
    epsilon              1 -> .001                 1 -> .05             1 -> .2              1 -> .05
    in                   a tenth of 10M steps      a tenth of 10M       a fifth of 500,000   a half of 500,000
    network              nature                    16 of 3x3, 128       256, 256             120, 84
    rewards              clipped to +-1            raw                  times 0.1            raw

All have LayerNorm before each ReLU, gradients clipped to a norm of 10, and RAdam.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from actorlearn.algorithms.settings import BASE_DEFAULTS, AlgorithmSpec, EpsilonSchedule, OnPolicySettings, Share
from actorlearn.algorithms.specs.q_learning import (
    Dueling,
    EpsilonFinal,
    EpsilonInitial,
    EpsilonOfEvaluations,
    EpsilonSteps,
)


class PQNSettings(OnPolicySettings, frozen=True, kw_only=True, tag="pqn"):
    """Keys of the parallelised Q-network; the defaults are those of the authors' Atari config."""

    q_lambda: Annotated[
        Share,
        Meta(description="lambda of the returns; 0 = one-step returns, 1 = returns over all steps of the rollout"),
    ] = 0.65
    dueling: Dueling = False
    epsilon_initial: EpsilonInitial = 1.0
    epsilon_final: EpsilonFinal = 0.001
    epsilon_steps: EpsilonSteps = 1_000_000
    epsilon_eval: EpsilonOfEvaluations = 0.0

    @property
    def exploration(self) -> EpsilonSchedule:
        """Schedule of the share of random actions, which falls from the first step of the run."""
        return EpsilonSchedule(
            initial=self.epsilon_initial,
            final=self.epsilon_final,
            final_min=None,
            hold_steps=0,
            steps=self.epsilon_steps,
            evaluation=self.epsilon_eval,
        )


_RADAM = {"rectified": True, "epsilon": 1e-8, "clip_norm": 10.0}

SPEC = AlgorithmSpec(
    name="pqn",
    settings=PQNSettings,
    made_by="actorlearn.algorithms.pqn:PQN",
    parts_of_transitions=True,
    defaults={
        # Minibatches of 128, as in their code, with 32 environments (configs/atari/pqn.yaml has the authors' 128).
        "atari": {
            "env": {"preset": "dqn"},
            "model": {"name": "nature", "layer_norm": True},
            "algorithm": {
                "horizon": 32,
                "loss_scale": 1.0,
                "life_loss_terminal": True,
                "epochs": 2,
                "minibatches": 8,
            },
            "optimizer": {"name": "adam"},
        },
        "vector": {
            "model": {"layer_norm": True, "activation": "relu"},
            "algorithm": {
                **BASE_DEFAULTS["vector"]["algorithm"],
                "horizon": 64,
                "q_lambda": 0.95,
                "epochs": 4,
                "minibatches": 8,
                "epsilon_final": 0.05,
                "epsilon_steps": 50_000,
            },
            "optimizer": {"name": "adam"},
        },
    },
    optimizers={
        "atari": {"adam": {**_RADAM, "learning_rate": 2.5e-4, "schedule": "constant"}},
        "vector": {"adam": {**_RADAM, "learning_rate": 1e-3}},
    },
)
