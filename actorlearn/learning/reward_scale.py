"""The scale of rewards: the running standard deviation of the discounted return of each environment.

Reads raw rewards and ``first`` of batches, in the order of rollouts; returns batches with rewards divided by that
deviation. Scores are counted elsewhere, from raw rewards.
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
    """Statistics of the discounted returns so far, by which rewards are scaled."""

    moments: Moments
    """Moments of the returns of all steps."""
    running: dict[str, Tensor]
    """Discounted return so far of each environment: float64 [B] for each owner in the newest batch."""

    @property
    def deviation(self) -> float:
        """Standard deviation of the returns, by which rewards are divided."""
        return float((self.moments.variance + EPSILON).sqrt())


class RewardScale:
    """Scaling of rewards as in OpenAI baselines' VecNormalize and gymnasium's NormalizeReward, without a mean.

    Both merge the returns of one step, and then divide the rewards of this step. Here the returns of all steps of a
    batch are merged before its rewards are divided. An environment belongs to an owner, which is a group of one
    incarnation of a simulator, so simulators can be attached and detached.
    """

    def __init__(self, discount: float) -> None:
        self._discount = discount
        self._returns = RunningReturns(Moments.of(torch.zeros(0)), {})

    def scale(self, batch: Batch, owners: Sequence[tuple[str, int]]) -> tuple[Batch, RunningReturns]:
        """Return the batch with scaled rewards, and the state to pass to ``note_learned`` when it has been learned.

        ``owners``: (owner, number of environments) of the batch, in order. The state changes only in ``note_learned``,
        because a batch that was not learned from is gathered again.
        """
        first, reward = batch.first.cpu(), batch.reward.double().cpu()
        zeros = {owner: reward.new_zeros(count) for owner, count in owners}
        before = {owner: self._returns.running.get(owner, zero) for owner, zero in zeros.items()}
        # A resume may change the number of environments; a group with another number has the same name, and new games.
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
        """Set the state to that which ``scale`` returned with a batch, now that the batch has been learned from."""
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
