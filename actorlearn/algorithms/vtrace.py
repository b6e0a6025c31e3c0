"""V-trace: targets of values, and advantages, that are corrected for the policy that acted (Espeholt et al. 2018).

As in ``returns.py``, names contain the time, tensors are [T, B], and values must be detached.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.returns import Outcomes, check_shapes, outcomes
from actorlearn.algorithms.specs.actor_critic import ActorCriticSettings


class VTrace(NamedTuple):
    """Value targets and advantages by V-trace; each [T, B]."""

    target_tm1: Tensor
    error_tm1: Tensor
    """Advantage without the factor rho: r_t + discount_t * (target of the next observation) - V(s_tm1)."""
    advantage_tm1: Tensor
    """`error_tm1` times rho, the clipped ratio: for a policy gradient without a ratio of its own."""


def corrected(
    batch: Batch, settings: ActorCriticSettings, value: Tensor, ratio_tm1: Tensor, rho_clip: float, c_clip: float
) -> VTrace:
    """Return targets and advantages of a batch for values [T+1, B] and importance ratios [T, B]."""
    counted, lambda_ = outcomes(batch, settings), settings.gae_lambda
    return vtrace(counted, value[:-1], value[1:], ratio_tm1, rho_clip=rho_clip, c_clip=c_clip, lambda_=lambda_)


def vtrace(
    outcomes: Outcomes,
    value_tm1: Tensor,
    value_t: Tensor,
    ratio_tm1: Tensor,
    *,
    rho_clip: float,
    c_clip: float,
    lambda_: float,
) -> VTrace:
    """Return targets and advantages when another policy acted (Espeholt et al. 2018, section 4.1; lambda as in rlax).

    `value_tm1` and `value_t` [T, B] are the values of the observations before and after each transition. `ratio_tm1` is
    pi(a|s) / mu(a|s), where pi is the learner's policy and mu the acting policy. rho and c are this ratio clipped at
    `rho_clip` and `c_clip`; c is also multiplied by `lambda_`. With ratios of 1 and clips of 1 or more the targets are
    `lambda_returns`, and the advantages are generalised advantage estimates.
    """
    check_shapes("vtrace", *outcomes, value_tm1, value_t, ratio_tm1)
    reward_t, discount_t, restart_t = outcomes
    rho_tm1 = ratio_tm1.clamp(max=rho_clip)
    c_tm1 = lambda_ * ratio_tm1.clamp(max=c_clip)
    delta_tm1 = rho_tm1 * (reward_t + discount_t * value_t - value_tm1)
    target_t = torch.empty_like(value_t)  # v_s of the next observation; V(s_t) where the return restarts
    target_tm1 = torch.empty_like(value_t)
    following = value_t[-1]  # [B]
    for t in reversed(range(len(reward_t))):
        target_t[t] = torch.where(restart_t[t], value_t[t], following)
        following = value_tm1[t] + delta_tm1[t] + discount_t[t] * c_tm1[t] * (target_t[t] - value_t[t])
        target_tm1[t] = following
    future_t = torch.lerp(value_t, target_t, lambda_)
    error_tm1 = reward_t + discount_t * future_t - value_tm1
    return VTrace(target_tm1, error_tm1, rho_tm1 * error_tm1)
