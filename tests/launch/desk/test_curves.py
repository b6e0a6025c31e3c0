"""Curves of long runs and of runs that grow: their points are few evenly spread reports, with the newest one."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from launch.desk.curves import MOST_POINTS, MOST_POINTS_WHOLE, GrowingCurve
from tests.launch.desk.folders import append, row, write_run

SCORE = "episode_return_mean"


def test_a_curve_is_made_of_reports_and_grows_with_them(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [row(n) for n in range(5)])
    curve = GrowingCurve(run.path / "metrics.jsonl", SCORE)
    append(run, "metrics.jsonl", row(5), row(6, episode_return_mean=None), row(7, episode_return_mean=True))
    curve.look()
    assert curve.points.steps.tolist() == [0, 100, 200, 300, 400, 500]
    assert curve.points.minutes[-1] == 10.0 / 60
    assert np.allclose(curve.points.numbers, curve.points.steps / 1000)
    assert curve.points.steps_at(3.0) == 150
    assert GrowingCurve(run.path / "metrics.jsonl", "no such metric").points.steps_at(3.0) is None


def test_the_curve_of_a_long_run_is_a_sample_with_its_first_and_its_last_report(tmp_path: Path) -> None:
    long = [row(n, **{f"more_{m}": 0.5 for m in range(40)}) for n in range(3000)]
    run = write_run(tmp_path / "run", long)
    curve = GrowingCurve(run.path / "metrics.jsonl", SCORE)
    steps = curve.points.steps
    assert MOST_POINTS * 0.9 <= len(steps) <= MOST_POINTS + 1
    assert (steps[0], steps[-1]) == (0, 100 * 2999)
    assert np.diff(steps).max() <= 2 * np.diff(steps).mean(), "evenly spread"
    assert np.allclose(curve.points.numbers, steps / 1000), "each point is a report as it was"


def test_a_curve_that_grows_for_long_keeps_few_points_evenly(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [row(0)])
    curve = GrowingCurve(run.path / "metrics.jsonl", SCORE)
    for begin in range(1, 5001, 500):
        append(run, "metrics.jsonl", *(row(n) for n in range(begin, begin + 500)))
        curve.look()
        assert len(curve.points.steps) < 2 * MOST_POINTS
        assert curve.points.steps[-1] == 100 * (begin + 499)
    gaps = np.diff(curve.points.steps)
    assert (gaps > 0).all() and gaps.max() <= 0.02 * curve.points.steps[-1]


def test_a_single_fall_is_among_the_points_of_all_reports(tmp_path: Path) -> None:
    """Formerly only the first report of each interval was kept, so a collapse within one was not drawn."""
    fallen = [row(n, episode_return_mean=-1.0 if n == 6001 else 0.5) for n in range(10_000)]
    run = write_run(tmp_path / "run", fallen)
    read = GrowingCurve(run.path / "metrics.jsonl", SCORE, whole=True)
    grown = GrowingCurve(write_run(tmp_path / "grown", []).path / "metrics.jsonl", SCORE)
    append(write_run(tmp_path / "grown", []), "metrics.jsonl", *fallen)
    grown.look()
    for curve, most in ((read, MOST_POINTS_WHOLE), (grown, MOST_POINTS)):
        points = curve.points
        assert len(points.steps) < 2 * most and (np.diff(points.steps) > 0).all()
        assert points.numbers.min() == -1.0 and points.steps[points.numbers.argmin()] == 600_100
        assert (points.steps[0], points.steps[-1]) == (0, 999_900)


def test_points_that_a_restore_took_back_do_not_count_against_steps(tmp_path: Path) -> None:
    restored = [row(4) | {"env_steps": 200}, row(5) | {"env_steps": 300}]
    run = write_run(tmp_path / "run", [row(n) for n in range(4)] + restored)
    points = GrowingCurve(run.path / "metrics.jsonl", SCORE).points
    assert len(points.steps) == 6
    assert points.that_count().steps.tolist() == [0, 100, 200, 300]
    assert points.that_count().minutes.tolist() == [0, 2 / 60, 8 / 60, 10 / 60]


def test_a_restore_undoes_points_of_a_metric_that_few_reports_have(tmp_path: Path) -> None:
    """Formerly evaluations between the checkpoint and the next evaluation were kept."""
    evaluated = [row(n, eval_return_mean=1.0) for n in range(10)]
    run = write_run(tmp_path / "run", [*evaluated, row(5), row(7), row(6)])
    for whole in (False, True):
        curve = GrowingCurve(run.path / "metrics.jsonl", "eval_return_mean", whole)
        assert curve.points.that_count().steps.tolist() == [0, 100, 200, 300, 400, 500]
        assert len(curve.points.steps) == 10
    append(run, "metrics.jsonl", row(8, eval_return_mean=2.0))
    curve.look()
    assert curve.points.that_count().steps.tolist() == [0, 100, 200, 300, 400, 500, 800]
    assert curve.points.that_count().numbers[-1] == 2.0


def test_a_restore_undoes_points_also_of_a_curve_that_was_thinned(tmp_path: Path) -> None:
    lives = [(1.0, 0, 7_200), (None, 500, 1_000), (2.0, 1_000, 9_000)]
    rows = [row(n, eval_return_mean=score) for score, begin, end in lives for n in range(begin, end)]
    run = write_run(tmp_path / "run", [own | {"time_s": 2.0 * n} for n, own in enumerate(rows)])
    points = GrowingCurve(run.path / "metrics.jsonl", "eval_return_mean", whole=True).points.that_count()
    assert (np.diff(points.steps) > 0).all()
    assert points.steps[points.numbers == 1.0].max() <= 50_000
    assert points.steps[points.numbers == 2.0].min() == 100_000


def test_times_that_stand_still_do_not_make_a_curve_grow_for_ever(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [])
    curve = GrowingCurve(run.path / "metrics.jsonl", SCORE)
    append(run, "metrics.jsonl", *(row(1) | {"env_steps": n} for n in range(3 * MOST_POINTS)))
    curve.look()
    assert len(curve.points.steps) < 2 * MOST_POINTS
