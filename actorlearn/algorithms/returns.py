"""Where returns end, restart and what they sum: the episode rules every algorithm shares, as pure functions.

Reads a `Batch`'s rewards and boundary columns and the settings; knows no policy and no loss. Time is in the names, as
in rlax: `x_t` belongs to arriving at observation t, `x_tm1` to the observation one step before. All tensors are [T, B].

An n-step return, generalised advantages and V-trace need the same three things of a block, and differ only in the sum:

    rewards     what arriving counted for the learner
    discounts   how much of the future it keeps: 0 where the future ends (terminal)
    restarts    where the future is V of the arrival, and not what the next transition collected (truncation, block end)
"""

from __future__ import annotations

import torch
from torch import Tensor

from actorlearn.algorithms.interface import AlgorithmSettings, Batch


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


def n_step_returns(reward_t: Tensor, discount_t: Tensor, value_t: Tensor, restart_t: Tensor) -> Tensor:
    """Return R_tm1 = r_t + discount_t * (V(s_t) where the return restarts, else R_t), each as long as the block allows.

    Row 0 gets the T-step return and row T-1 the one-step return (Mnih et al. 2016; PAAC, algorithm 1, lines 12-15).
    No gradient flows: give detached values.
    """
    if not reward_t.shape == discount_t.shape == value_t.shape == restart_t.shape:
        shapes = [tuple(x.shape) for x in (reward_t, discount_t, value_t, restart_t)]
        raise ValueError(f"n_step_returns: shapes {shapes} of reward, discount, value, restart must be one [T, B]")
    returns_tm1 = torch.empty_like(value_t)
    future = value_t[-1]  # [B]
    # Work backwards; `where` and not a product, so that nothing, not even NaN, passes a restart.
    for t in reversed(range(len(reward_t))):
        future = reward_t[t] + discount_t[t] * torch.where(restart_t[t], value_t[t], future)
        returns_tm1[t] = future
    return returns_tm1


def mean_over(valid: Tensor, x: Tensor) -> Tensor:
    """Return the mean of x over valid transitions; 0 when none is valid."""
    return x.where(valid, 0.0).sum() / valid.sum().clamp(min=1)
