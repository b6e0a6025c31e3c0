"""Spec of IMPALA: its keys, with the numbers of Espeholt et al. 2018, appendix G."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from actorlearn.algorithms.settings import AlgorithmSpec
from actorlearn.algorithms.specs.actor_critic import VECTOR, ActorCriticSettings
from actorlearn.metric import Metric

Ratio = Annotated[float, Meta(gt=0, le=1_000_000)]


class IMPALASettings(ActorCriticSettings, frozen=True, kw_only=True, tag="impala"):
    """Keys of IMPALA."""

    rho_clip: Annotated[
        Ratio,
        Meta(
            description="V-trace's rho-bar: largest importance ratio for temporal-difference errors and the policy "
            "gradient"
        ),
    ] = 1.0
    c_clip: Annotated[
        Ratio, Meta(description="V-trace's c-bar: largest importance ratio for carrying an error back by one step")
    ] = 1.0


SPEC = AlgorithmSpec(
    name="impala",
    settings=IMPALASettings,
    made_by="actorlearn.algorithms.impala:IMPALA",
    by_ratio=True,
    metrics=(Metric("ratio_mean", "", "mean probability ratio of the new to the acting policy", learning=True),),
    defaults={
        # A batch is 32 trajectories of 20 steps, losses are sums, and the weight of the squared error is a half of 0.5.
        "atari": {
            "algorithm": {"horizon": 20, "entropy_cost": 0.01, "loss_scale": 1.0, "reduction": "sum"},
            "simulators": {"blocks": 2},
        },
        # On CartPole-v1 seeds 1 and 2 reach a mean of 475 after 165,000 and 190,000 steps, and have 500 at the end. On
        # Catch both stay near 0.6. V-trace is not the reason: with entropy_cost 0, also with a2c, a policy that no
        # longer tries to catch in a column never does so again. On Catch an entropy_cost of 0.05 that falls to 0 gives
        # 1.0 within 75,000 steps, and one of 0.02 does not. On CartPole-v1 the policy collapses with either of them.
        # More seeds were not tried.
        "vector": {**VECTOR, "simulators": {"blocks": 2}},
    },
    optimizers={
        # Epsilon is inside the root and the accumulator begins at 1, as in TensorFlow.
        "atari": {"rmsprop": {"learning_rate": 6e-4, "epsilon": 0.01, "clip_norm": 40.0}},
    },
)
