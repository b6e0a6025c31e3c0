"""Spec of VACO (Honari et al. 2026): its keys, with the defaults of PPO."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from actorlearn.algorithms.settings import AlgorithmSpec, of_known_keys
from actorlearn.algorithms.specs.impala import IMPALASettings
from actorlearn.algorithms.specs.ppo import SPEC as PPO
from actorlearn.metric import Metric


class VACOSettings(IMPALASettings, frozen=True, kw_only=True, tag="vaco"):
    """Keys of VACO; `rho_clip` and `c_clip` limit the ratios of its V-trace, as in IMPALA."""

    variation_limit: Annotated[
        float,
        Meta(
            gt=0,
            le=1_000,
            description="limit of the mean of |ratio - 1| over a minibatch, which is twice the total variation; "
            "beyond it, transitions that would increase the variation are left out",
        ),
    ] = 0.2
    normalize_advantage: Annotated[
        bool, Meta(description="normalise advantages to mean 0 and standard deviation 1 within each minibatch")
    ] = False


SPEC = AlgorithmSpec(
    name="vaco",
    settings=VACOSettings,
    made_by="actorlearn.algorithms.vaco:VACO",
    by_ratio=True,
    parts_of_transitions=True,
    metrics=(
        Metric(
            "total_variation",
            "",
            "half the mean of abs(ratio - 1), where ratio is the probability ratio of the new to the acting policy",
            learning=True,
        ),
    ),
    defaults=of_known_keys(PPO.defaults, VACOSettings),  # VACO has no clips of ratios or values
    optimizers=PPO.optimizers,
)
