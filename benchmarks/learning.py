"""Trains cases of one topology, which differ in keys and seeds, and compares their learning curves.

The time of a run begins with its first report, so that the start of its processes does not count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from benchmarks.kept import Making, keep_result, mixed, read_results
from benchmarks.request import BenchmarkRequest
from launch.bench.interleaved import Spread, progress_bar
from launch.bench.report import SuiteReport, rate
from launch.bench.running import START_LIMIT_S, Running
from launch.errors import FailedError
from launch.runs.curves import SCORE, LearningCurve, read_curve
from launch.runs.find import RunFolder
from launch.runs.jsonl import Lines
from launch.topology.load import load

_RATE = ("env_steps", "time_s")
"""Columns of the reports that are kept to compute the rate."""


@dataclass(frozen=True)
class LearningRun:
    """The learning curve and the reports of one run; its time begins with the first report."""

    curve: LearningCurve
    rows: Sequence[Mapping[str, Any]]
    ended: bool = False
    """Whether it ended by itself, before its seconds were over."""
    making: Making | None = None
    """How it was made; set by `run_all`."""

    @property
    def steps(self) -> float:
        """Environment steps at the last point."""
        return self.curve.points[-1][0]

    @property
    def minutes(self) -> float:
        """Minutes at the last point."""
        return self.curve.points[-1][1]

    @property
    def steps_per_s(self) -> float:
        """Mean rate from the first report to the last."""
        first, last = self.rows[0], self.rows[-1]
        return float((last["env_steps"] - first["env_steps"]) / max(last["time_s"] - first["time_s"], 1e-9))

    @property
    def staleness(self) -> float | None:
        """Mean staleness of gradients over reports; None without parameter servers."""
        return self.mean("staleness_mean")

    @property
    def best(self) -> float:
        """The highest score."""
        return max(score for _, _, score in self.curve.points)

    @property
    def largest_fall(self) -> float:
        """Largest difference between the best score so far and a later score."""
        best = fall = float("-inf")
        for _, _, score in self.curve.points:
            best = max(best, score)
            fall = max(fall, best - score)
        return fall

    def score(self, axis: int, at: float) -> float:
        """Return the newest score at a number of steps (axis 0) or minutes (axis 1); the first if none is earlier."""
        before = [point for point in self.curve.points if point[axis] <= at]
        return (before or self.curve.points[:1])[-1][2]

    def minutes_to(self, score: float) -> float | None:
        """Return the minutes after which a score was first reached; None if it was not reached."""
        return next((minutes for _, minutes, reached in self.curve.points if reached >= score), None)

    def mean(self, column: str) -> float | None:
        """Return the mean of a column over the reports that have it; None if none has it."""
        known = [row[column] for row in self.rows if row.get(column) is not None]
        return fmean(known) if known else None

    def mean_score(self, steps: float) -> float:
        """Return the mean of its scores up to a number of steps; the first score if none is earlier."""
        points = self.curve.points
        return fmean([point[2] for point in points if point[0] <= steps] or [points[0][2]])


def follow(request: BenchmarkRequest, overrides: Sequence[str], label: str, column: str = SCORE) -> LearningRun:
    """Run the request's topology to its end, at most for its seconds; raises FailedError if there is no score."""
    own = (*request.overrides, *overrides)
    nodes = load(request.topology, own).nodes
    engine = request.engine or ("local" if nodes.count > 1 else None)
    limit_s = START_LIMIT_S + (nodes.wait_s if engine else 0.0)
    with Running(request.topology, own, None, engine=engine, keys=request.keys, start_limit_s=limit_s) as run:
        curve = curve_of(run, label, request.seconds, column)
        rows, ended = list(Lines(run.run_dir / "metrics.jsonl").new()), run.ended
    return LearningRun(*since_first(curve, rows), ended)


@dataclass(frozen=True)
class _Result:
    """The result of one run, in the form in which it is kept in a file."""

    case: str
    seed: int
    ran: LearningRun


