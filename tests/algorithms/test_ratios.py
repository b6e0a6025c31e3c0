"""Effective sample size and clipped share, by policy lag, against a loop over transitions."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from actorlearn.algorithms.lags import LAG_CLASSES
from actorlearn.algorithms.ratios import effective_sample_size, ratio_metrics
from tests import reference
from tests.algorithms.episodes import GO, batch_of

Cells = list[tuple[int, bool, float, bool]]
transitions = st.lists(st.tuples(st.integers(0, 20), st.booleans(), st.floats(-3, 3), st.booleans()), min_size=1)


@given(transitions)
def test_the_metrics_of_each_class_of_lags_equal_those_of_a_loop(cells: Cells) -> None:
    lag, valid, log_ratio, clipped = (torch.tensor([column]) for column in zip(*cells, strict=True))
    batch = replace(batch_of(*[[GO]] * len(cells)), policy_lag=lag, valid=valid)
    found = {name: value.item() for name, value in ratio_metrics(batch, log_ratio, clipped).items()}
    classes = {"": range(100), **{f"_{one.name}": one for one in LAG_CLASSES}}
    expected = {"effective_sample_size": 1.0, "clipped_share": 0.0}  # of nothing
    for ending, lags in classes.items():
        members = [(math.exp(ratio), cut) for age, counts, ratio, cut in cells if counts and age in lags]
        if members:
            expected[f"effective_sample_size{ending}"] = reference.effective_sample_size([w for w, _ in members])
            expected[f"clipped_share{ending}"] = sum(cut for _, cut in members) / len(members)
    assert found == pytest.approx(expected, rel=1e-4)


def test_the_effective_sample_size_is_right_however_large_the_weights_are() -> None:
    assert effective_sample_size(torch.full((8,), 300.0)).item() == 1.0
    assert effective_sample_size(torch.tensor([500.0, 0.0, 0.0, 0.0])).item() == 0.25
    assert effective_sample_size(torch.tensor([1.0, 1.0, 1.0, 9.0]).log()).item() == pytest.approx(3 / 7)
