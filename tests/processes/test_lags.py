"""The histogram of lags against a list of them all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorlearn.processes.counts import Lags


@given(st.lists(st.lists(st.integers(0, 12), max_size=20), max_size=6))
def test_the_row_of_a_histogram_equals_that_of_a_list_of_all_lags(batches: list[list[int]]) -> None:
    lags = Lags()
    for batch in batches:
        lags.add(np.array(batch, np.int64))
    steps = [lag for batch in batches for lag in batch]
    assert bool(lags) == bool(steps)
    row = lags.row()
    assert row.pop("policy_lag_mean") == pytest.approx(np.mean(steps) if steps else 0.0)
    assert row.pop("policy_lag_max") == max(steps, default=0)
    for name, belongs in {
        "policy_lag_0": [0],
        "policy_lag_1": [1],
        "policy_lag_2_to_3": [2, 3],
        "policy_lag_4_to_7": range(4, 8),
        "policy_lag_8_or_more": range(8, 13),
    }.items():
        share = sum(steps.count(lag) for lag in belongs) / max(len(steps), 1)
        assert row.pop(name) == pytest.approx(share), name
    assert not row
