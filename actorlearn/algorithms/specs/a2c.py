"""Spec of A2C: its keys, with PAAC's numbers (Clemente et al. 2017)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from actorlearn.algorithms.settings import AlgorithmSpec
from actorlearn.algorithms.specs.actor_critic import NORMALIZED, ActorCriticSettings


class A2CSettings(ActorCriticSettings, frozen=True, kw_only=True, tag="a2c"):
    """Keys of advantage actor-critic (A2C)."""

    return_steps: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(
            description="the rollout is divided into parts of this many steps, and the returns within a part "
            "bootstrap from the value at its end; null = the horizon"
        ),
    ] = None


SPEC = AlgorithmSpec(
    name="a2c",
    settings=A2CSettings,
    made_by="actorlearn.algorithms.a2c:A2C",
    defaults={
        # The settings' defaults are PAAC as its authors released it (configs/atari/paac.yaml lists how the paper
        # differs). The learning rate is 0.0007 x 32 environments, for loss_scale 5.
        "atari": {},
        # Greedy scores of 100 games after 500,000 steps, seeds 1 to 3, with normalised observations and rewards:
        # Acrobot-v1 -84, -81 and -86 (without, three random seeds: -500), CartPole-v1 500, 500 and 500. MountainCar-v0
        # after 1,000,000 steps, seed 1: -133.
        "vector": NORMALIZED,
    },
)
