"""The suite ``asynchrony``: what PPO loses by experience of older weights, and what each correction wins back.

Rollouts are open ahead (`simulators.blocks`), so that simulators which are faster than the learner act by weights that
are blocks - 1 updates old when they are learned from; Hilton et al. (2021, figure 1) hold the age of data as constant
within one program. Every run of a topology has the same steps; lag, correction and seed alone differ. In mode async or
gossip, by overrides, learners add what they change meanwhile.

Each run's result is a line of ``asynchrony.jsonl`` in the folder of the report, if there is one: what stands there is
not run again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from launch.bench.measure.interleaved import Spread, progress_bar
from launch.bench.measure.report import Report, percent
from launch.bench.measure.request import Request
from launch.bench.measure.running import Running
from launch.bench.papers.dba3c_learning import ONLINE
from launch.bench.suites.scaling import curve_of
from launch.display.plot import SCORE
from launch.reports.interquartile import Interval, interquartile
from launch.runs.jsonl import Lines
from launch.runtime.metadata import commit
from launch.topology.load import load

LAGS = (0, 1, 4, 16)
PLAIN = "PPO"
METHODS: Mapping[str, tuple[str, ...]] = {
    PLAIN: (),
    "decoupled": ("algorithm.proximal=recomputed",),
    "interpolated": ("algorithm.proximal=interpolated",),
    "V-trace": ("algorithm.advantages=vtrace",),
    "scaled": ("optimizer.sample_size_scaling=sqrt",),
}
"""Correction -> its keys."""
NUMBERS = ("policy_lag_mean", "effective_sample_size", "clipped_share")
RESULTS = "asynchrony.jsonl"
_ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Result:
    """The end of one run."""

    method: str
    lag: int
    """Rollouts that were open beside the one that is learned from."""
    seed: int
    score: float
    """Mean of the last 100 training games."""
    whole: float
    """Mean of that over the run's reports."""
    steps: int
    numbers: Mapping[str, float]
    """Means of NUMBERS over the run's reports."""

    @property
    def case(self) -> tuple[str, int]:
        """Correction and lag, which runs of other seeds have too."""
        return self.method, self.lag


def asynchrony(request: Request) -> Report:
    """PPO at policy lags of 0 to 16 by each correction; --seconds is a run's most, -o a folder to go on from."""
    wanted = [(method, lag) for lag in (LAGS[::2] if request.quick else LAGS) for method in _methods(lag)]
    for case in wanted:
        load(request.topology, overrides(request, *case, seed=1))
    known = {(*one.case, one.seed): one for one in _read(request)}
    with progress_bar() as progress:
        task = progress.add_task("", total=request.repetitions * len(wanted))
        for seed in range(1, request.repetitions + 1):
            for case in wanted:
                progress.update(task, description=f"{case[0]}, lag {case[1]}, seed {seed}")
                if (*case, seed) not in known:
                    known[*case, seed] = result = run_one(request, *case, seed)
                    _write(request, result)
                progress.advance(task)
    seeds = range(1, request.repetitions + 1)
    return report(request, {case: [known[*case, seed] for seed in seeds] for case in wanted})


def _methods(lag: int) -> Iterable[str]:
    """Return what is compared at a lag; without one, plain PPO is what the others are."""
    return METHODS if lag else (PLAIN,)


def overrides(request: Request, method: str, lag: int, seed: int) -> tuple[str, ...]:
    """Return the keys of a run; those of the request come last but for what is compared."""
    own = ("algorithm.name=ppo", *ONLINE)
    return (*own, *request.overrides, *METHODS[method], f"simulators.blocks={lag + 1}", f"seed={seed}")


def run_one(request: Request, method: str, lag: int, seed: int) -> Result:
    """Run a topology to its end; raises FailedError where it has no score."""
    label = f"{method}, lag {lag}, seed {seed}"
    with Running(request.topology, overrides(request, method, lag, seed), total_steps=None) as run:
        curve_of(run, label, request.seconds)
        rows = [row for row in Lines(run.run_dir / "metrics.jsonl").new() if row.get(SCORE) is not None]
    return Result(
        method=method,
        lag=lag,
        seed=seed,
        score=rows[-1][SCORE],
        whole=fmean(row[SCORE] for row in rows),
        steps=rows[-1]["env_steps"],
        numbers={name: fmean(row[name] for row in rows if row.get(name) is not None) for name in NUMBERS},
    )


def report(request: Request, ran: Mapping[tuple[str, int], Sequence[Result]]) -> Report:
    """Return the table: interquartile means over seeds, and how they compare with lock-step."""
    rows, bars, found = [], {}, {}
    lock_step = interquartile([[one.score for one in ran[PLAIN, 0]]]).estimate
    for (method, lag), results in ran.items():
        name = f"lag {lag}, {method}"
        scores, wholes = [one.score for one in results], [one.whole for one in results]
        bars[name], found[name] = Spread(tuple(scores)), interquartile([scores])
        age, effective, clipped = (fmean(one.numbers[number] for one in results) for number in NUMBERS)
        rows.append(
            (
                name,
                _interval(found[name]),
                _interval(interquartile([wholes])),
                f"{found[name].estimate - lock_step:+,.2f}",
                f"{age:.1f}",
                percent(effective),
                percent(clipped),
            )
        )
    steps = [one.steps for results in ran.values() for one in results]
    return Report(
        suite="asynchrony",
        headings=("", "score", "whole curve", "to lock-step", "policy lag", "effective sample", "clipped"),
        rows=rows,
        bars=bars,
        unit="score",
        notes=(
            f"scores: mean of the last 100 training games after {min(steps):,} to {max(steps):,} steps, interquartile "
            f"mean of {request.repetitions} seeds with its 95 % bootstrap interval; whole curve: mean over all reports",
            "policy lag, effective sample and clipped: means over reports",
        ),
        figures={
            "topology": request.topology,
            "overrides": list(request.overrides),
            "interquartile": {name: interval._asdict() for name, interval in found.items()},
        },
    )


def _interval(found: Interval) -> str:
    return f"{found.estimate:,.2f} ({found.low:,.2f} to {found.high:,.2f})"


# Results that are kept -----------------------------------------------------------------------------------------------


def _asked(request: Request) -> dict[str, Any]:
    """Return what results must agree in to be of one table."""
    return {"topology": Path(request.topology).name, "overrides": list(request.overrides)}


def _read(request: Request) -> list[Result]:
    """Return the results of an earlier call of the same topology and overrides."""
    if request.output is None or not (path := request.output / RESULTS).is_file():
        return []
    asked, names = _asked(request), set(Result.__dataclass_fields__)
    lines = [line for line in Lines(path).new() if all(line.get(key) == value for key, value in asked.items())]
    return [Result(**{name: line[name] for name in names}) for line in lines if names <= line.keys()]


def _write(request: Request, result: Result) -> None:
    if request.output is not None:
        line = json.dumps({**asdict(result), **_asked(request), **commit(_ROOT)})
        with (request.output / RESULTS).open("a") as file:
            file.write(f"{line}\n")
