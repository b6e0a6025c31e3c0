"""The suite ``asynchrony``: how much score PPO loses if experience is old, and how much each correction recovers.

The policy lag is fixed, as the age of data in Hilton et al. (2021, figure 1): each rollout is played with the weights
of a fixed number of updates ago. One process plays and learns (``lagged_learner.py``). Its weights are bit for bit
those of a run whose simulators are always ahead (`simulators.blocks`: lag + 1, `simulators.weights: rollout`). Runs of
a topology have the same number of steps, and differ only in lag, correction and seed.

Each run's result is a line of ``asynchrony.jsonl`` in the folder of the report, if there is one. Runs that are in this
file are not repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from benchmarks.kept import keep_result, read_results
from benchmarks.lagged import learn, loaded
from benchmarks.request import BenchmarkRequest
from launch.bench.interleaved import Spread, progress_bar
from launch.bench.report import SuiteReport, percent
from launch.reports.statistics import interquartile_mean, interval

LAGS = (0, 1, 4, 16)
PLAIN = "PPO"
METHODS: Mapping[str, tuple[str, ...]] = {
    PLAIN: (),
    "decoupled": ("algorithm.proximal=recomputed",),
    "interpolated": ("algorithm.proximal=interpolated",),
    "V-trace": ("algorithm.advantages=vtrace",),
    "scaled": ("optimizer.sample_size_scaling=sqrt",),
    "VACO": ("algorithm.name=vaco",),
}
"""Correction -> its keys."""
NUMBERS = ("policy_lag_mean", "effective_sample_size", "clipped_share")
SUITE = "asynchrony"


@dataclass(frozen=True)
class LagResult:
    """The result of one run."""

    method: str
    lag: int
    """The policy lag: number of updates by which the weights that acted were older than those that learned."""
    seed: int
    score: float
    """Mean of the last 100 training games."""
    whole: float
    """Mean of this score over the whole learning curve."""
    steps: int
    numbers: Mapping[str, float]
    """Means of NUMBERS over the run's updates."""

    @property
    def case(self) -> tuple[str, int]:
        """The case, which is the same for all seeds: correction and lag."""
        return self.method, self.lag


def asynchrony(request: BenchmarkRequest) -> SuiteReport:
    """PPO at policy lags of 0 to 16 with each correction, after equal steps; -o DIR continues an earlier call."""
    cases = [(method, lag) for lag in (LAGS[::2] if request.quick else LAGS) for method in _methods(lag)]
    seeds = request.seeds
    known = {(*one.case, one.seed): one for one in read_results(request, SUITE, LagResult)}
    missing = [(*case, seed) for seed in seeds for case in cases if (*case, seed) not in known]
    topologies = [loaded(request.topology, overrides(request, method, seed)) for method, _, seed in missing]
    with progress_bar() as progress:
        task = progress.add_task("learning", total=len(missing))
        for asked, answer in zip(missing, learn(topologies, [lag for _, lag, _ in missing]), strict=True):
            known[asked] = result = _result(*asked, answer)
            keep_result(request, SUITE, result)
            progress.advance(task)
    return report(request, {case: [known[*case, seed] for seed in seeds] for case in cases})


def _methods(lag: int) -> Iterable[str]:
    """Return the corrections to compare at a lag; at lag 0 only plain PPO, because the others do the same."""
    return METHODS if lag else (PLAIN,)


def overrides(request: BenchmarkRequest, method: str, seed: int) -> tuple[str, ...]:
    """Return the overrides of a run: those of the request, and after them those that are compared."""
    return (
        "algorithm.name=ppo",
        "algorithm.normalize_reward=false",
        *request.overrides,
        *METHODS[method],
        f"seed={seed}",
    )


def _result(method: str, lag: int, seed: int, answer: Mapping[str, Any]) -> LagResult:
    return LagResult(
        method=method,
        lag=lag,
        seed=seed,
        score=answer["score"],
        whole=fmean(score for _, score in answer["curve"]),
        steps=answer["env_steps"],
        numbers={name: answer["metrics"][name] for name in NUMBERS},
    )


def report(request: BenchmarkRequest, ran: Mapping[tuple[str, int], Sequence[LagResult]]) -> SuiteReport:
    """Return the report: interquartile means over seeds, also relative to lock-step."""
    rows, bars, found = [], {}, {}
    lock_step = interval(interquartile_mean, [[one.score for one in ran[PLAIN, 0]]]).estimate
    for (method, lag), results in ran.items():
        name = f"lag {lag}, {method}"
        scores, wholes = [one.score for one in results], [one.whole for one in results]
        bars[name], found[name] = Spread(tuple(scores)), interval(interquartile_mean, [scores])
        age, effective, clipped = (fmean(one.numbers[number] for one in results) for number in NUMBERS)
        rows.append(
            (
                name,
                found[name].written,
                interval(interquartile_mean, [wholes]).written,
                f"{found[name].estimate - lock_step:+,.2f}",
                f"{age:.1f}",
                percent(effective),
                percent(clipped),
            )
        )
    steps = [one.steps for results in ran.values() for one in results]
    return SuiteReport(
        suite=SUITE,
        headings=("", "score", "whole curve", "to lock-step", "policy lag", "effective sample", "clipped"),
        rows=rows,
        bars=bars,
        unit="score",
        notes=(
            f"scores: mean of the last 100 training games after {min(steps):,} to {max(steps):,} steps, interquartile "
            f"mean of {request.repetitions} seeds with its 95 % bootstrap interval; whole curve: its mean",
            "policy lag, effective sample and clipped: means over updates, at the last optimizer step of each",
        ),
        figures={
            "topology": request.file,
            "overrides": list(request.overrides),
            "interquartile": {name: its._asdict() for name, its in found.items()},
        },
    )
