"""The suite ``families``: scores of runs by environment, with package and version, seeds, steps, minutes and rate.

Starts no run: reads the folders of finished runs. The table of docs/environments.md is made so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from statistics import fmean, median, stdev
from typing import Any

from actorlearn.envs import registered
from actorlearn.envs.specs import ENVIRONMENTS
from benchmarks.request import BenchmarkRequest
from launch.bench.interleaved import Spread
from launch.bench.report import SuiteReport
from launch.bench.running import rates
from launch.errors import RunError
from launch.reports import evaluations
from launch.reports.compare import group_alike
from launch.reports.format import as_whole
from launch.runs import find
from launch.runs.find import RunFolder


@dataclass(frozen=True)
class Learned:
    """Runs that differ only in name and seed."""

    topology: Mapping[str, Any]
    """The resolved topology of one of them."""
    runs: Sequence[str]
    seeds: Sequence[Any]
    steps: int
    """Environment steps of the shortest run."""
    minutes: Spread
    rate: Spread
    """Environment steps per second: for each run, the median over its reports."""
    scores: Spread
    """Mean raw score of each run: in its last evaluation, or else of its last 100 training games."""
    over: str
    """A text on the games in these means."""

    @property
    def env_id(self) -> str:
        """Id of the environment."""
        return str(self.topology["env"]["id"])

    def row(self) -> tuple[str, ...]:
        """Return the line of the table."""
        return (
            self.env_id,
            package_of(self.env_id),
            str(self.topology["name"]),
            str(self.topology["algorithm"]["name"]),
            " ".join(map(str, self.seeds)),
            as_whole(self.steps),
            f"{self.minutes.median:.1f}",
            as_whole(self.rate.median),
            written_score(self.scores.values),
            self.over,
        )


def families(request: BenchmarkRequest) -> SuiteReport:
    """Scores of runs by environment, with package, seeds, steps, minutes and rate; for RUN... [all in runs/]."""
    runs = [find.find(word) for word in request.names] if request.names else _ended(find.all_runs())
    learned = [_learned(group) for group in _alike(runs)]
    learned.sort(key=lambda one: one.env_id)
    return SuiteReport(
        suite="families",
        headings=("environment", "package", "name", "by", "seeds", "steps", "minutes", "steps/s", "score", "over"),
        rows=[one.row() for one in learned],
        bars={f"{one.topology['name']}": one.scores for one in learned},
        unit="score",
        notes=(
            "score: mean of the seeds, plus or minus their standard deviation; minutes and steps/s: the median run's",
        ),
        figures={"runs": {one.env_id: list(one.runs) for one in learned}},
    )


def written_score(scores: Sequence[float]) -> str:
    """Return a mean and its sample deviation, with at least three digits of the mean: 17.3 ± 2.1."""
    mean = fmean(scores)
    digits = next((3 - place for place in (0, 1, 2) if abs(mean) < 10**place), 0)
    deviation = f" ± {stdev(scores):,.{digits}f}" if len(scores) > 1 else ""
    return f"{mean:,.{digits}f}{deviation}"


def package_of(env_id: str) -> str:
    """Return the package of an environment and its version; the name of its module if no package is found."""
    needs = ENVIRONMENTS.of(env_id).needs
    module, colon, _ = env_id.partition(":")
    if needs:
        names: Sequence[str] = needs[:1]
    else:
        found = None if colon else registered.find(env_id)
        module = (module if colon else registered.module_of(found) if found else "").partition(".")[0]
        names = metadata.packages_distributions().get(module, ())
    try:
        return f"{names[0]} {metadata.version(names[0])}" if names else module or "not installed"
    except metadata.PackageNotFoundError:
        return f"{names[0]}, not installed"


def _ended(runs: Sequence[RunFolder]) -> list[RunFolder]:
    ended = [run for run in runs if run.summary().get("episode_return_mean") is not None and run.topology()]
    if not ended:
        raise RunError(f"no run in {find.RUNS}/ has ended with a score; name folders of runs")
    return ended


def _alike(runs: Sequence[RunFolder]) -> list[list[RunFolder]]:
    topologies = [run.topology() for run in runs]
    if unread := next((run for run, read in zip(runs, topologies, strict=True) if not read), None):
        raise RunError(f"{unread.name} has no readable topology.yaml, whose keys group the runs; leave it out")
    return [[runs[index] for index in group] for group in group_alike(topologies)]


def _learned(runs: Sequence[RunFolder]) -> Learned:
    summaries = [run.summary() for run in runs]
    found = [_score(run, summary) for run, summary in zip(runs, summaries, strict=True)]
    return Learned(
        topology=runs[0].topology(),
        runs=[run.name for run in runs],
        seeds=[run.topology().get("seed") for run in runs],
        steps=min(int(summary["env_steps"]) for summary in summaries),
        minutes=Spread(tuple(summary["wall_time_s"] / 60 for summary in summaries)),
        rate=Spread(tuple(_rate(run, summary) for run, summary in zip(runs, summaries, strict=True))),
        scores=Spread(tuple(score for score, _ in found)),
        over=", ".join(sorted({over for _, over in found})),
    )


def _rate(run: RunFolder, summary: Mapping[str, Any]) -> float:
    """Return the median rate over reports; for a run with fewer than two reports, its mean including the start."""
    found = rates([row for row in run.metrics().new() if row.get("env_steps") and row.get("time_s")])
    return median(found) if found else float(summary["env_steps_per_s"])


def _score(run: RunFolder, summary: Mapping[str, Any]) -> tuple[float, str]:
    """Return the last score of an ended run, and a text on the games in this mean."""
    if not summary:
        raise RunError(f"{run.name} has not ended: its figures are those of summary.json")
    if found := evaluations.best_and_last(run.events().new()):
        return float(found["last"]["mean"]), f"{found['last']['episodes']} evaluated games"
    if (score := summary.get("episode_return_mean")) is None:
        raise RunError(f"{run.name} has no score: no game was over; let it go on, or leave it out")
    return float(score), "last 100 training games"
