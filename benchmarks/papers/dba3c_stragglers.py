"""The suite ``dba3c-stragglers``: updates a second with backup learners, of which one is slow (Adamski et al. 2018).

The paper's best run makes an update of the first 60 gradients of 64 nodes (its repository's README), so that the four
slowest of an update are not waited for (section 2.2, "slow stragglers problem"). Here an update is made of K gradients
of four learners, on four nodes of this machine. Their environments sleep in each step and compute nothing, so that four
learners need less than the machine's cores, as they would on machines of their own.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from benchmarks.request import BenchmarkRequest, shipped
from benchmarks.suites.nodes import SMALL, cpu_s
from benchmarks.suites.stragglers import SLOWER
from launch.bench.interleaved import Spread, interleave
from launch.bench.report import SuiteReport, percent
from launch.bench.running import Running

TOPOLOGY = "catch-defaults.yaml"
"""Topology whose network and algorithm are used; the environment is another."""
LEARNERS = 4
SLOW = LEARNERS - 1
"""Number of the learner that is slow."""
STEP_S = 0.02
HORIZON = 5
"""Steps of an update, of one environment; they sleep for 0.1 s, where DBA3C computes for some tenths of a second."""
PAPER = (60, 64)
"""Number of gradients that make an update, and number of learners, in the paper's best run."""
WARMUP_S = 4.0
REPORT_EVERY_S = 1.0


class QuorumCase(NamedTuple):
    """A case: four learners, and the number of gradients that make an update."""

    quorum: int
    slow: bool
    """Whether the last learner is slower than the others, by SLOWER."""

    @property
    def name(self) -> str:
        """Name of the case in the table."""
        spare = LEARNERS - self.quorum
        return f"K = N{f' - {spare}' if spare else ''}, {'one slow' if self.slow else 'even'}"


CASES = tuple(QuorumCase(quorum, slow) for slow in (False, True) for quorum in (LEARNERS, LEARNERS - 1))


class StragglerReading(NamedTuple):
    """A measured interval of a run."""

    rate: float
    """Updates a second."""
    rows: Sequence[Mapping[str, Any]]
    """The reports of the interval."""
    named: Sequence[str]
    """Warnings about a slow learner up to the end of the interval."""
    cores: float
    """Processor time of all processes of the run, in cores."""


def dba3c_stragglers(request: BenchmarkRequest) -> SuiteReport:
    """Updates a second of four learners, with and without a slow one, by number of DBA3C's backup workers."""
    found: dict[QuorumCase, list[StragglerReading]] = {case: [] for case in CASES}
    interleave(
        {f"K = {k}": partial(measure_quorum, request, k, found) for k in (LEARNERS, LEARNERS - 1)}, request.repetitions
    )
    rates = {case.name: Spread(tuple(own.rate for own in found[case])) for case in CASES}
    even = rates[QuorumCase(LEARNERS, False).name].median
    return SuiteReport(
        suite="dba3c-stragglers",
        headings=("updates/s", "measured", "of K = N, even", "dropped", "of the slow one", "waited for", "named"),
        rows=[_row(case, rates[case.name], even, found[case]) for case in CASES],
        bars=rates,
        unit="updates/s",
        notes=(
            f"N = {LEARNERS} learners on nodes of this machine, one parameter server; the paper's best run has "
            f"K = {PAPER[0]} of {PAPER[1]}",
            f"a step sleeps {1000 * STEP_S:g} ms, {HORIZON} make an update; where one is slow, the environment of "
            f"trainer-{SLOW} sleeps {SLOWER:g} times as long",
            f"all processes together keep {max(each.cores for own in found.values() for each in own):.2f} cores busy",
            "dropped: gradients a second that came after their version was made; waited for: share of the time in "
            "which all others of the quorum had come and the last one had not",
        ),
        figures={"named": {case.name: [said for own in found[case] for said in own.named] for case in CASES}},
    )


def keys(quorum: int, slow: str) -> tuple[str, ...]:
    """Overrides of topologies/catch-defaults.yaml; ``slow``: the folder that names slow processes."""
    environment = {"step_s": STEP_S, "slow": slow, "slower": SLOWER}
    return (
        *SMALL,
        "simulators.envs=1",
        "env.id=benchmarks.environments:Waiting",
        f"env.kwargs={json.dumps(environment)}",
        f"algorithm.horizon={HORIZON}",
        "mode=async",
        "parameter_servers.count=1",
        f"learners.count={LEARNERS}",
        f"learners.quorum={quorum}",
        f"nodes.count={LEARNERS}",
        "nodes.listen=127.0.0.1:0",
    )


def measure_quorum(request: BenchmarkRequest, quorum: int, found: Mapping[QuorumCase, list[StragglerReading]]) -> float:
    """Measure a run while its learners are equally fast, and then while one is slow; return the first rate."""
    with tempfile.TemporaryDirectory(prefix="actorlearn-slow-") as slow:
        overrides = (*keys(quorum, slow), *request.overrides)
        with Running(shipped(TOPOLOGY), overrides, report_every_s=REPORT_EVERY_S, engine="local") as run:
            found[QuorumCase(quorum, False)].append(even := _stretch(run, request.seconds))
            Path(slow, str(run.pids()[f"simulator-{SLOW}"])).touch()
            found[QuorumCase(quorum, True)].append(_stretch(run, request.seconds))
    return even.rate


def _stretch(run: Running, seconds: float) -> StragglerReading:
    """Measure an interval of a run after a warm-up."""
    run.rate(0.0, WARMUP_S)
    first, spent_s = len(run.seen), cpu_s(run)
    run.rate(seconds)
    rows = run.seen[first:]
    elapsed_s = rows[-1]["time_s"] - run.seen[first - 1]["time_s"]
    named = [event["cause"] for event in run.events("warned") if " is slow" in event["cause"]]
    return StragglerReading(
        fmean(row["versions_per_s"] for row in rows), rows, named, (cpu_s(run) - spent_s) / elapsed_s
    )


def _row(case: QuorumCase, rates: Spread, even: float, found: Sequence[StragglerReading]) -> tuple[str, ...]:
    rows = [row for own in found for row in own.rows]
    dropped = {name: fmean(row["learners"][name]["gradients_dropped"] for row in rows) for name in rows[0]["learners"]}
    waited = fmean(row.get("straggler_wait_s", 0.0) for row in rows) / REPORT_EVERY_S
    named = Counter(said.partition(" is slow")[0] for own in found for said in own.named)
    return (
        case.name,
        f"{rates.median:.2f} ({rates.low:.2f}-{rates.high:.2f})",
        percent(rates.median / even),
        f"{sum(dropped.values()) / REPORT_EVERY_S:.2f}",
        f"{dropped[f'trainer-{SLOW}'] / REPORT_EVERY_S:.2f}",
        percent(waited),
        ", ".join(named) or "-",
    )
