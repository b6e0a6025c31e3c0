"""Suites ``dba3c-async``, ``dba3c-rate`` and ``dba3c-epsilon``: figures 3, 4 and 5 of DBA3C (Adamski et al. 2018).

The runs of a suite differ in the quantity that the figure varies, and in the seed. Scores are those of training games,
as in the figures, after equal steps and after equal time. The default topology is ``topologies/dba3c-catch.yaml``,
which one machine learns in a minute. With ``configs/atari/dba3c.yaml`` and an engine, sizes are the paper's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.learning import LearningRun, run_all, score
from benchmarks.request import BenchmarkRequest
from launch.bench.interleaved import Spread
from launch.bench.report import SuiteReport, rate
from launch.errors import RunError
from launch.topology.load import Topology, load

RATES = (5e-4, 1e-3, 2e-3, 4e-3)
"""Learning rates: the paper's 1e-3 and 2e-3 (figure 4), a smaller and a larger one."""
EPSILONS = (1e-3, 1e-8)
SMALLER = 16
"""Factor by which figure 5's small batch is smaller than the topology's."""
ONLINE = ("evaluator.count=0", "evaluator.stop_at_score=null")
"""Keys with which scores are those of training games: no evaluator."""
FALL = "largest fall"
"""Name of a group of values in the report, and of a column of its table."""
BEST, CURVE = "best score", "curve"
"""Names of further groups: the highest score of each run, and its mean score up to the last step of the shortest."""
UNSTABLE = "large instabilities, forgets how to play"


@dataclass(frozen=True)
class LearningCase:
    """One line of a figure: a case that is trained."""

    keys: tuple[str, ...]
    paper: str
    """How the line goes in the paper, in words."""


def dba3c_async(request: BenchmarkRequest) -> SuiteReport:
    """Async against sync with as many learners, beside DBA3C's figure 3; --seconds is the most of each run."""
    loaded = load(request.topology, request.overrides)
    count = loaded.learners.count
    if count < 2:
        raise RunError(f"dba3c-async: learners.count is {count}; only several learners have stale gradients; raise it")
    awaited = loaded.learners.quorum or count
    falls = "64 workers: the score falls to 0 after about 50 minutes"
    cases = {
        f"async, {count} learners": LearningCase(("learners.quorum=0",), falls),
        f"sync, {awaited} of {count} learners": LearningCase((f"learners.quorum={awaited}",), "no such fall"),
    }
    return _report("dba3c-async", request, loaded, cases)


def dba3c_rate(request: BenchmarkRequest) -> SuiteReport:
    """Learning rates around 1e-3, beside DBA3C's figure 4; --seconds is the most of each run."""
    loaded = load(request.topology, request.overrides)
    paper = {1e-3: "the largest without large instabilities", 2e-3: f"64 nodes, 64 steps of each: {UNSTABLE}"}
    cases = {
        f"rate {one:g}": LearningCase(
            (f"optimizer.learning_rate={one}", "optimizer.schedule=constant"), paper.get(one, "-")
        )
        for one in (RATES[1:3] if request.quick else RATES)
    }
    return _report("dba3c-rate", request, loaded, cases)


def dba3c_epsilon(request: BenchmarkRequest) -> SuiteReport:
    """Adam's epsilon 1e-3 against 1e-8 in large and small batches, beside DBA3C's figure 5; --seconds a run at most."""
    loaded = load(request.topology, request.overrides)
    paper = {
        ("large", 1e-3): "64 nodes: slow at the beginning",
        ("large", 1e-8): "64 nodes: a large speed-up at the beginning",
        ("small", 1e-8): "no gain in batches below 512",
    }
    cases = {
        f"{size} batch, epsilon {epsilon:g}": LearningCase(
            (*keys, f"optimizer.epsilon={epsilon}"), paper.get((size, epsilon), "-")
        )
        for size, keys in (("large", ()), ("small", smaller(loaded)))
        for epsilon in EPSILONS
    }
    return _report("dba3c-epsilon", request, loaded, cases)


