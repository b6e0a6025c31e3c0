"""Spec of SAC: its keys, with the numbers of Haarnoja et al. 2018b ("Algorithms and Applications")."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from actorlearn.algorithms.settings import (
    OFF_POLICY_DEFAULTS,
    AlgorithmSpec,
    EpsilonSchedule,
    OffPolicySettings,
    Polyak,
)
from actorlearn.metric import Metric


class SACSettings(OffPolicySettings, frozen=True, kw_only=True, tag="sac"):
    """Keys of soft actor-critic."""

    target_rate: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="tau of Polyak averaging: fraction of the way that each optimizer step moves the target "
            "critics towards the critics",
        ),
    ] = 0.005
    target_entropy: Annotated[
        Annotated[float, Meta(ge=-10_000, le=10_000)] | None,
        Meta(
            description="entropy, in nats, towards which the temperature steers the policy; null = -1 for each "
            "component of an action"
        ),
    ] = None
    random_steps: Annotated[
        int,
        Meta(
            ge=0,
            le=10**12,
            description="agent steps of all environments at the start that take uniformly random actions",
        ),
    ] = 10_000

    @property
    def target(self) -> Polyak:
        """Polyak averaging: each optimizer step moves the target critics by the share ``target_rate``."""
        return Polyak(self.target_rate)

    @property
    def exploration(self) -> EpsilonSchedule | None:
        """Schedule of uniformly random actions for the first ``random_steps`` steps; None without such steps."""
        if not self.random_steps:
            return None
        return EpsilonSchedule(
            initial=1.0, final=0.0, final_min=None, hold_steps=self.random_steps - 1, steps=1, evaluation=0.0
        )


SPEC = AlgorithmSpec(
    name="sac",
    settings=SACSettings,
    made_by="actorlearn.algorithms.sac:SAC",
    replayed=True,
    unit_actions=True,
    metrics=(Metric("temperature", "", "weight of the policy's entropy relative to the reward", learning=True),),
    defaults={
        "atari": {},
        "vector": {
            **OFF_POLICY_DEFAULTS["vector"],
            "env": {"scale_actions": True},
            "model": {"name": "mlp", "hidden_sizes": [256, 256], "activation": "relu"},
            "algorithm": {**OFF_POLICY_DEFAULTS["vector"]["algorithm"], "horizon": 1, "random_steps": 1_000},
            "replay": {
                "capacity_steps": 1_000_000,
                "batch_size": 256,
                "ratio": 256.0,  # one optimizer step per agent step
                "learning_starts_steps": 1_000,
            },
        },
    },
    optimizers={
        "vector": {
            "adam": {"learning_rate": 3e-4, "schedule": "constant", "epsilon": 1e-8, "clip_norm": 0.0},
        },
    },
)