def run_all(
    request: BenchmarkRequest,
    cases: Mapping[str, Sequence[str]],
    column: str = SCORE,
    failed: list[str] | None = None,
    kept: str | None = None,
) -> dict[str, list[LearningRun]]:
    """Run each case with each seed: all cases with the first seed, then with the next.

    The error of a run that fails is added to ``failed``, and the other runs go on; if ``failed`` is None, it is raised.
    ``kept``: name of a suite, whose runs in the folder of the report are not repeated if they were made in the same way
    (``Making.serves``).
    """
    for keys in cases.values():  # errors in keys are raised before the first run
        load(request.topology, (*request.overrides, *keys))
    makings = {name: Making.of(request, keys) for name, keys in cases.items()}
    known = {
        (one.case, one.seed): one.ran
        for one in (read_results(request, kept, _Result) if kept else [])
        if one.case in cases and one.ran.making and one.ran.making.serves(makings[one.case], one.ran.ended)
    }
    ran: dict[str, list[LearningRun]] = {name: [] for name in cases}
    with progress_bar() as progress:
        task = progress.add_task("", total=request.repetitions * len(cases))
        for seed in request.seeds:
            for name, keys in cases.items():
                label = f"{name}, seed {seed}"
                progress.update(task, description=label)
                try:
                    if (name, seed) not in known:
                        one = follow(request, (*keys, f"seed={seed}"), label, column)
                        known[name, seed] = one = replace(one, making=makings[name])
                        if kept:
                            keep_result(request, kept, _Result(name, seed, _for_rates(one)))
                    ran[name].append(known[name, seed])
                except FailedError as error:
                    if failed is None:
                        raise
                    failed.append(f"{label}: {error}")
                progress.advance(task)
    return ran


def _for_rates(one: LearningRun) -> LearningRun:
    """Return a run with only those columns of its reports from which its rate is computed."""
    return replace(one, rows=[{at: row[at] for at in _RATE} for row in one.rows])


def curve_of(run: Running, name: str, seconds: float, column: str = SCORE) -> LearningCurve:
    """Read a column of a run until it ends or the seconds are over; raises FailedError if the column has no number."""
    run.wait(seconds)
    if error := run.error():
        raise FailedError(f"{name}: the run failed: {error}")
    try:
        return replace(read_curve(RunFolder(run.run_dir, {}), column), label=name)
    except ValueError as no_curve:
        raise FailedError(f"{name}: {no_curve}; give it more --seconds") from None


def since_first(curve: LearningCurve, rows: Sequence[dict[str, Any]]) -> tuple[LearningCurve, list[dict[str, Any]]]:
    """Return the curve and the reports with the time of the first report subtracted."""
    began_s = rows[0]["time_s"]
    stretches = [[(steps, minutes - began_s / 60, score) for steps, minutes, score in s] for s in curve.stretches]
    return replace(curve, stretches=stretches), [{**row, "time_s": row["time_s"] - began_s} for row in rows]


def score(spread: Spread) -> str:
    """Return a score with its spread: 0.52 (0.41 to 0.60)."""
    return f"{spread.median:,.2f} ({spread.low:,.2f} to {spread.high:,.2f})"


def learn(
    suite: str,
    request: BenchmarkRequest,
    cases: Mapping[str, Sequence[str]],
    notes: Sequence[str] = (),
    most_minutes: float = math.inf,
) -> SuiteReport:
    """Run each case with each seed; return the report that compares them after equal steps and after equal time.

    A run ends with its topology's total_steps, or when the request's seconds are over. ``most_minutes``: the time after
    which scores are compared, if all runs last longer.
    """
    return compare(suite, request, run_all(request, cases, kept=suite), notes, most_minutes)


def compare(
    suite: str,
    request: BenchmarkRequest,
    ran: Mapping[str, Sequence[LearningRun]],
    notes: Sequence[str] = (),
    most_minutes: float = math.inf,
) -> SuiteReport:
    """Return the report of runs: their scores after the steps and after the time of the shortest run."""
    runs = [one for all_ in ran.values() for one in all_]
    steps, minutes = min(one.steps for one in runs), min(most_minutes, *(one.minutes for one in runs))
    after_steps = {name: Spread(tuple(one.score(0, steps) for one in all_)) for name, all_ in ran.items()}
    after_minutes = {name: Spread(tuple(one.score(1, minutes) for one in all_)) for name, all_ in ran.items()}
    curve = {name: Spread(tuple(one.mean_score(steps) for one in all_)) for name, all_ in ran.items()}
    rates = {name: Spread(tuple(one.steps_per_s for one in all_)) for name, all_ in ran.items()}
    return SuiteReport(
        suite=suite,
        headings=(
            "",
            "steps/s",
            f"score after {steps:,.0f} steps",
            f"after {minutes * 60:,.0f} s",
            "mean of the curve",
        ),
        rows=[
            (name, rate(rates[name]), score(after_steps[name]), score(after_minutes[name]), score(curve[name]))
            for name in ran
        ],
        bars=after_steps,
        unit="score",
        notes=(
            f"scores: mean of the last 100 training games, median of {len(next(iter(ran.values())))} seeds (lowest to "
            "highest)",
            *notes,
            *mixed(one.making for one in runs),
        ),
        figures={
            "topology": request.file,
            "overrides": list(request.overrides),
            "steps": steps,
            "minutes": minutes,
            **{
                name: {case: spread.as_json() for case, spread in found.items()}
                for name, found in (("after_minutes", after_minutes), ("curve", curve), ("steps_per_s", rates))
            },
        },
        curves=[one.curve for all_ in ran.values() for one in all_],
    )
