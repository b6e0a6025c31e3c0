"""The part of a visit that trains Pong to a mean score of 18: configs/pong-fast.yaml with a trainer on the GPU.

Its 32 environments are divided among more simulators. A batch still has the 1,024 steps with which the topology was
tuned, so only the time for a step differs.
"""

from __future__ import annotations

import csv
import time
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.gpu.stay import Stay
from benchmarks.request import shipped
from launch.bench.gpu import CORES, GpuHost
from launch.bench.report import SuiteReport
from launch.bench.running import Running
from launch.bench.seed_table import draw
from launch.bench.time_to_score import with_score
from launch.errors import FailedError
from launch.runs.curves import LearningCurve, read_curve
from launch.runs.find import RunFolder

TOPOLOGY = "pong-fast.yaml"
SCORE = 18.0
ENVIRONMENTS = 32
SEEDS = 3
"""Number of seeds; they are drawn from the clock. A continued measurement keeps the seeds that it has begun with."""
REPORT_EVERY_S = 1.0
QUICK_S = 5.0
"""Seconds of a run in the quick form, in which nothing is learned."""
MARGIN_S = 15.0
"""Seconds that are reserved to end a run that has not reached the score, and to report it."""
SHARE = 0.5
"""Largest share of the part's time that one run may take."""
POINTS, COLUMNS = 300, ("steps", "minutes", "score")
"""Most points of a curve that is kept, and the names of their numbers."""


def ways(host: GpuHost) -> dict[str, tuple[str, ...]]:
    """Return the keys of each way to act: with policies in the simulators, or in an inference server on the device."""
    processes = max(count for count in (1, 2, 4, 8, CORES) if count <= max(1, host.cores))
    shape = (f"simulators.count={processes}", f"simulators.envs={ENVIRONMENTS // processes}")
    trainer = f"trainer.device={host.device}"
    server = ("inference.count=1", f"inference.device={host.device}", "simulators.groups=2")
    return {
        "policies in simulators": (*shape, trainer, "inference.count=0"),
        "a server, 2 groups": (*shape, trainer, *server),  # one group plays while the server acts for the other
    }


def pong(stay: Stay) -> SuiteReport:
    """Train to the score in both ways with one seed, then with the next; runs without enough time are not begun."""
    found, seeds = ways(stay.host), seeds_of(stay)
    overrides = stay.request.overrides
    keys = {f"{way}, seed {seed}": (*found[way], f"seed={seed}", *overrides) for seed, way in product(seeds, found)}
    score = SCORE if stay.request.score is None else stay.request.score
    measured = stay.measure({trial: partial(minutes_to, score, stay, trial, own) for trial, own in keys.items()}, 1)
    curves = [curve for trial in keys if (curve := _kept_curve(stay, trial))]
    if not measured and not curves:
        raise FailedError("; ".join(stay.shortfalls))
    return SuiteReport(
        suite="gpu-pong",
        headings=("trial", f"minutes to {score:g}"),
        rows=[(trial, f"{measured[trial].median:.2f}" if trial in measured else "-") for trial in keys],
        bars=measured,
        unit="minutes",
        notes=(str(stay.host), "minutes: by the run's own clock, which begins with its processes", *stay.shortfalls),
        figures={"keys": {trial: list(own) for trial, own in keys.items()}},
        curves=curves,
    )


def seeds_of(stay: Stay) -> list[int]:
    """Return the seeds of earlier calls with the same folder, and new ones up to ``SEEDS``; one in the quick form."""
    begun = dict.fromkeys(int(case.rpartition(" ")[2]) for case in stay.kept_cases())
    seeds = [*begun, *draw(max(0, SEEDS - len(begun)))]
    return seeds[: 1 if stay.request.quick else SEEDS]


def minutes_to(score: float, stay: Stay, trial: str, keys: tuple[str, ...]) -> float:
    """Train once and keep the curve; return the minutes. Raises FailedError if the score is not reached."""
    limit_s = QUICK_S if stay.request.quick else min(stay.left_s - MARGIN_S, SHARE * stay.seconds)
    with Running(shipped(TOPOLOGY), keys, total_steps=None, report_every_s=REPORT_EVERY_S) as run:
        first = _first_report_with(run, score, limit_s)
        error = run.error()
        try:
            steps, minutes, newest = _keep_curve(stay, trial, read_curve(RunFolder(run.run_dir, {})))
        except ValueError:  # no curve yet
            raise FailedError(error or f"not at {score:g}: no whole game was over after {limit_s:.0f} s") from None
    if first is None:
        raise FailedError(error or f"not at {score:g} after {minutes:.1f} minutes: {newest:.1f} at {steps:,.0f} steps")
    return float(first["time_s"]) / 60


def _first_report_with(run: Running, score: float, seconds: float) -> dict[str, Any] | None:
    """Wait for the first report with this mean score, and return it; None if the run or ``seconds`` end before."""
    until_s = time.monotonic() + seconds
    while True:
        ended = run.ended or time.monotonic() >= until_s
        if row := with_score(run.new_reports(), score):
            return row
        if ended:
            return None
        time.sleep(REPORT_EVERY_S)


def _keep_curve(stay: Stay, trial: str, curve: LearningCurve) -> tuple[float, float, float]:
    """Write at most ``POINTS`` points of the curve to the folder, if there is one; return the newest point."""
    points = curve.points
    if (path := _file(stay, trial)) is not None:
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([COLUMNS, *points[:: -(-len(points) // POINTS)]])
    return points[-1]


def _kept_curve(stay: Stay, trial: str) -> LearningCurve | None:
    """Return the curve that this or an earlier call has kept; None if there is none."""
    if (path := _file(stay, trial)) is None or not path.is_file():
        return None
    with path.open(newline="") as file:
        rows = [(float(steps), float(minutes), float(score)) for steps, minutes, score in list(csv.reader(file))[1:]]
    return LearningCurve(trial, "Pong", None, None, [rows])


def _file(stay: Stay, trial: str) -> Path | None:
    """Return the file of a trial's curve."""
    folder = stay.request.output
    return folder / f"gpu-pong-{trial.replace(', ', '-').replace(' ', '-')}.csv" if folder is not None else None
