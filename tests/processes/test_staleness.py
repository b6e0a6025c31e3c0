"""Stale transitions: which are dropped, compared with a loop over all, and how many rollouts are open."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from actorlearn.algorithms.interface import Batch
from actorlearn.processes.batches import lags, mask_stale, steps_in
from tests import named

transitions = st.lists(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=3, max_size=3), min_size=1)


def batch(cells: list[list[tuple[int, bool]]]) -> Batch:
    """Policy lag and validity of each transition [T][B]; the rest is of no interest."""
    lag = torch.tensor([[lag for lag, _ in row] for row in cells])
    valid = torch.tensor([[valid for _, valid in row] for row in cells])
    nothing: Any = torch.zeros(valid.shape)
    return Batch(
        **dict.fromkeys(("observation", "action", "reward", "terminated", "truncated", "life_lost", "first"), nothing),
        valid=valid,
        policy_lag=lag,
    )


@given(cells=transitions, most=st.integers(0, 6))
def test_exactly_the_transitions_that_are_too_old_are_dropped(cells: list[list[tuple[int, bool]]], most: int) -> None:
    whole = batch(cells)
    fresh = mask_stale(whole, named.algorithm(max_policy_lag=most, on_policy_lag="drop").lag_limit)
    kept = [[valid and lag <= most for lag, valid in row] for row in cells]
    assert fresh.valid.tolist() == kept
    assert steps_in(fresh) == sum(map(sum, kept))
    assert lags(fresh).tolist() == [
        lag for row, kept_row in zip(cells, kept, strict=True) for (lag, _), k in zip(row, kept_row, strict=True) if k
    ]


@pytest.mark.parametrize("way", [{}, {"max_policy_lag": 0, "on_policy_lag": "wait"}, {"on_policy_lag": "drop"}])
def test_nothing_is_dropped_unless_both_max_policy_lag_and_drop_are_set(way: dict[str, Any]) -> None:
    whole = batch([[(5, True), (10, False), (9, True)]])
    assert mask_stale(whole, named.algorithm(**way).lag_limit) is whole


def test_waiting_opens_fewer_rollouts_and_dropping_does_not() -> None:
    assert named.algorithm().open_rollouts(4) == 4
    assert [named.algorithm(max_policy_lag=most).open_rollouts(4) for most in (0, 1, 3, 9)] == [1, 2, 4, 4]
    assert named.algorithm(max_policy_lag=0, on_policy_lag="drop").open_rollouts(4) == 4
