"""Rewards over the running deviation of discounted returns, against a loop over one environment after another."""

from __future__ import annotations

import json
from math import sqrt

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from actorlearn.algorithms.interface import Batch
from actorlearn.learning.reward_scale import RewardScale
from tests.algorithms.episodes import batches, rows_of

DISCOUNT = 0.9


def deviation(batch: Batch) -> float:
    """Standard deviation of the discounted returns up to each step, games kept apart, resets left out."""
    returns = []
    for b in range(batch.reward.shape[1]):
        running = 0.0
        for t in range(len(batch.reward)):
            running = 0.0 if batch.first[t, b] else running
            if not batch.first[t + 1, b]:
                running = DISCOUNT * running + float(batch.reward[t, b])
                returns.append(running)
    return sqrt(np.var(returns) + 1e-8) if returns else 1e-4


@given(batch=batches())
def test_rewards_are_divided_by_the_deviation_of_the_returns(batch: Batch) -> None:
    scaled, _ = RewardScale(DISCOUNT).scale(batch, [("a/0", batch.reward.shape[1])])
    torch.testing.assert_close(scaled.reward, batch.reward / deviation(batch), rtol=1e-4, atol=1e-6)
    assert scaled.observation is batch.observation


@given(batch=batches(), data=st.data())
def test_running_returns_continue_over_rollouts_and_through_a_checkpoint(batch: Batch, data: st.DataObject) -> None:
    horizon, count = batch.reward.shape
    cut = data.draw(st.integers(0, horizon))
    owners = [("a/0", count)]
    one = RewardScale(DISCOUNT)
    if cut:
        one.note_learned(one.scale(rows_of(batch, 0, cut), owners)[1])
    resumed = RewardScale(DISCOUNT)
    resumed.restore(json.loads(json.dumps(one.state())))
    if cut < horizon:
        last = rows_of(batch, cut, horizon)
        scaled, returns = one.scale(last, owners)
        torch.testing.assert_close(scaled.reward, last.reward / deviation(batch), rtol=1e-4, atol=1e-6)
        resumed_scaled, resumed_returns = resumed.scale(last, owners)
        assert torch.equal(resumed_scaled.reward, scaled.reward)
        assert torch.equal(one.scale(last, owners)[0].reward, scaled.reward)  # not learned from: it comes again
        one.note_learned(returns), resumed.note_learned(resumed_returns)
    assert resumed.state() == one.state()


def steady(count: int, reward: float, first: bool) -> Batch:
    """Two steps of environments that pay alike and whose games do not end."""
    shape = (2, count)
    return Batch.plain(
        observation=torch.zeros(3, count, 1),
        action=torch.zeros(shape, dtype=torch.int64),
        reward=torch.full(shape, reward),
        first=torch.tensor([[first] * count, [False] * count, [False] * count]),
    )


def test_running_returns_are_kept_for_each_group_while_groups_join_and_leave() -> None:
    scale = RewardScale(DISCOUNT)
    scale.note_learned(scale.scale(steady(3, 1.0, first=True), [("a/0", 1), ("b/0", 2)])[1])
    assert scale.state()["returns"] == {"a/0": [1.9], "b/0": [1.9, 1.9]}
    scale.note_learned(scale.scale(steady(3, 1.0, first=False), [("b/0", 2), ("c/0", 1)])[1])
    carried = pytest.approx(0.9 * (0.9 * 1.9 + 1.0) + 1.0)
    assert scale.state()["returns"] == {"b/0": [carried, carried], "c/0": [pytest.approx(1.9)]}
    scale.note_learned(
        scale.scale(steady(1, 1.0, first=True), [("c/0", 1)])[1]
    )  # begins a new game, as after a run was resumed
    assert scale.state()["returns"] == {"c/0": [1.9]}
    assert scale.state()["number"] == 6 + 6 + 2


def test_a_group_with_another_number_of_environments_restarts_its_returns() -> None:
    """After a resume with another simulators.envs, groups have the same names."""
    scale = RewardScale(DISCOUNT)
    scale.note_learned(scale.scale(steady(3, 1.0, first=True), [("a/0", 1), ("b/0", 2)])[1])
    scale.note_learned(scale.scale(steady(4, 1.0, first=True), [("a/0", 2), ("b/0", 2)])[1])
    assert scale.state()["returns"] == {"a/0": [1.9, 1.9], "b/0": [1.9, 1.9]}
    assert scale.state()["number"] == 6 + 8
