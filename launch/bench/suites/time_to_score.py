"""The suite ``time-to-score``: minutes and steps until a topology's mean score reaches a given value."""

from __future__ import annotations

import math
import time
from typing import Any

from launch.bench.measure.interleaved import Spread
from launch.bench.measure.report import Report
from launch.bench.measure.request import Request
from launch.bench.measure.running import Running
from launch.errors import FailedError, RunError

GAMES = 100
"""Whole training games that the mean is over."""
_TURN_S = 1.0


def time_to_score(request: Request) -> Report:
    """Minutes and steps until the mean of the last 100 games reaches --score, in --repetitions seeds."""
    if request.score is None:
        raise RunError(
            "time-to-score: needs --score, the mean raw score of the last 100 games to reach, e.g. --score 18"
        )
    rows, minutes = [], []
    for seed in request.seeds:
        reached = _until(request, seed)
        minutes.append(reached["time_s"] / 60)
        row = (f"{minutes[-1]:.1f}", f"{reached['env_steps']:,}", f"{reached['frames']:,}")
        rows.append((str(seed), *row, f"{reached['episode_return_mean']:.2f}"))
    return Report(
        suite="time-to-score",
        headings=("seed", "minutes", "steps", "frames", "score"),
        rows=rows,
        bars={f"{request.topology} to {request.score:g}": Spread(tuple(minutes))},
        unit="minutes",
        notes=(f"{request.topology} {' '.join(request.overrides)}",),
    )


def _until(request: Request, seed: int) -> dict[str, float]:
    """Return the first report with the score; raises FailedError where the run ends without it."""
    assert request.score is not None
    began_s = time.monotonic()
    with Running(request.topology, (*request.overrides, f"seed={seed}"), total_steps=None) as run:
        if row := first_report_with(run, request.score):
            return row
        minutes = (time.monotonic() - began_s) / 60
        why = f": {error}" if (error := run.error()) else f" without a score of {request.score:g}"
        raise FailedError(f"seed {seed} ended after {minutes:.0f} minutes{why}")


def first_report_with(run: Running, score: float, seconds: float = math.inf) -> dict[str, Any] | None:
    """Return the first report with this mean score; None when the run ends, or the seconds are over, without it."""
    until_s = time.monotonic() + seconds
    while True:
        ended = run.ended or time.monotonic() >= until_s
        for row in run.new_reports():
            mean = row["episode_return_mean"]
            if row["episodes"] >= GAMES and mean is not None and mean >= score:
                return dict(row)
        if ended:
            return None
        time.sleep(_TURN_S)
