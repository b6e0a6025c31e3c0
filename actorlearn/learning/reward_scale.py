"""The scale of rewards: the running standard deviation of the discounted return of each environment.

Reads a batch's raw rewards and first rows, in the order of rollouts; gives the batch with rewards over that deviation.
Scores are counted elsewhere, from raw rewards. Knows no network.
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
    """The discounted returns seen so far, by which rewards are scaled."""

    moments: Moments
    """Moments of the returns of all steps."""
    running: dict[str, Tensor]
    """Discounted return so far of each environment, [B] for each owner of the newest batch, float64."""

    @property
    def deviation(self) -> float:
        """Deviation of the returns, which rewards are divided by."""
        return float((self.moments.variance + EPSILON).sqrt())


class RewardScale:
    """Scaling of rewards as in OpenAI baselines' VecNormalize and gymnasium's NormalizeReward, without a mean.

    Both merge the returns of one step and divide its rewards; here all steps of a batch are merged, then divided. An
    environment belongs to an owner, a simulator's incarnation and group, so simulators may come and go.
    """

    def __init__(self, discount: float) -> None:
        """Start from nothing seen."""
        self._discount = discount
        self._returns = RunningReturns(Moments.of(torch.zeros(0)), {})

    def scale(self, batch: Batch, owners: Sequence[tuple[str, int]]) -> tuple[Batch, RunningReturns]:
        """Return the batch with rewards scaled, and the returns to go on from once it has been learned from.

        ``owners``: (owner, number of environments) of the batch, in order. The state changes only in ``note_learned``,
        as a batch may not be learned from, and then be gathered again.
        """
        first, reward = batch.first.cpu(), batch.reward.double().cpu()
        zeros = {owner: reward.new_zeros(count) for owner, count in owners}
        running = torch.cat([self._returns.running.get(owner, zero) for owner, zero in zeros.items()])
        running = running.where(~first[0], 0.0)  # [B]
        returns = torch.empty_like(reward)  # [T, B]
        for t in range(len(reward)):
            running = (self._discount * running + reward[t]).where(~first[t + 1], 0.0)
            returns[t] = running
        following = dict(zip(zeros, torch.split(running, [count for _, count in owners]), strict=True))
        moments = self._returns.moments.merge(Moments.of(returns[~first[1:]]))  # a reset is no step
        after = RunningReturns(moments, following)
        return dataclasses.replace(batch, reward=batch.reward / after.deviation), after

    def note_learned(self, returns: RunningReturns) -> None:
        """Go on from the returns that ``scale`` gave with a batch, which has been learned from."""
        self._returns = returns

    def state(self) -> dict[str, Any]:
        """Plain numbers for a checkpoint."""
        moments = {name: float(value) for name, value in self._returns.moments._asdict().items()}
        return {**moments, "returns": {owner: running.tolist() for owner, running in self._returns.running.items()}}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the numbers of ``state``."""
        moments = Moments(*(torch.tensor(state[name], dtype=torch.float64) for name in Moments._fields))
        running = {owner: torch.tensor(r, dtype=torch.float64) for owner, r in state["returns"].items()}
        self._returns = RunningReturns(moments, running)
