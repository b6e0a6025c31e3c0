"""Common keys of a2c, ppo, impala and vaco, and their defaults for all environments except Atari (kind "vector")."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from actorlearn.algorithms.settings import BASE_DEFAULTS, OnPolicySettings, Share


class ActorCriticSettings(OnPolicySettings, frozen=True, kw_only=True):
    """Keys of actor-critics. The defaults are those of the published PAAC code (its paper has entropy cost 0.01)."""

    entropy_cost: Annotated[float, Meta(ge=0, le=1_000, description="weight of the entropy bonus at step 0")] = 0.02
    entropy_cost_final: Annotated[
        Annotated[float, Meta(ge=0, le=1_000)] | None,
        Meta(
            description="weight of the entropy bonus at schedule_steps, reached along schedule; null = entropy_cost is "
            "constant"
        ),
    ] = None
    schedule: Annotated[
        Literal["linear", "cosine"],
        Meta(description="curve to the final values (entropy_cost_final, and PPO's ratio_clip_final)"),
    ] = "linear"
    value_cost: Annotated[
        float, Meta(ge=0, le=1_000, description="weight of (return - value)^2, without a factor 1/2")
    ] = 0.25
    gae_lambda: Annotated[
        Share, Meta(description="lambda of generalised advantage estimation and of V-trace; 1 = n-step returns")
    ] = 1.0


# For cheap environments, measured with a2c on CartPole-v1: 400,000 steps, seeds 1 to 4, mean score of the last 100
# games. These numbers: 500, 500, 500, 500. With entropy_cost 0.01: 471, 261, 475, 458 (a policy that must stay random
# drops the pole). With learning rate 1e-3 as well: 499, 500, 492, 205.
VECTOR = {"algorithm": {**BASE_DEFAULTS["vector"]["algorithm"], "entropy_cost": 0.0, "value_cost": 0.5}}
NORMALIZED = {"model": {"normalize_observation": True}, "algorithm": {**VECTOR["algorithm"], "normalize_reward": True}}
"""VECTOR with normalised observations and rewards: the defaults of a2c and ppo."""
