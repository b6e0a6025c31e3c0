"""Returns: where they end, where they restart and what they sum, by rules that all algorithms share; pure functions.

Reads a `Batch`'s rewards and boundary columns and the settings; knows no policy and no loss. Time is in the names, as
in rlax: `x_t` belongs to arriving at observation t, `x_tm1` to the observation one step before. All tensors are [T, B],
and no gradient flows: give detached values.

n-step returns, generalised advantages and V-trace need the same three things of a block, and differ only in the sum:

    rewards     what arriving counted for the learner
    discounts   how much of the future it keeps: 0 where the future ends (terminal)
    restarts    where the future is V of the arrival, and not what the next transition collected (truncation, block end)
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.settings import AlgorithmSettings


class Outcomes(NamedTuple):
    """Outcomes of a batch's transitions, as a learner counts them; each [T, B]."""

    reward_t: Tensor
    discount_t: Tensor
    restart_t: Tensor


def outcomes(batch: Batch, settings: AlgorithmSettings) -> Outcomes:
    """Return rewards, discounts and restarts of a batch."""
    return Outcomes(rewards(batch, settings), discounts(batch, settings), restarts(batch))


def rewards(batch: Batch, settings: AlgorithmSettings) -> Tensor:
    """Return the learner's rewards: a batch's cut to [-reward_clip, reward_clip], 0 where the transition is invalid."""
    reward_t = batch.reward.where(batch.valid, 0.0)
    if settings.reward_clip is None:
        return reward_t
    return reward_t.clamp(-settings.reward_clip, settings.reward_clip)


def discounts(batch: Batch, settings: AlgorithmSettings) -> Tensor:
    """Return the discount, or 0 where the learner's episode ends by the settings or the transition is invalid."""
    ended = batch.terminated | ~batch.valid
    if settings.life_loss_terminal:
        ended = ended | batch.life_lost
    if not settings.bootstrap_on_truncation:
        ended = ended | batch.truncated
    return torch.full_like(batch.reward, settings.discount).masked_fill_(ended, 0.0)


def restarts(batch: Batch) -> Tensor:
    """Return True where the next transition does not continue this one: truncated, before a reset, or last row."""
    restart_t = batch.truncated.clone()
    restart_t[:-1] |= ~batch.valid[1:]
    restart_t[-1] = True
    return restart_t


def lambda_returns(outcomes: Outcomes, value_t: Tensor, lambda_: float) -> Tensor:
    """Return R_tm1 = r_t + discount_t * (V(s_t) where the return restarts, else lambda R_t + (1 - lambda) V(s_t)).

    With lambda 1 these are n-step returns, each as long as the block allows: row 0 gets the T-step return and row T-1
    the one-step return (Mnih et al. 2016; PAAC, algorithm 1, lines 12-15). R_tm1 - V(s_tm1) is the generalised
    advantage estimate (Schulman et al. 2016, equation 16).
    """
    check_shapes("lambda_returns", *outcomes, value_t)
    reward_t, discount_t, restart_t = outcomes
    returns_tm1 = torch.empty_like(value_t)
    future = value_t[-1]  # [B]
    # Work backwards; `where` and not a product, so that nothing, not even NaN, passes a restart.
    for t in reversed(range(len(reward_t))):
        if lambda_ != 1.0:
            future = lambda_ * future + (1.0 - lambda_) * value_t[t]
        future = reward_t[t] + discount_t[t] * torch.where(restart_t[t], value_t[t], future)
        returns_tm1[t] = future
    return returns_tm1


class VTrace(NamedTuple):
    """Value targets, and advantages before and after they are weighted by rho; each [T, B]."""

    target_tm1: Tensor
    error_tm1: Tensor
    """r + discount * V-trace's value of the arrival - V: the advantage of an action, whoever chose it."""
    advantage_tm1: Tensor
    """The same times rho, for a policy gradient without a ratio of its own."""


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
    """Correct returns for actions that another policy chose (Espeholt et al. 2018, section 4.1; lambda as in rlax).

    `ratio_tm1` is pi(a|s) / mu(a|s) of the learner's and the acting policy; rho and c are that, cut at `rho_clip` and
    `c_clip`, c also times `lambda_`. With ratios of 1, and no clip below, the targets are `lambda_returns` and the
    advantages generalised ones.
    """
    check_shapes("vtrace", *outcomes, value_tm1, value_t, ratio_tm1)
    reward_t, discount_t, restart_t = outcomes
    rho_tm1 = ratio_tm1.clamp(max=rho_clip)
    c_tm1 = lambda_ * ratio_tm1.clamp(max=c_clip)
    delta_tm1 = rho_tm1 * (reward_t + discount_t * value_t - value_tm1)
    target_t = torch.empty_like(value_t)  # v_s of the arrival: V(s_t) where the next transition is no continuation
    target_tm1 = torch.empty_like(value_t)
    following = value_t[-1]  # [B]
    for t in reversed(range(len(reward_t))):
        target_t[t] = torch.where(restart_t[t], value_t[t], following)
        following = value_tm1[t] + delta_tm1[t] + discount_t[t] * c_tm1[t] * (target_t[t] - value_t[t])
        target_tm1[t] = following
    future_t = torch.lerp(value_t, target_t, lambda_)
    error_tm1 = reward_t + discount_t * future_t - value_tm1
    return VTrace(target_tm1, error_tm1, rho_tm1 * error_tm1)


def mean_over(valid: Tensor, x: Tensor) -> Tensor:
    """Return the mean of x over valid transitions; 0 when none is valid."""
    return x.where(valid, 0.0).sum() / valid.sum().clamp(min=1)


def check_shapes(name: str, *tensors: Tensor) -> None:
    """Refuse tensors that are not one number for each transition, as broadcasting would give numbers without sense."""
    if len({tensor.shape for tensor in tensors}) > 1:
        raise ValueError(f"{name}: shapes {[tuple(tensor.shape) for tensor in tensors]} must be one [T, B]")
