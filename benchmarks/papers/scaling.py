"""The suite ``scaling``: score against steps by number of environments and learners (Stooke & Abbeel 2018, figure 3).

Four panels of the paper as four groups of runs: A2C with more environments and a rate that grows with the root of the
batch; A3C with more learners of 16 environments; PPO with more environments and a horizon that shrinks, the batch
staying 2,048 steps; APPO with more local steps between two exchanges. All runs get the same budget of seconds.
"""

from __future__ import annotations

from math import sqrt

from benchmarks.learning import curve_of
from benchmarks.request import BenchmarkRequest, shipped
from launch.bench.interleaved import Spread, progress_bar
from launch.bench.report import SuiteReport
from launch.bench.running import Running
from launch.machine.cores import begun_cores
from launch.runs.curves import LearningCurve

BASE_ENVIRONMENTS = 16
BASE_RATE = 7e-4
"""Learning rate of A2C with 16 environments (§5.3)."""


def runs(cores: int, quick: bool) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the runs: name of a curve -> its shipped topology, and its overrides."""
    simulators = max(n for n in (1, 2, 4, 8) if n <= max(1, cores))
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for environments in (16, 64, 256)[: 2 if quick else 3]:
        rate = BASE_RATE * sqrt(environments / BASE_ENVIRONMENTS)
        found[f"A2C, {environments} environments"] = (
            "a2c",
            (*_spread(simulators, environments), f"optimizer.learning_rate={rate}"),
        )
    for environments in (8, 32, 128)[: 2 if quick else 3]:
        found[f"PPO, {environments} environments"] = ("ppo", _spread(min(simulators, environments), environments))
    for count in (1, 2, 4)[: 2 if quick or cores < 4 else 3]:
        found[f"A3C, {count} learner(s)"] = ("a3c", (f"learners.count={count}",))
    for updates in (1, 4):
        found[f"APPO, 2 learners, {updates} update(s) between"] = (
            "appo",
            ("learners.count=2", f"learners.local_steps={updates}"),
        )
    return found


def _spread(simulators: int, environments: int) -> tuple[str, ...]:
    return (f"simulators.count={simulators}", f"simulators.envs={environments // simulators}")


def scaling(request: BenchmarkRequest) -> SuiteReport:
    """Score against steps by environments and learners, as the paper's figure 3; --seconds is each run's budget."""
    wanted = runs(begun_cores(), request.quick)
    curves: list[LearningCurve] = []
    rows: list[tuple[str, ...]] = []
    bars: dict[str, Spread] = {}
    with progress_bar() as progress:
        task = progress.add_task("", total=request.repetitions * len(wanted))
        for name, (topology, overrides) in wanted.items():
            found = []
            for seed in request.seeds:
                progress.update(task, description=f"{name}, seed {seed}")
                named = f"{name}, seed {seed}" if request.repetitions > 1 else name
                keys = (*overrides, *request.overrides, f"seed={seed}")
                found.append(_curve(request, named, shipped(f"atari/{topology}.yaml"), keys))
                progress.advance(task)
            curves += found
            scores = Spread(tuple(curve.final for curve in found))
            steps = Spread(tuple(curve.points[-1][0] for curve in found))
            shown = f"{scores.median:.1f} ({scores.low:.1f} to {scores.high:.1f})"
            rows.append((name, f"{steps.median:,.0f}", shown))
            bars[name] = steps
    return SuiteReport(
        suite="scaling",
        headings=(f"{request.seconds:,.0f} s each", "steps", "score at the end"),
        rows=rows,
        bars=bars,
        unit="steps",
        curves=curves,
    )


def _curve(request: BenchmarkRequest, name: str, topology: str, overrides: tuple[str, ...]) -> LearningCurve:
    """Train one run for its seconds; return its learning curve."""
    with Running(topology, overrides, total_steps=None) as run:
        return curve_of(run, name, request.seconds)
