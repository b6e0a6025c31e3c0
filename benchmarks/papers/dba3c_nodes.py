"""The suite ``dba3c-nodes``: time to a score by number of nodes (Adamski et al. 2018, figure 8).

The number of nodes is doubled up to the topology's. The batch of all learners together grows with it as in the paper:
512 steps on up to 16 nodes, and 32 steps for each node on more. If the topology's batch is smaller than the paper's,
these numbers are reduced in proportion. A score is the mean of 50 games with the likeliest actions. A run ends with the
first evaluation that reaches --score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.learning import LearningRun, run_all
from benchmarks.papers.dba3c_learning import learners_on_nodes, reduced
from benchmarks.request import BenchmarkRequest
from launch.bench.interleaved import Spread
from launch.bench.report import SuiteReport
from launch.errors import RunError
from launch.topology.load import Topology, load

PAPER_HOURS = {1: 14.2, 64: 0.35}
"""Number of nodes -> hours until a score of 300 in Breakout (section 3.1); other numbers are only in a plot."""
PAPER_BATCH = 512
PAPER_LEAST = 32
"""Least number of steps of each node in a batch."""
EVALUATED = "eval_return_mean"


def dba3c_nodes(request: BenchmarkRequest) -> SuiteReport:
    """Minutes to --score in an evaluation by number of nodes, beside DBA3C's figure 8; --seconds a run at most."""
    if request.score is None:
        raise RunError("dba3c-nodes: needs --score, the mean raw score of an evaluation to reach, e.g. --score 300")
    loaded = load(request.topology, request.overrides)
    cases = {count: (*keys(loaded, count), f"evaluator.stop_at_score={request.score}") for count in counts(loaded)}
    ran = run_all(request, {nodes_of(count): case for count, case in cases.items()}, EVALUATED)
    return compare(request, loaded, {count: ran[nodes_of(count)] for count in cases}, request.score)


def counts(loaded: Topology) -> tuple[int, ...]:
    """Return numbers of nodes: 1, 2, 4 and so on, and the topology's."""
    most = loaded.nodes.count
    doubled = [2**power for power in range(most.bit_length()) if 2**power < most]
    return (*doubled, most)


def keys(loaded: Topology, count: int) -> tuple[str, ...]:
    """Return the overrides for a number of nodes, with the paper's batch."""
    learners = max(1, round(loaded.learners.count * count / loaded.nodes.count))
    share = loaded.learners.count / learners
    grown = _batch(count) / _batch(loaded.nodes.count)
    horizon = max(1, round(loaded.algorithm.horizon * share * grown))
    return (*learners_on_nodes(loaded, learners), f"algorithm.horizon={horizon}")


def _batch(count: int) -> int:
    """Return the steps of an update in the paper for a number of nodes."""
    return max(PAPER_BATCH, PAPER_LEAST * count)


def compare(
    request: BenchmarkRequest, loaded: Topology, ran: Mapping[int, Sequence[LearningRun]], wanted: float
) -> SuiteReport:
    """Return the report of the runs on each number of nodes."""
    rows, bars = [], {}
    for count, all_ in ran.items():
        reached = [one for one in all_ if one.curve.final >= wanted]
        minutes = Spread(tuple(one.minutes for one in reached)) if reached else None
        if minutes is not None:
            bars[nodes_of(count)] = minutes
        alone = bars.get(nodes_of(1))
        hours = PAPER_HOURS.get(count)
        rows.append(
            (
                nodes_of(count),
                f"{len(reached)} of {len(all_)}",
                f"{minutes.median:.2f} ({minutes.low:.2f} to {minutes.high:.2f})" if minutes else "-",
                f"{alone.median / minutes.median:.2f}" if minutes and alone else "-",
                f"{Spread(tuple(one.steps for one in reached)).median:,.0f}" if reached else "-",
                f"{Spread(tuple(one.steps_per_s for one in all_)).median:,.0f}",
                f"{hours:g} h" if hours else "-",
                f"{PAPER_HOURS[1] / hours:.1f}" if hours else "-",
            )
        )
    return SuiteReport(
        suite="dba3c-nodes",
        headings=(
            "",
            f"reached {wanted:g}",
            "minutes",
            "times faster",
            "steps",
            "steps/s",
            "in the paper",
            "times faster",
        ),
        rows=rows,
        bars=bars,
        unit=f"minutes to {wanted:g}",
        notes=(
            f"reduced: {reduced(loaded)}",
            "minutes: from the first report to the first evaluation with that mean; in the paper hours to 300 in "
            "Breakout, mean of 10 runs, of 50 games each 1,000 updates",
        ),
        figures={"topology": request.file, "overrides": list(request.overrides), "nodes": loaded.nodes.count},
    )


def nodes_of(count: int) -> str:
    """Return a number of nodes as text."""
    return f"{count} node{'s' * (count > 1)}"
