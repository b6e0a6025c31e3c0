"""Metrics of the importance ratios of the learning policy to the acting policy, in total and by policy lag.

Pure. All tensors are detached.
"""

from __future__ import annotations

import torch
from torch import Tensor

from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.lags import LAG_CLASSES

DIVERGENCE = "divergence"
"""Name of the metric that ends an update at ``algorithm.target_kl``."""
SAMPLE_SIZE = "effective_sample_size"
"""Name of the metric by which ``optimizer.sample_size_scaling`` scales the learning rate."""


def effective_sample_size(log_ratio: Tensor) -> Tensor:
    """Return the effective sample size of n weights [n], given their logarithms, as a share of n (Kong 1992).

    (sum w)^2 / (n sum w^2) is 1 if all weights are equal, and 1/n if all but one are 0; without weights it is 1.
    """
    if not len(log_ratio):
        return torch.ones((), dtype=log_ratio.dtype, device=log_ratio.device)
    weight = (log_ratio - log_ratio.max()).exp()  # the largest is 1, so that no square overflows
    return weight.sum().square() / (len(weight) * weight.square().sum())


def ratio_metrics(batch: Batch, log_ratio: Tensor, clipped: Tensor) -> dict[str, Tensor]:
    """Return effective sample size and clipped share of the valid transitions, and of each class of lags that occurs.

    ``log_ratio`` [T, B]: log of the ratio of new to acting policy; ``clipped`` [T, B]: the loss clipped the ratio.
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
