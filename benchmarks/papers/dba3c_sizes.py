"""The suite ``dba3c-sizes``: data points a second by size of DBA3C's network (Adamski et al. 2018, table 2, figure 6).

A data point is a step that is learned from. The paper measures 32 nodes with 4 parameter servers; the table computes
the bytes of their updates from the number of parameters. Here two learners in step share this machine and nothing
crosses a network, so that only the times to compute and to copy memory can differ.
"""

from __future__ import annotations

from functools import partial

from benchmarks.request import BenchmarkRequest, shipped
from launch.bench.interleaved import interleave
from launch.bench.report import SuiteReport, percent, rate
from launch.bench.running import rate_of
from launch.plan.probe import describe
from launch.topology.load import load

PAPER_PARAMETERS = {256: 538_119, 128: 332_295, 64: 229_383, 32: 177_927, 16: 152_199}
"""Table 2, for a game with six actions: units of the layer after the convolutions -> number of parameters."""
PAPER_NODES = 64
"""Nodes of the paper's largest runs, for whose traffic section 2.5 gives 263 MB an update: it means MiB."""
TOPOLOGY = "atari/dba3c.yaml"
LEARNERS = 2
WARMUP_S = 4.0


def keys(units: int) -> tuple[str, ...]:
    """Return overrides of configs/atari/dba3c.yaml: another size, and as many learners as one machine can run."""
    return (
        "env.id=ALE/Pong-v5",
        f"model.hidden_units={units}",
        "model.hidden=relu",
        "nodes.count=1",
        "mode=sync",
        "parameter_servers.count=0",
        "learners.quorum=0",
        "algorithm.horizon=13",
        f"learners.count={LEARNERS}",
        "simulators.count=2",
        "simulators.envs=5",
        "evaluator.count=0",
        "evaluator.stop_at_score=null",
    )


def dba3c_sizes(request: BenchmarkRequest) -> SuiteReport:
    """Data points a second by size of DBA3C's network, beside the paper's table 2 and figure 6."""
    sizes = list(PAPER_PARAMETERS)[:: 4 if request.quick else 1]
    topology = shipped(TOPOLOGY)
    cases = {
        _case(units): partial(rate_of, topology, (*keys(units), *request.overrides), request.seconds, WARMUP_S)
        for units in sizes
    }
    measured = interleave(cases, request.repetitions)
    parameters = {units: describe(load(topology, keys(units))).weights for units in sizes}
    rows = [
        (
            _case(units),
            f"{parameters[units]:,}",
            f"{PAPER_PARAMETERS[units]:,}",
            percent(parameters[units] / parameters[sizes[0]]),
            f"{traffic_bytes(parameters[units], LEARNERS) / 2**20:.1f} MiB",
            f"{traffic_bytes(parameters[units], PAPER_NODES) / 2**20:.0f} MiB",
            rate(measured[_case(units)]),
        )
        for units in sizes
    ]
    return SuiteReport(
        suite="dba3c-sizes",
        headings=(
            "hidden layer",
            "parameters",
            "in the paper",
            f"of {sizes[0]} units'",
            f"an update, {LEARNERS} learners",
            f"{PAPER_NODES} nodes",
            "data points/s here",
        ),
        rows=rows,
        bars=measured,
        unit="data points/s",
        notes=(
            f"reduced: {LEARNERS} learners in step on one machine, 130 steps of each an update, not 32 nodes with "
            "4 parameter servers; 5 environments to a simulator in place of one",
            "traffic, computed: a gradient from each learner and weights to each; the paper says 263 MB for 64 nodes, "
            "which are MiB: 275.5 MB",
            "in the paper (figure 6) the rate falls as the layer grows, on an axis from 180 to 210",
        ),
    )


def traffic_bytes(parameters: int, learners: int) -> int:
    """Return the bytes of one update: a gradient from each learner, and weights to each, in float32 (section 2.5)."""
    return 2 * learners * parameters * 4


def _case(units: int) -> str:
    return f"{units} units"