def smaller(loaded: Topology) -> tuple[str, ...]:
    """Return the keys for a batch that is ``SMALLER`` times smaller: by fewer learners, or else by shorter rollouts.

    Rollouts are not made shorter than the steps of a return, so that returns stay the same.
    """
    if loaded.learners.count >= SMALLER:
        return learners_on_nodes(loaded, loaded.learners.count // SMALLER)
    least = min(getattr(loaded.algorithm, "return_steps", None) or 1, loaded.algorithm.horizon)
    return (f"algorithm.horizon={max(least, loaded.algorithm.horizon // SMALLER)}",)


def learners_on_nodes(loaded: Topology, count: int) -> tuple[str, ...]:
    """Return the keys for another number of learners, with nodes and the quorum in proportion."""
    learners = loaded.learners
    nodes = max(1, round(loaded.nodes.count * count / learners.count))
    quorum = max(1, round(learners.quorum * count / learners.count)) if learners.quorum else 0
    return (f"learners.count={count}", f"learners.quorum={quorum}", f"nodes.count={nodes}")


def batch(loaded: Topology) -> int:
    """Return the effective batch: the steps from which one update of the weights is made (section 2.3)."""
    learners = loaded.learners
    gradients = learners.quorum or (learners.count if loaded.mode == "sync" else 1)
    return gradients * loaded.simulators.environments * loaded.algorithm.horizon


def reduced(loaded: Topology) -> str:
    """Return a note on the sizes in which a topology differs from the paper."""
    learners, nodes = loaded.learners.count, loaded.nodes.count
    return (
        f"here {loaded.env.id}, {loaded.model.name}, {learners} learner{'s' * (learners > 1)} on {nodes} "
        f"node{'s' * (nodes > 1)}, {loaded.simulators.environments} environments of each, "
        f"{loaded.total_steps:,} steps; in the paper Atari, a network of convolutions, 64 learners on 64 nodes with "
        "12 cores and 10 environments of each, hours"
    )


def _report(suite: str, request: BenchmarkRequest, loaded: Topology, cases: Mapping[str, LearningCase]) -> SuiteReport:
    ran = run_all(request, {name: (*ONLINE, *case.keys) for name, case in cases.items()})
    return compare(suite, request, loaded, cases, ran)


def compare(
    suite: str,
    request: BenchmarkRequest,
    loaded: Topology,
    cases: Mapping[str, LearningCase],
    ran: Mapping[str, Sequence[LearningRun]],
) -> SuiteReport:
    """Return the report of runs: their scores after the steps and after the time of the shortest run."""
    runs = [one for all_ in ran.values() for one in all_]
    steps, minutes = min(one.steps for one in runs), min(one.minutes for one in runs)
    rows, bars, falls, batches = [], {}, {}, []
    bests = {name: Spread(tuple(one.best for one in ran[name])) for name in cases}
    curves = {name: Spread(tuple(one.mean_score(steps) for one in ran[name])) for name in cases}
    for name, case in cases.items():
        all_ = ran[name]
        falls[name] = Spread(tuple(one.largest_fall for one in all_))
        batches.append(batch(load(request.topology, (*request.overrides, *case.keys))))
        bars[name] = Spread(tuple(one.score(0, steps) for one in all_))
        stale = [one.staleness for one in all_ if one.staleness is not None]
        rows.append(
            (
                name,
                f"{batches[-1]:,}",
                f"{fmean(stale):.1f}" if stale else "-",
                rate(Spread(tuple(one.steps_per_s for one in all_))),
                score(Spread(tuple(one.score(0, steps / 2) for one in all_))),
                score(bars[name]),
                score(Spread(tuple(one.score(1, minutes) for one in all_))),
                score(falls[name]),
                case.paper,
            )
        )
    return SuiteReport(
        suite=suite,
        headings=(
            "",
            "batch",
            "staleness",
            "steps/s",
            f"score after {steps / 2:,.0f} steps",
            f"after {steps:,.0f}",
            f"after {minutes * 60:,.0f} s",
            FALL,
            "in the paper",
        ),
        rows=rows,
        bars=bars,
        unit="score",
        notes=(
            f"reduced: {reduced(loaded)}",
            f"scores: mean of the last 100 training games, median of {request.repetitions} seeds (lowest to highest)",
            "batch: steps that an update of the weights is made of; "
            "staleness: changes of the weights since those that a gradient was taken by; "
            "largest fall: from the best score before",
        ),
        figures={
            **{"topology": request.file, "overrides": list(request.overrides)},
            **{"learners": loaded.learners.count, "batch": max(batches)},
            **{
                group: {name: spread.as_json() for name, spread in found.items()}
                for group, found in ((FALL, falls), (BEST, bests), (CURVE, curves))
            },
        },
        curves=[one.curve for all_ in ran.values() for one in all_],
    )
