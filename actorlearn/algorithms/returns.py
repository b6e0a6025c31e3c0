"""Returns: n-step returns and generalised advantage estimation, as pure functions of [T, B] tensors.

As in rlax, names contain the time: `x_t` belongs to the observation that transition t reaches, `x_tm1` ("t minus 1") to
the observation before it. Values must be detached, because returns are constants for the loss.

These returns, and those of V-trace (``vtrace.py``), are computed from the same three tensors:

    rewards     rewards, clipped as the settings say
    discounts   factor of the return after the transition: 0 at a terminal state, else `discount`
    restarts    True where the return after the transition is V(observation reached) instead of the return of the next
                transition: at a truncation and at the end of the rollout
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.settings import AlgorithmSettings


class Outcomes(NamedTuple):
    """Rewards, discounts and restarts of a batch, as the module describes them; each [T, B]."""

    reward_t: Tensor
    discount_t: Tensor
    restart_t: Tensor


def outcomes(batch: Batch, settings: AlgorithmSettings) -> Outcomes:
    """Return rewards, discounts and restarts of a batch, each [T, B]."""
    return Outcomes(rewards(batch, settings), discounts(batch, settings), restarts(batch))


def rewards(batch: Batch, settings: AlgorithmSettings) -> Tensor:
    """Return the rewards [T, B], clipped to [-reward_clip, reward_clip], and 0 for invalid transitions."""
    reward_t = batch.reward.where(batch.valid, 0.0)
    if settings.reward_clip is None:
        return reward_t
    return reward_t.clamp(-settings.reward_clip, settings.reward_clip)


def discounts(batch: Batch, settings: AlgorithmSettings) -> Tensor:
    """Return the discounts [T, B]: 0 at a terminal state and for invalid transitions.

    The settings say whether the loss of a life (`life_loss_terminal`) and a time limit (`bootstrap_on_truncation`)
    count as terminal.
    """
    ended = batch.terminated | ~batch.valid
    if settings.life_loss_terminal:
        ended = ended | batch.life_lost
    if not settings.bootstrap_on_truncation:
        ended = ended | batch.truncated
    return torch.full_like(batch.reward, settings.discount).masked_fill_(ended, 0.0)


def restarts(batch: Batch) -> Tensor:
    """Return where the return bootstraps from V(s_t), [T, B]: at truncations, before resets, at the rollout's end."""
    restart_t = batch.truncated.clone()
    restart_t[:-1] |= ~batch.valid[1:]
    restart_t[-1] = True
    return restart_t


def lambda_returns(outcomes: Outcomes, value_t: Tensor, lambda_: float) -> Tensor:
    """Return the lambda-returns R_tm1 [T, B] for values ``value_t`` = V(s_t) [T, B] of the observations reached.

    R_tm1 = r_t + discount_t * F_t. F_t is V(s_t) where restart_t is True, and lambda R_t + (1 - lambda) V(s_t)
    elsewhere.

    With lambda 1 these are n-step returns, each as long as the rollout allows: T steps for the first transition, one
    step for the last (Mnih et al. 2016; PAAC, algorithm 1, lines 12-15). R_tm1 - V(s_tm1) is the generalised advantage
    estimate (Schulman et al. 2016, equation 16).
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


def mean_over(valid: Tensor, x: Tensor) -> Tensor:
    """Return the mean of x over valid transitions; 0 if none is valid."""
    return x.where(valid, 0.0).sum() / valid.sum().clamp(min=1)


def check_shapes(name: str, *tensors: Tensor) -> None:
    """Raise ValueError unless all tensors have the same shape: broadcasting would silently give wrong numbers.

    ``name`` is the name of the calling function.
    """
    if len({tensor.shape for tensor in tensors}) > 1:
        raise ValueError(f"{name}: shapes {[tuple(tensor.shape) for tensor in tensors]} must all be the same [T, B]")
