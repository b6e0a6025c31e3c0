"""Reward scaling: divides rewards by the running standard deviation of the discounted return.

Only the rewards that are learned from are scaled. Scores are sums of raw rewards.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from actorlearn.algorithms.interface import Batch
from actorlearn.models.normalize import EPSILON, Moments


class RunningReturns(NamedTuple):
    """Running discounted returns of environments, and their statistics."""

    moments: Moments
    """Mean and variance of the discounted returns at all steps so far."""
    running: dict[str, Tensor]
    """Discounted return of the current game of each environment: owner -> float64 [environments of the owner]."""

    @property
    def deviation(self) -> float:
        """Standard deviation of the discounted returns, by which rewards are divided."""
        return float((self.moments.variance + EPSILON).sqrt())


class RewardScale:
    """Divides rewards by the running standard deviation of the discounted return; no mean is subtracted.

    OpenAI baselines' VecNormalize and gymnasium's NormalizeReward do so step by step. Here the returns of all steps of
    a batch enter the statistics before its rewards are divided.

    The returns of a restarted or attached simulator begin at 0.
    """

    def __init__(self, discount: float) -> None:
        self._discount = discount
        self._returns = RunningReturns(Moments.of(torch.zeros(0)), {})

    def scale(self, batch: Batch, owners: Sequence[tuple[str, int]]) -> tuple[Batch, RunningReturns]:
        """Return the batch with scaled rewards, and the new statistics, which take effect in `note_learned`.

        Until then a batch can be gathered and scaled again. ``owners`` lists the groups of environments as (name,
        number of environments), in the order of the batch's second dimension.
        """
        first, reward = batch.first.cpu(), batch.reward.double().cpu()
        zeros = {owner: reward.new_zeros(count) for owner, count in owners}
        before = {owner: self._returns.running.get(owner, zero) for owner, zero in zeros.items()}
        # A resumed run may have another number of environments in a group of the same name; its games are new.
        before = {owner: own if len(own) == len(zeros[owner]) else zeros[owner] for owner, own in before.items()}
        running = torch.cat(list(before.values())).where(~first[0], 0.0)  # [B]
        returns = torch.empty_like(reward)  # [T, B]
        for t in range(len(reward)):
            running = (self._discount * running + reward[t]).where(~first[t + 1], 0.0)
            returns[t] = running
        following = dict(zip(zeros, torch.split(running, [count for _, count in owners]), strict=True))
        moments = self._returns.moments.merge(Moments.of(returns[~first[1:]]))  # resets are not counted
        after = RunningReturns(moments, following)
        return dataclasses.replace(batch, reward=batch.reward / after.deviation), after

    def note_learned(self, returns: RunningReturns) -> None:
        """Keep the statistics that `scale` has returned with a batch; called when the batch has been learned from."""
        self._returns = returns

    def state(self) -> dict[str, Any]:
        """Return the state as plain numbers for a checkpoint."""
        moments = {name: float(value) for name, value in self._returns.moments._asdict().items()}
        return {**moments, "returns": {owner: running.tolist() for owner, running in self._returns.running.items()}}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore what ``state`` returned."""
        moments = Moments(*(torch.tensor(state[name], dtype=torch.float64) for name in Moments._fields))
        running = {owner: torch.tensor(r, dtype=torch.float64) for owner, r in state["returns"].items()}
        self._returns = RunningReturns(moments, running)
