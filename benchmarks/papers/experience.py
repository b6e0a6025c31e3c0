"""The suite ``experience``: compares learners that share weights, experience, both or neither (SAPO, arXiv 2509.08721).

SAPO's learners use as many rollouts of others as of their own, and mix no weights. Here, rollouts of others are
corrected for the policies that acted. All runs have the same number of steps, of which each learner makes an equal
share; the steps that it receives from others do not count. Runs differ only in what is shared, and in the seed.

Each run's result is a line of ``experience.jsonl`` in the folder of the report, if there is one. Runs that are in this
file are not repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from benchmarks.kept import keep_result, read_results
from benchmarks.learning import curve_of
from benchmarks.papers.dba3c_learning import ONLINE
from benchmarks.request import BenchmarkRequest
from launch.bench.interleaved import Spread, progress_bar
from launch.bench.report import SuiteReport
from launch.bench.running import Running
from launch.reports.statistics import interquartile_mean, interval
from launch.runs.curves import SCORE
from launch.runs.jsonl import Lines
from launch.topology.load import load

LEARNERS = 4
BOTH, WEIGHTS, EXPERIENCE, NEITHER = "weights and experience", "weights", "experience", "neither"
CASES = {BOTH: (True, True), WEIGHTS: (True, False), EXPERIENCE: (False, True), NEITHER: (False, False)}
"""Name of a case -> whether weights are shared, whether experience is."""
PARTS = (0.25, 0.5, 1.0)
"""Scores are compared after these parts of the steps."""
SUITE = "experience"


@dataclass(frozen=True)
class SharingResult:
    """One run."""

    case: str
    seed: int
    scores: Sequence[float]
    """Score (mean of the last 100 training games, over learners) after each of ``PARTS`` of the steps."""
    whole: float
    """Mean of this score over all reports of the run."""
    steps: int


def experience(request: BenchmarkRequest) -> SuiteReport:
    """Four learners that share weights, experience, both or neither, after equal steps; -o DIR continues a call."""
    load(request.topology, overrides(request, BOTH, seed=1))
    known = {(one.case, one.seed): one for one in read_results(request, SUITE, SharingResult)}
    seeds = request.seeds
    with progress_bar() as progress:
        task = progress.add_task("", total=request.repetitions * len(CASES))
        for seed in seeds:
            for case in CASES:
                progress.update(task, description=f"{case}, seed {seed}")
                if (case, seed) not in known:
                    known[case, seed] = result = run(request, case, seed)
                    keep_result(request, SUITE, result)
                progress.advance(task)
    return report(request, {case: [known[case, seed] for seed in seeds] for case in CASES})


def overrides(request: BenchmarkRequest, case: str, seed: int) -> tuple[str, ...]:
    """Return the overrides of a run: those of the request, and after them those that are compared.

    A learner shares the rows of all its environments: in a ring, it learns from as many foreign rows as own ones.
    """
    own = ("algorithm.name=impala", "mode=gossip", f"learners.count={LEARNERS}", "simulators.count=1")
    loaded = load(request.topology, (*own, *ONLINE, *request.overrides))
    weights, shared = CASES[case]
    what = (
        *(() if weights else ("gossip.graph=none",)),
        f"gossip.experience={shared * loaded.simulators.environments}",
    )
    return (*own, *ONLINE, *request.overrides, *what, f"seed={seed}")


def run(request: BenchmarkRequest, case: str, seed: int) -> SharingResult:
    """Train one case until its last step, at most for the request's seconds."""
    with Running(request.topology, overrides(request, case, seed), total_steps=None) as running:
        curve_of(running, f"{case}, seed {seed}", request.seconds)
        rows = [row for row in Lines(running.run_dir / "metrics.jsonl").new() if row.get(SCORE) is not None]
    steps = rows[-1]["env_steps"]
    return SharingResult(
        case=case,
        seed=seed,
        scores=[_score_after(rows, part * steps) for part in PARTS],
        whole=fmean(row[SCORE] for row in rows),
        steps=steps,
    )


def _score_after(rows: Sequence[Mapping[str, Any]], steps: float) -> float:
    return float(next(row[SCORE] for row in rows if row["env_steps"] >= steps))


def report(request: BenchmarkRequest, ran: Mapping[str, Sequence[SharingResult]]) -> SuiteReport:
    """Return the report: interquartile means over seeds after each part of the steps, and over the whole curve."""
    rows, bars, found = [], {}, {}
    for case, results in ran.items():
        after = [interval(interquartile_mean, [[one.scores[part] for one in results]]) for part in range(len(PARTS))]
        bars[case], found[case] = Spread(tuple(one.whole for one in results)), after
        whole = interval(interquartile_mean, [[one.whole for one in results]])
        rows.append((case, *(each.written for each in (*after, whole))))
    steps = [one.steps for results in ran.values() for one in results]
    return SuiteReport(
        suite=SUITE,
        headings=("shared", *(f"after {part:.0%}" for part in PARTS), "whole curve"),
        rows=rows,
        bars=bars,
        unit="score, whole curve",
        notes=(
            f"{LEARNERS} learners, {min(steps):,} to {max(steps):,} steps of their own together; mean over learners",
            f"of the last 100 training games, interquartile mean of {request.repetitions} seeds with its 95 % interval",
        ),
        figures={
            "topology": request.file,
            "overrides": list(request.overrides),
            "interquartile": {case: [its._asdict() for its in after] for case, after in found.items()},
        },
    )
