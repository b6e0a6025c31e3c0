"""Common keys of the value-based algorithms, for exploration and targets, and their defaults by kind of environment.

The table has the values in the papers' code. Epsilon is the share of random actions, "eval" that in evaluations:

    system                 double dueling n_step  epsilon            over agent steps  target_every_steps
    Nature DQN, fast-DQN   no     no      1       1 -> .1, eval .05     1,000,000            10,000
    accel_rl C51           no     no      1       1 -> .01, eval .001   1,000,000            10,000
    accel_rl eps-Rainbow   yes    yes     3       1 -> .01, eval .001      62,500             8,000
    Rainbow (noisy)        yes    yes     3       0                             -             8,000
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from actorlearn.algorithms.settings import OFF_POLICY_DEFAULTS, EpsilonSchedule, HardCopySettings, Share

Dueling = Annotated[bool, Meta(description="dueling heads: the state's value plus each action's advantage")]
EpsilonInitial = Annotated[Share, Meta(description="initial share of random actions")]
EpsilonFinal = Annotated[Share, Meta(description="final share of random actions, reached linearly")]
EpsilonSteps = Annotated[
    int, Meta(ge=1, le=10**12, description="agent steps of all environments during which epsilon falls")
]
EpsilonOfEvaluations = Annotated[
    Share, Meta(description="share of random actions in evaluations with evaluator.greedy: false")
]


class QSettings(HardCopySettings, frozen=True, kw_only=True):
    """Keys of the value-based algorithms with a replay. The defaults are those of Nature DQN (Mnih et al. 2015)."""

    double: Annotated[
        bool,
        Meta(description="double Q-learning: the network selects the next action and the target network evaluates it"),
    ] = False  # van Hasselt et al. 2016
    dueling: Dueling = False  # Wang et al. 2016
    epsilon_initial: EpsilonInitial = 1.0
    epsilon_final: EpsilonFinal = 0.1
    epsilon_final_min: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        Meta(
            description="final share of random actions in environment 0; the shares of the other environments are "
            "log-spaced from this to epsilon_final; null = all environments have epsilon_final"
        ),
    ] = None
    epsilon_hold_steps: Annotated[
        int, Meta(ge=0, le=10**12, description="agent steps before epsilon starts to fall")
    ] = 50_000
    epsilon_steps: EpsilonSteps = 1_000_000
    epsilon_eval: EpsilonOfEvaluations = 0.05

    @property
    def exploration(self) -> EpsilonSchedule:
        """Schedule of the share of random actions, which falls along the run."""
        return EpsilonSchedule(
            initial=self.epsilon_initial,
            final=self.epsilon_final,
            final_min=self.epsilon_final_min,
            hold_steps=self.epsilon_hold_steps,
            steps=self.epsilon_steps,
            evaluation=self.epsilon_eval,
        )

    def __post_init__(self) -> None:
        least = self.epsilon_final_min
        if least is not None and least > self.epsilon_final:
            raise ValueError(
                f"algorithm.epsilon_final_min: {least!r} must be at most epsilon_final, {self.epsilon_final}, or null"
            )


ATARI: dict[str, dict[str, Any]] = {
    # Nature DQN as in fast-DQN (Daley and Amato 2021; configs/atari/dqn.yaml has details).
    "env": {"preset": "dqn"},
    "model": {"name": "nature"},
    "algorithm": {"horizon": 4, "loss_scale": 1.0, "life_loss_terminal": True},
    "optimizer": {"name": "rmsprop"},
}
VECTOR: dict[str, Mapping[str, Any]] = {
    **OFF_POLICY_DEFAULTS["vector"],
    "algorithm": {
        **OFF_POLICY_DEFAULTS["vector"]["algorithm"],
        "horizon": 4,
        "target_every_steps": 1_000,
        "epsilon_final": 0.05,
        "epsilon_hold_steps": 0,
        "epsilon_steps": 20_000,
    },
    "optimizer": {"name": "adam"},
}

# The learning rate is constant, because runs are compared at many different steps and not only at their end.
_RATE: dict[str, Any] = {"learning_rate": 2.5e-4, "schedule": "constant", "clip_norm": 0.0}
_CHEAP: dict[str, Any] = {"learning_rate": 1e-3, "schedule": "constant", "epsilon": 1e-5, "clip_norm": 10.0}
OPTIMIZERS = {
    "atari": {
        "rmsprop": _RATE
        | {
            "decay": 0.95,
            "epsilon": 0.01,
            "epsilon_inside_root": False,
            "accumulator_init": 0.0,
            "centered": True,
        },
        "adam": _RATE | {"epsilon": 0.01 / 32, "epsilon_hat": True},
    },
    "vector": {"adam": _CHEAP},
}
