"""Spec of PPO (Schulman et al. 2017): its keys, and their defaults for kinds of environments."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from actorlearn.algorithms.settings import AlgorithmSpec
from actorlearn.algorithms.specs.actor_critic import NORMALIZED, ActorCriticSettings
from actorlearn.metric import Metric


class PPOSettings(ActorCriticSettings, frozen=True, kw_only=True, tag="ppo"):
    """Keys of proximal policy optimisation."""

    ratio_clip: Annotated[
        float, Meta(gt=0, le=1_000, description="PPO's clipping range of the probability ratio at step 0")
    ] = 0.2
    ratio_clip_final: Annotated[
        Annotated[float, Meta(ge=0, le=1_000)] | None,
        Meta(description="clipping range at schedule_steps, reached along schedule; null = ratio_clip is constant"),
    ] = None
    value_clip: Annotated[
        Annotated[float, Meta(gt=0, le=1_000_000)] | None,
        Meta(
            description="PPO's clipping range of value changes: a value that moved further contributes the larger of "
            "its clipped and unclipped error; null = no clipping"
        ),
    ] = None
    normalize_advantage: Annotated[
        bool, Meta(description="normalise advantages to mean 0 and standard deviation 1 within each minibatch")
    ] = False
    proximal: Annotated[
        Literal["behaviour", "recomputed", "interpolated"],
        Meta(
            description="the proximal policy. PPO clips the probability ratio of the new policy to it, and multiplies "
            "advantages by the ratio of the proximal to the acting policy. behaviour = the acting policy, "
            "as in the PPO paper; recomputed = the policy before the update (decoupled PPO), which needs "
            "one more forward pass; interpolated = between the acting and the new policy, by the policy "
            "lag (A-3PO)"
        ),
    ] = "behaviour"
    weight_clip: Annotated[
        Annotated[float, Meta(gt=0, le=1_000_000)] | None,
        Meta(
            description="limit of the ratio of the proximal to the acting policy, by which advantages are multiplied; "
            "null = not limited"
        ),
    ] = None
    advantages: Annotated[
        Literal["recorded", "vtrace"],
        Meta(
            description="values from which advantages and returns are computed; recorded = those of the weights "
            "that acted; vtrace = those of the weights before the update, with V-trace correction, at "
            "the cost of one more forward pass"
        ),
    ] = "recorded"

    target_kl: Annotated[
        Annotated[float, Meta(gt=0, le=1_000)] | None,
        Meta(
            description="limit of KL(acting policy, new policy), in nats. When the estimate over a minibatch exceeds "
            "1.5 times this value, the update leaves out its remaining minibatches and epochs, as in "
            "Stable-Baselines3; CleanRL compares with the value itself, after each epoch. null = no limit"
        ),
    ] = None

    @property
    def divergence_limit(self) -> float | None:
        """Limit of the metric ``divergence``: above it an update skips its remaining minibatches. None: no limit."""
        return None if self.target_kl is None else 1.5 * self.target_kl  # the factor is that of Stable-Baselines3

    @property
    def passes_before(self) -> bool:
        """Whether one more forward pass must compute the outputs for the whole batch before the epochs."""
        return self.proximal == "recomputed" or self.advantages == "vtrace"


SPEC = AlgorithmSpec(
    name="ppo",
    settings=PPOSettings,
    made_by="actorlearn.algorithms.ppo:PPO",
    by_ratio=True,
    parts_of_transitions=True,
    metrics=(
        Metric("divergence", "nats", "estimate of KL(acting policy, new policy)", learning=True, per_learner=True),
        Metric(
            "learned_share",
            "",
            "with algorithm.target_kl: share of an update's minibatches that were learned from before "
            "this limit ended the update",
            learning=True,
        ),
    ),
    defaults={
        # 32 environments x 64 steps. Minibatches of 256, lambda, entropy cost and clip are the paper's. The paper has
        # batches of 8 x 128 steps, 3 epochs and a quarter of this learning rate; its rate and clip fall to 0.
        "atari": {
            "algorithm": {
                "horizon": 64,
                "entropy_cost": 0.01,
                "value_cost": 0.5,
                "loss_scale": 1.0,
                "gae_lambda": 0.95,
                "ratio_clip": 0.1,
                "normalize_advantage": True,
                "epochs": 4,
                "minibatches": 8,
            },
            "optimizer": {"name": "adam"},
        },
        # Greedy scores of 50 games, seed 1, with normalised observations and rewards: MountainCar-v0 after 300,000
        # steps -109 (without: -200, as at the start), Acrobot-v1 after 300,000 -76, LunarLander-v3 after 500,000 224,
        # CartPole-v1 after 100,000 500, FrozenLake-v1 after 100,000 0.8 (without: 0.9).
        "vector": {
            **NORMALIZED,
            "algorithm": {
                **NORMALIZED["algorithm"],
                "horizon": 64,
                "gae_lambda": 0.95,
                "normalize_advantage": True,
                "epochs": 8,
                "minibatches": 4,
            },
        },
        # The numbers of OpenAI baselines, CleanRL and Stable-Baselines3 for MuJoCo, except for minibatches of 256 at
        # learning rate 1e-3 instead of 64 at 3e-4, and an initial deviation of exp(-1). HalfCheetah-v5, one seed, mean
        # of the last 100 games after 300,000 steps in 8 environments x 256 steps: 3,229. With an initial deviation of
        # 1: 1,223. With minibatches of 64 as well: 1,007, after 268,000 steps.
        "continuous": {
            "model": {"init": "orthogonal", "log_std_init": -1.0, "normalize_observation": True},
            "algorithm": {
                "horizon": 128,
                "value_cost": 0.25,
                "normalize_reward": True,
                "reward_clip": 10.0,
                "epochs": 10,
                "minibatches": 8,
            },
        },
    },
    optimizers={
        "vector": {"adam": {"learning_rate": 1e-3, "epsilon": 1e-5, "clip_norm": 0.5}},
        "continuous": {"adam": {"learning_rate": 1e-3, "epsilon": 1e-5, "clip_norm": 0.5}},
    },
)
