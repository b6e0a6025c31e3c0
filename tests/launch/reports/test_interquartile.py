"""Interquartile means and their intervals, against a slow version and what is known of them."""

from __future__ import annotations

from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from launch.reports.interquartile import interquartile, interquartile_mean

scores = st.lists(st.floats(-100, 100), min_size=1, max_size=13)


@given(scores)
def test_the_lowest_and_the_highest_quarter_count_for_nothing(runs: list[float]) -> None:
    left = sorted(runs)
    for _ in range(len(runs) // 4):
        left.remove(min(left))
        left.remove(max(left))
    assert float(interquartile_mean(np.array(runs))) == pytest.approx(fmean(left), abs=1e-9)


def test_one_run_gone_astray_moves_it_little() -> None:
    assert interquartile([[1.0, 2.0, 3.0, 4.0, -1_000.0]]).estimate == 2.0


@given(st.lists(scores, min_size=1, max_size=3))
def test_the_interval_holds_the_estimate_of_its_runs_and_repeats_itself(tasks: list[list[float]]) -> None:
    found = interquartile(tasks, resamples=200)
    assert min(map(min, tasks)) - 1e-9 <= found.low <= found.high <= max(map(max, tasks)) + 1e-9
    assert found == interquartile(tasks, resamples=200)


def test_runs_are_drawn_within_their_task() -> None:
    """Two tasks of runs that agree leave nothing to chance, however far apart the tasks are."""
    found = interquartile([[0.0] * 4, [10.0] * 4])
    assert found == (5.0, 5.0, 5.0)


def test_the_interval_is_about_as_wide_as_the_error_of_the_mean() -> None:
    runs = np.random.default_rng(1).normal(size=400).tolist()
    found = interquartile([runs])
    assert 0.15 < found.high - found.low < 0.35  # 4 standard errors of a mean would be 0.2


@pytest.mark.parametrize("tasks", [[], [[]], [[1.0], []]])
def test_no_runs_are_refused(tasks: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="each needs one at least"):
        interquartile(tasks)
