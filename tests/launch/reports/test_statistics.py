"""Statistics of scores and their intervals, compared with slow versions and with rliable."""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import fmean, median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from launch.reports.statistics import (
    Interval,
    Numbers,
    band,
    exceeded,
    interquartile_mean,
    interval,
    mean_of_tasks,
    median_of_tasks,
    optimality_gap,
    probability_of_improvement,
)
from tests.launch.reports import rliable_numbers
from tests.launch.reports.rliable_numbers import KEPT, TARGET, THRESHOLDS, ask_rliable

scores = st.lists(st.floats(-100, 100), min_size=1, max_size=13)
several = st.lists(scores, min_size=1, max_size=4)


def arrays(tasks: Sequence[Sequence[float]]) -> list[Numbers]:
    return [np.array(runs) for runs in tasks]


@given(several)
def test_the_interquartile_mean_ignores_the_lowest_and_highest_quarter_of_all_scores(tasks: list[list[float]]) -> None:
    left = sorted(score for runs in tasks for score in runs)
    for _ in range(len(left) // 4):
        del left[0], left[-1]
    assert float(interquartile_mean(arrays(tasks))) == pytest.approx(fmean(left), abs=1e-9)


@given(several)
def test_each_task_counts_once_however_many_runs_it_has(tasks: list[list[float]]) -> None:
    each = [fmean(runs) for runs in tasks]
    assert float(mean_of_tasks(arrays(tasks))) == pytest.approx(fmean(each), abs=1e-9)
    assert float(median_of_tasks(arrays(tasks))) == pytest.approx(median(each), abs=1e-9)


@given(several, st.floats(-50, 50))
def test_the_optimality_gap_is_the_mean_shortfall_from_the_target(tasks: list[list[float]], target: float) -> None:
    missing = fmean(fmean(max(0.0, target - score) for score in runs) for runs in tasks)
    assert float(optimality_gap(arrays(tasks), target)) == pytest.approx(missing, abs=1e-9)


@given(st.lists(st.tuples(scores, scores), min_size=1, max_size=3))
def test_the_probability_of_improvement_is_a_share_of_pairs(pairs: list[tuple[list[float], list[float]]]) -> None:
    def share(runs: list[float], others: list[float]) -> float:
        return fmean((run > other) + (run == other) / 2 for run in runs for other in others)

    found = probability_of_improvement(arrays([runs for runs, _ in pairs]), arrays([others for _, others in pairs]))
    assert float(found) == pytest.approx(fmean(share(*pair) for pair in pairs), abs=1e-9)


def test_a_profile_is_the_share_of_runs_above_each_threshold() -> None:
    tasks = arrays([[0.0, 1.0, 2.0, 3.0], [5.0]])
    np.testing.assert_allclose(mean_of_tasks(exceeded(tasks, [-1.0, 1.0, 4.0])), [1.0, (0.5 + 1) / 2, 0.5])


def test_an_outlier_does_not_move_the_interquartile_mean() -> None:
    assert interval(interquartile_mean, [[1.0, 2.0, 3.0, 4.0, -1_000.0]]).estimate == 2.0


@given(several)
def test_an_interval_lies_within_the_scores_and_is_reproducible(tasks: list[list[float]]) -> None:
    found = interval(interquartile_mean, tasks, resamples=200)
    assert min(map(min, tasks)) - 1e-9 <= found.low <= found.high <= max(map(max, tasks)) + 1e-9
    assert found == interval(interquartile_mean, tasks, resamples=200)


def test_runs_are_resampled_within_their_task() -> None:
    """If the runs of each task agree, the interval has no width, however far apart the tasks are."""
    assert interval(interquartile_mean, [[0.0] * 4, [10.0] * 4]) == (5.0, 5.0, 5.0)


def test_an_interval_is_about_four_standard_errors_of_a_mean_wide() -> None:
    runs = np.random.default_rng(1).normal(size=400).tolist()
    found = interval(interquartile_mean, [runs])
    assert 0.15 < found.high - found.low < 0.35  # 4 standard errors of a mean would be 0.2


def test_a_band_is_the_interval_at_each_step_also_if_computed_in_parts() -> None:
    curves = np.random.default_rng(2).normal(size=(7, 5)).cumsum(axis=0)  # [steps, runs]
    found = band(interquartile_mean, [curves], resamples=500)
    for step, runs in enumerate(curves.tolist()):
        alone = interval(interquartile_mean, [runs], resamples=500)
        assert (found.estimate[step], found.low[step], found.high[step]) == pytest.approx(alone)
    many = band(interquartile_mean, [np.tile(curves, (500, 1))], resamples=500)
    np.testing.assert_allclose(many.high.reshape(500, 7), np.tile(found.high, (500, 1)))


@pytest.mark.parametrize("tasks", [[], [[]], [[1.0], []]])
def test_tasks_without_runs_are_refused(tasks: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="each needs at least one"):
        interval(interquartile_mean, tasks)
    with pytest.raises(ValueError, match="each needs at least one"):
        interval(probability_of_improvement, [[1.0]], tasks)


@pytest.mark.parametrize(("runs", "held"), [(3, 0.75), (5, 0.90), (10, 0.93)])
def test_intervals_of_few_runs_are_too_narrow(runs: int, held: float) -> None:
    """This share of 95 % intervals contains the true mean of normal scores; docs/statistics.md has these numbers."""
    random = np.random.default_rng(3)
    found = band(interquartile_mean, [random.normal(size=(2_000, runs))], resamples=1_000)
    assert np.mean((found.low < 0) & (found.high > 0)) == pytest.approx(held, abs=0.02)


# rliable --------------------------------------------------------------------------------------------------------------

KNOWN = json.loads(KEPT.read_text())


def ours() -> dict[str, Interval]:
    one, other = ([task.tolist() for task in found.T] for found in rliable_numbers.scores())
    profile = band(mean_of_tasks, exceeded(arrays(one), THRESHOLDS), resamples=20_000)
    return {
        "interquartile_mean": interval(interquartile_mean, one),
        "mean_of_tasks": interval(mean_of_tasks, one),
        "median_of_tasks": interval(median_of_tasks, one),
        "optimality_gap": interval(lambda tasks: optimality_gap(tasks, TARGET), one),
        "probability_of_improvement": interval(probability_of_improvement, one, other),
        **{f"above {tau}": Interval(*map(float, at)) for tau, *at in zip(THRESHOLDS, *profile, strict=True)},
    }


def close(found: Sequence[float], known: Sequence[float]) -> bool:
    """Whether estimates agree, and the ends of the random intervals up to 8 % of the width."""
    width = known[2] - known[1]
    return found[0] == pytest.approx(known[0], abs=1e-6) and found[1:] == pytest.approx(known[1:], abs=0.08 * width)


def test_all_statistics_agree_with_rliable() -> None:
    found = ours()
    assert found.keys() == KNOWN["statistics"].keys()
    assert not {
        name: (found[name], known) for name, known in KNOWN["statistics"].items() if not close(found[name], known)
    }


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_the_saved_numbers_are_those_that_rliable_computes_now() -> None:
    pytest.importorskip(
        "rliable", reason="the extra `rliable` is not installed; its saved numbers are compared", exc_type=ImportError
    )
    assert ask_rliable() == KNOWN["statistics"]
