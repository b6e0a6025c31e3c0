"""The suite ``gossip``: figures 1a, 1d, 2a and 2b of Assran et al. (2019) again, from runs of one topology.

Runs in modes sync, async and gossip differ only in mode, number of learners and seed. The learning rate grows with the
root of the number of learners, as in the paper. That of A3C does not, as in Stooke and Abbeel (2018, section 5.3),
whose variant and numbers the paper has. Learners that never mix are a case too, which shows the value of mixing. A run
ends with its topology's steps, or when its seconds are over. Scores are compared after the steps, and after the
minutes, of the run that ended first. A run is convergent if its score after these steps is at least half of the way
from the first score of a single learner to its last.

Each run's result is a line of ``gossip.jsonl`` in the folder of the report, if there is one. A run is repeated only if
its topology or keys have changed, or if it ended after fewer seconds than requested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

import msgspec

from actorlearn.algorithms.settings import OnPolicySettings
from actorlearn.metrics.energy import Energy
from actorlearn.parameters.mixing import GraphSettings, neighbours
from actorlearn.parameters.modes import GOSSIP, MODES
from benchmarks.kept import Making, keep_result, mixed, read_results
from benchmarks.learning import LearningRun, curve_of, since_first
from benchmarks.papers.gossip_bound import logs_of, points
from benchmarks.papers.gossip_figures import Figures, draw
from benchmarks.request import BenchmarkRequest
from launch.bench.interleaved import Spread, progress_bar
from launch.bench.report import SuiteReport, rate
from launch.bench.running import Running
from launch.runs.jsonl import Lines, read_object
from launch.topology.load import Topology, load
from launch.topology.modes import section_of

COUNTS = (1, 2, 4)
"""Learners; the paper's simulator counts are these times one learner's environments."""
GRADIENT_EVERY = 6
"""Default for the updates between two gradients that are compared."""
NO_MIXING = "no mixing"
"""Mode gossip on a graph without edges."""
WAITING, CORRECTED, DILOCO, NOLOCO = "waiting", "age-corrected", "DiLoCo", "NoLoCo"
"""Names of further cases: gossip that waits for all messages, age-corrected gossip, and outer optimizers."""
SUITE = "gossip"
AT_THE_END = "score at the end"
"""Group of a report, and column of its table."""
READ = ("gradient_cosine", "frames_per_kj")
"""Columns of reports that the table and the picture need."""
LOCAL_STEPS = 32
"""Optimizer steps between two exchanges with an outer optimizer; in sync at most those of a batch."""
WAYS = {
    "sync": ("sqrt", ("mode=sync",)),
    "async": ("none", ("mode=async",)),  # A3C: each learner's batch is as large as one's
    "gossip": ("sqrt", ("mode=gossip",)),
    NO_MIXING: ("sqrt", ("mode=gossip", "gossip.graph=none")),
    WAITING: ("sqrt", ("mode=gossip", "gossip.max_staleness=0")),
    CORRECTED: ("sqrt", ("mode=gossip", "gossip.age_corrected=true")),
    DILOCO: ("none", ("mode=sync", f"learners.local_steps={LOCAL_STEPS}", "learners.outer=nesterov")),
    NOLOCO: (
        "none",  # local steps are of one learner's batches
        (
            *("mode=gossip", "gossip.graph=random-matching", "gossip.max_staleness=0"),
            *(f"learners.local_steps={LOCAL_STEPS}", "learners.outer=momentum", "learners.outer_momentum=0.5"),
        ),
    ),
}
"""Mode -> how the learning rate grows with the learners (unless the request says otherwise), and the keys."""
Case = tuple[str, int]
"""Mode, or another name of ``WAYS``, and number of learners."""


@dataclass(frozen=True)
class GossipRun(LearningRun):
    """The learning curve and the logs of one run; its rows have the columns READ of reports that have any."""

    mixed: frozenset[str] = frozenset()
    """Pairs of learners, as in the rows' ``gradient_cosine``, of which one mixes the other's weights."""
    consensus: Sequence[tuple[float, float, float]] = ()
    """Points (minutes, distance of a learner's weights from the mean, bound on this distance)."""


@dataclass(frozen=True)
class GossipResult:
    """The result of one run of a case."""

    mode: str
    learners: int
    seed: int
    making: Making
    ran: GossipRun


def gossip(request: BenchmarkRequest) -> SuiteReport:
    """GALA's figures on a topology: convergent runs, score by mode, consensus, gradients; --seconds is each run's."""
    counts = COUNTS[:2] if request.quick else COUNTS
    loaded = load(request.topology, [given for given in request.overrides if _key(given) not in MODES.keys])
    cases = [(mode, count) for count in counts for mode in modes(count, counts[-1], _steps_of_a_batch(loaded))]
    for case in cases:  # errors in keys are raised before the first run
        load(request.topology, overrides(request, loaded, case, 1))
    seeds = request.seeds
    asked = {
        (*case, seed): Making.of(request, overrides(request, loaded, case, seed)) for seed in seeds for case in cases
    }
    known = {
        at: one
        for one in read_results(request, SUITE, GossipResult)
        if (at := (one.mode, one.learners, one.seed)) in asked and one.making.serves(asked[at], one.ran.ended)
    }
    missing = [at for at in asked if at not in known]
    with progress_bar() as progress:
        task = progress.add_task("", total=len(missing))
        for mode, count, seed in missing:
            progress.update(task, description=f"{_named(mode, count)}, seed {seed}")
            one = run_case(request, loaded, (mode, count), seed)
            known[mode, count, seed] = GossipResult(mode, count, seed, asked[mode, count, seed], one)
            keep_result(request, SUITE, known[mode, count, seed])
            progress.advance(task)
    ran: dict[Case, list[GossipRun]] = {case: [known[*case, seed].ran for seed in seeds] for case in cases}
    steps, minutes = _least_steps(ran), min(one.minutes for all_ in ran.values() for one in all_)
    found = figures(ran, loaded.simulators.count * loaded.simulators.envs)
    rates = {_named(*case): Spread(tuple(one.curve.steps_per_s or 0.0 for one in all_)) for case, all_ in ran.items()}
    ends = {case: Spread(tuple(one.score(0, steps) for one in all_)) for case, all_ in ran.items()}
    return SuiteReport(
        suite=SUITE,
        headings=(
            *("", "environments", "steps/s", "frames/kJ"),
            *(AT_THE_END, f"after {minutes:.1f} minutes", "convergent"),
        ),
        rows=[_row(case, all_, rates[_named(*case)], ends[case], found, minutes) for case, all_ in ran.items()],
        bars=rates,
        unit="steps/s",
        notes=(
            *_notes(found, steps),
            *mixed(known[at].making for at in asked),
            *_cut(ran, loaded.total_steps),
        ),
        figures={
            "topology": request.file,
            AT_THE_END: {_named(*case): spread.as_json() for case, spread in ends.items()},
            **msgspec.to_builtins(found.said()),
        },
        picture=partial(draw, found),
    )


def modes(count: int, most: int, steps: int) -> tuple[str, ...]:
    """Return the cases for a number of learners: sync for one, all for the most, sync and gossip for others.

    DiLoCo's learners exchange at the end of a batch, so it is compared only if a batch has several optimizer ``steps``.
    """
    if count == 1:
        return ("sync",)
    return tuple(way for way in WAYS if way != DILOCO or steps > 1) if count == most else ("sync", "gossip")


def _steps_of_a_batch(topology: Topology) -> int:
    """Return the optimizer steps of a batch; 1 with a replay."""
    algorithm = topology.algorithm
    return algorithm.epochs * algorithm.minibatches if isinstance(algorithm, OnPolicySettings) else 1


def figures(ran: dict[Case, list[GossipRun]], environments: int) -> Figures:
    """Return the data of the four panels; ``environments``: environments of each learner."""
    most, steps = max(count for _, count in ran), _least_steps(ran)
    alone = ran["sync", 1]
    first = median(one.curve.points[0][2] for one in alone)
    threshold = (first + median(one.score(0, steps) for one in alone)) / 2
    gossiped = ran["gossip", most]
    rows = [row for one in gossiped for row in one.rows]
    cosines = [row["gradient_cosine"] for row in rows if row.get("gradient_cosine")]
    return Figures(
        environments=environments,
        threshold=threshold,
        convergent={case: fmean(one.score(0, steps) >= threshold for one in all_) for case, all_ in ran.items()},
        curves={mode: [one.curve for one in all_] for (mode, count), all_ in ran.items() if count == most},
        consensus=[one.consensus for one in gossiped],
        cosine={
            pair: fmean(known[pair] for known in cosines if known.get(pair) is not None)
            for pair in sorted({pair for known in cosines for pair, value in known.items() if value is not None})
        },
        mixed=frozenset().union(*(one.mixed for one in gossiped)),
    )


def _least_steps(ran: dict[Case, list[GossipRun]]) -> float:
    """Return the steps of the run that was over first, after which scores are compared."""
    return min(one.steps for all_ in ran.values() for one in all_)


def _consensus(run_dir: Path) -> list[tuple[float, float, float]]:
    """Return points (minutes since the first exchange, distance of a learner from the mean, bound on it)."""
    logs = logs_of(run_dir)
    began_ns = min((records[0].time_ns for records in logs.values() if records), default=0)
    return [((point.time_ns - began_ns) / 60e9, point.distance, point.bound) for point in points(logs)]


def overrides(request: BenchmarkRequest, loaded: Topology, case: Case, seed: int) -> tuple[str, ...]:
    """Return the keys that a run changes in the loaded topology: each learner has as many simulators as one alone.

    Of the request's overrides, a run gets those that its mode uses.
    """
    (scaling, how), count = WAYS[case[0]], case[1]
    every = section_of(loaded, GOSSIP).gradient_every or GRADIENT_EVERY
    own = (f"gossip.gradient_every={every}", f"learners.rate_scaling={scaling}")
    s = loaded.simulators
    given = (f"simulators.count={s.count}", f"simulators.envs={s.envs}")
    swept = (*how, f"learners.count={count}", f"seed={seed}")
    mode = MODES.asked_for(how[0].removeprefix("mode="), count)
    return tuple(given for given in (*own, *given, *request.overrides, *swept) if not mode.unread(_key(given)))


def _key(override: str) -> str:
    return override.partition("=")[0]


def run_case(request: BenchmarkRequest, loaded: Topology, case: Case, seed: int) -> GossipRun:
    """Train a case with a seed until its last step, at most for the request's seconds."""
    with Running(request.topology, overrides(request, loaded, case, seed), total_steps=None) as run:
        curve = curve_of(run, f"{_named(*case)}, seed {seed}", request.seconds)
        rows = list(Lines(run.run_dir / "metrics.jsonl").new())
        settings = read_object(run.run_dir / "settings" / "trainer-0.0.json")
        consensus, ended = _consensus(run.run_dir), run.ended
    curve, rows = since_first(curve, rows)
    read = [kept for row in rows if (kept := {name: row[name] for name in READ if row.get(name) is not None})]
    pairs = _mixed(settings.get("exchange", {}).get("graph"), case[1])
    return GossipRun(curve, read, ended, mixed=pairs, consensus=consensus)


def _mixed(graph: Any, learners: int) -> frozenset[str]:
    if graph is None:
        return frozenset()
    settings = msgspec.convert(graph, GraphSettings)
    pairs = [(k, peer) for k in range(learners) for peer in neighbours(settings, range(learners), k)]
    return frozenset(f"{min(pair)}-{max(pair)}" for pair in pairs)


def _named(mode: str, count: int) -> str:
    return "one learner" if count == 1 else f"{mode}, {count} learners"


def _row(
    case: Case, all_: Sequence[GossipRun], speed: Spread, ends: Spread, found: Figures, minutes: float
) -> tuple[str, ...]:
    kilojoules = [row["frames_per_kj"] for one in all_ for row in one.rows if "frames_per_kj" in row]
    return (
        _named(*case),
        str(found.environments * case[1]),
        rate(speed),
        f"{fmean(kilojoules):,.0f}" if kilojoules else "-",
        _written(ends),
        _written(Spread(tuple(one.score(1, minutes) for one in all_))),
        f"{found.convergent[case] * len(all_):.0f} of {len(all_)}",
    )


def _written(scores: Spread) -> str:
    return f"{scores.median:.2f} ({scores.low:.2f} to {scores.high:.2f})"


def _cut(ran: dict[Case, list[GossipRun]], total_steps: int) -> tuple[str, ...]:
    """Return a note that runs ended early: the paper compares them after equal steps."""
    runs = [one for all_ in ran.values() for one in all_]
    cut = sum(one.steps < total_steps for one in runs)
    if not cut:
        return ()
    return (f"{cut} of {len(runs)} runs were ended before their {total_steps:,} steps: give them more --seconds",)


def _notes(found: Figures, steps: float) -> tuple[str, ...]:
    energy = Energy()
    said = found.said()
    return (
        f"{AT_THE_END}: after {steps:,.0f} steps, the last of the run that was over first",
        f"convergent: a score of {found.threshold:.2f} or more at the end, half of the way that one learner goes",
        f"energy: {energy.said()}" + ("" if energy.readable else ", so there are no frames/kJ"),
        f"distance from consensus: {said['consensus']}",
        f"cosine of gradients: {said['cosine']}",
    )
