"""Returns: where they end, where they restart and what they sum, by common rules of all algorithms; pure functions.

Reads a `Batch`'s rewards and flags, and the settings. Names have the time, as in rlax: `x_t` belongs to the arrival at
observation t, `x_tm1` to the previous observation. All tensors are [T, B]; values must be detached, because no gradient
is intended.

n-step returns, generalised advantages and V-trace need the same three tensors of a block and differ only in the sum:

    rewards     the learner's rewards
    discounts   factor of the future: 0 where it ends (terminal)
    restarts    where the future is V of the observation reached, and not the next transition's return (truncation, end
                of the block)
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.settings import AlgorithmSettings


class Outcomes(NamedTuple):
    """Outcomes of a batch's transitions for the learner; each [T, B]."""

    reward_t: Tensor
    discount_t: Tensor
    restart_t: Tensor


def outcomes(batch: Batch, settings: AlgorithmSettings) -> Outcomes:
    """Return rewards, discounts and restarts of a batch."""
    return Outcomes(rewards(batch, settings), discounts(batch, settings), restarts(batch))


def rewards(batch: Batch, settings: AlgorithmSettings) -> Tensor:
    """Return the learner's rewards: clipped to [-reward_clip, reward_clip], and 0 for invalid transitions."""
    reward_t = batch.reward.where(batch.valid, 0.0)
    if settings.reward_clip is None:
        return reward_t
    return reward_t.clamp(-settings.reward_clip, settings.reward_clip)


def discounts(batch: Batch, settings: AlgorithmSettings) -> Tensor:
    """Return the discount; 0 where the episode ends according to the settings, and for invalid transitions."""
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
    # Backwards in time; `where` and not a product, so that not even NaN passes a restart.
    for t in reversed(range(len(reward_t))):
        if lambda_ != 1.0:
            future = lambda_ * future + (1.0 - lambda_) * value_t[t]
        future = reward_t[t] + discount_t[t] * torch.where(restart_t[t], value_t[t], future)
        returns_tm1[t] = future
    return returns_tm1


class VTrace(NamedTuple):
    """Value targets, and advantages before and after multiplication by rho; each [T, B]."""

    target_tm1: Tensor
    error_tm1: Tensor
    """r + discount * V-trace's value of the next observation - V: the advantage, not multiplied by rho."""
    advantage_tm1: Tensor
    """The advantage times rho, for a policy gradient that does not include a ratio itself."""


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
    """Correct returns for actions of another policy (Espeholt et al. 2018, section 4.1; lambda as in rlax).

    `ratio_tm1` is pi(a|s) / mu(a|s) of the learner's and the acting policy. rho and c are this ratio clipped at
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


def mean_over(valid: Tensor, x: Tensor) -> Tensor:
    """Return the mean of x over valid transitions; 0 if none is valid."""
    return x.where(valid, 0.0).sum() / valid.sum().clamp(min=1)


def check_shapes(name: str, *tensors: Tensor) -> None:
    """Raise ValueError unless all tensors have the same shape: broadcasting would give wrong numbers."""
    if len({tensor.shape for tensor in tensors}) > 1:
        raise ValueError(f"{name}: shapes {[tuple(tensor.shape) for tensor in tensors]} must all be the same [T, B]")
