"""The suite ``dba3c-nodes``: time to a score by number of nodes (Adamski et al. 2018, figure 8).

Nodes are doubled up to the topology's, which has learners on each. The batch of all together grows with them as in the
paper: 512 steps on up to 16 nodes, 32 of each node on more, and as many times smaller as the topology's is. A score is
that of 50 games by the likeliest action; a run ends with the first evaluation that reaches it.
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
"""Nodes -> hours to Breakout 300 (section 3.1); the others stand in a plot alone."""
PAPER_BATCH = 512
PAPER_LEAST = 32
"""Steps of each node in a batch, at least."""
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
    """Return overrides by which a topology has so many nodes and the paper's batch for them."""
    learners = max(1, round(loaded.learners.count * count / loaded.nodes.count))
    share = loaded.learners.count / learners
    grown = _batch(count) / _batch(loaded.nodes.count)
    horizon = max(1, round(loaded.algorithm.horizon * share * grown))
    return (*learners_on_nodes(loaded, learners), f"algorithm.horizon={horizon}")


def _batch(count: int) -> int:
    """Return the paper's steps of an update on so many nodes."""
    return max(PAPER_BATCH, PAPER_LEAST * count)


def compare(
    request: BenchmarkRequest, loaded: Topology, ran: Mapping[int, Sequence[LearningRun]], wanted: float
) -> SuiteReport:
    """Return the table of runs on so many nodes."""
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
    """Return a number of nodes in words."""
    return f"{count} node{'s' * (count > 1)}"
