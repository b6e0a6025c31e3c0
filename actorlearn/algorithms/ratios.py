"""Metrics of importance ratios, for all transitions and for each class of policy lags (`lags.LAG_CLASSES`).

A ratio is an action's probability under the policy that learns, divided by that under the policy that chose it. All
tensors are detached.
"""

from __future__ import annotations

import torch
from torch import Tensor

from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.lags import LAG_CLASSES

DIVERGENCE = "divergence"
"""Name of the metric that estimates KL(acting policy, new policy); ``algorithm.target_kl`` limits it."""
SAMPLE_SIZE = "effective_sample_size"
"""Name of the metric by which ``optimizer.sample_size_scaling`` multiplies the learning rate."""


def effective_sample_size(log_ratio: Tensor) -> Tensor:
    """Return the effective sample size of n importance weights w as a share of n: (sum w)^2 / (n sum w^2) (Kong 1992).

    ``log_ratio`` [n] has the logarithms of the weights. The result is 1 if all weights are equal or n is 0, and 1/n if
    all weights but one are 0.
    """
    if not len(log_ratio):
        return torch.ones((), dtype=log_ratio.dtype, device=log_ratio.device)
    weight = (log_ratio - log_ratio.max()).exp()  # divided by the largest, so that no square overflows
    return weight.sum().square() / (len(weight) * weight.square().sum())


def ratio_metrics(batch: Batch, log_ratio: Tensor, clipped: Tensor) -> dict[str, Tensor]:
    """Return two metrics of the valid transitions: "effective_sample_size" and "clipped_share".

    For each class of policy lags that occurs in the batch, the result also has both metrics with the class's name as
    suffix. ``log_ratio`` [T, B] is the logarithm of each ratio; ``clipped`` [T, B] is True where the loss clipped it.
    """
    valid = batch.valid
    lag, log_ratio, clipped = batch.policy_lag[valid], log_ratio[valid], clipped[valid].float()
    found = {SAMPLE_SIZE: effective_sample_size(log_ratio), "clipped_share": _mean(clipped)}
    oldest, youngest = (int(lag.max()), int(lag.min())) if len(lag) else (-1, 0)
    for each in LAG_CLASSES:
        if youngest in each and oldest in each:  # the usual case: one version acted in the whole rollout
            found |= {f"{name}_{each.name}": value for name, value in found.items()}
            break
        if each.first <= oldest and (each.last is None or each.last >= youngest):
            of_class = lag >= each.first if each.last is None else (lag >= each.first) & (lag <= each.last)
            if len(ratios := log_ratio[of_class]):
                found[f"{SAMPLE_SIZE}_{each.name}"] = effective_sample_size(ratios)
                found[f"clipped_share_{each.name}"] = _mean(clipped[of_class])
    return found


def _mean(x: Tensor) -> Tensor:
    return x.sum() / max(len(x), 1)
