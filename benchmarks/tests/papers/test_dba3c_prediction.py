"""DBA3C's figures by the model: its costs follow from three points, and the other points lie on the figures' axes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

pytest.importorskip("simpy", reason="the extra `simulate` is not installed")

from benchmarks.papers.dba3c_prediction import (
    LINK_BYTES_PER_S,
    POINT_S,
    ROUND_S,
    calibrate,
    dba3c_prediction,
    points,
)
from benchmarks.request import BenchmarkRequest
from launch.simulate import model

GIVEN = {"6, 16 neurons": 208.0, "7, 1 server": 62.0, "7, 8 servers": 108.0}
"""Data points a second of a worker, near the ends of the figures' axes."""


@pytest.fixture(scope="module", autouse=True)
def each_case_once() -> Iterator[None]:
    """Simulate each case once: the points are those of the suite."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(model, "simulate", cache(model.simulate))
        yield


def test_the_costs_follow_from_three_points_of_the_paper() -> None:
    given = (GIVEN["7, 1 server"], GIVEN["7, 8 servers"], GIVEN["6, 16 neurons"])
    assert calibrate(*given) == pytest.approx((POINT_S, ROUND_S, LINK_BYTES_PER_S), rel=0.01)


def test_the_points_that_are_given_come_out_again_and_the_others_lie_on_the_axes() -> None:
    for point in points():
        rate = model.simulate(point.case).env_steps_per_s / point.case.learners
        assert point.given == (point.figure in GIVEN)
        assert rate == pytest.approx(GIVEN[point.figure], rel=0.01) if point.given else point.low <= rate <= point.high


def test_the_hours_of_figure_8_are_beside_the_papers() -> None:
    rows = {row[0]: row for row in dba3c_prediction(BenchmarkRequest("", (), 1, 1.0)).rows}
    assert rows["8, 1 node"][2:] == ("14.2 h", "given")
    assert rows["8, 64 nodes"][2] == "0.35 h"
    assert float(rows["8, 64 nodes"][1].split()[0]) < float(rows["8, 32 nodes"][1].split()[0])
