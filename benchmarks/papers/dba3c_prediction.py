"""The suite ``dba3c-prediction``: predicts figures 6 to 8 of Adamski et al. (2018) by simulation; measures nothing.

The paper does not give the costs of its machines. Three costs are computed from three points of its figures: the times
of a data point and of a round without its messages, and the rate of links. All else is predicted. Figures 6 and 7 can
be read only to the ends of their axes: 180 to 210, and 60 to 110 data points a second. These are rates of one worker:
64 workers at 193 a second make in 21 minutes as many data points as one node makes in 14 hours (figure 8).
"""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.papers.dba3c_nodes import PAPER_BATCH, PAPER_HOURS, PAPER_LEAST
from benchmarks.papers.dba3c_sizes import PAPER_PARAMETERS
from benchmarks.request import BenchmarkRequest
from launch.bench.report import SuiteReport
from launch.simulate.scenario import Costs, Scenario, Work
from launch.topology.schema import SimulatorsSection

POINT_S = 4.18e-3
"""Seconds for a data point in the gradient of a worker, from figures 6 and 7 (`calibrate`)."""
ROUND_S = 16.4e-3
"""Seconds of a round besides those for its batch and its messages; they include the wait for the slowest worker."""
LINK_BYTES_PER_S = 2.71e9
CORES = 12
BATCH = 32


class FigurePoint(NamedTuple):
    """One point of a figure of the paper."""

    figure: str
    case: Scenario
    low: float
    """Lower end of the paper's axis."""
    high: float
    given: bool = False
    """Whether a cost was computed from this point, so that it is no prediction."""


def worker_round(workers: int, servers: int, weights: int, batch: int) -> Scenario:
    """Return the scenario of workers, on a machine each, that make a step together through parameter servers."""
    return Scenario(
        costs=Costs(step_s=0.0, pass_s=0.0, gradient_s=batch * POINT_S, wake_s=ROUND_S if workers > 1 else 0.0),
        work=Work(horizon=batch, simulators=SimulatorsSection(count=1, envs=1)),
        exchanging="quorum" if workers > 1 else "alone",
        learners=workers,
        nodes=workers,
        machines=workers,
        cores=CORES,
        parameter_servers=servers,
        servers_apart=True,
        quorum=workers,
        weights=weights,
        link_bytes_per_s=LINK_BYTES_PER_S,
        latency_s=0.0,
        updates=20,
    )


def calibrate(one_server: float, eight_servers: float, smallest: float) -> tuple[float, float, float]:
    """Return the POINT_S, ROUND_S and LINK_BYTES_PER_S that explain these data points per second and worker.

    ``one_server``, ``eight_servers``: figure 7 (32 workers, batches of 4, 332k weights). ``smallest``: figure 6 with 16
    neurons (4 servers). The link of each of k servers carries gradients and weights: 2 x 32 x 4 P / k bytes.
    """
    whole = 2 * 32 * 4 * PAPER_PARAMETERS[128]
    rate = whole * (1 - 1 / 8) / (4 / one_server - 4 / eight_servers)
    of_four = 4 / one_server - whole / rate
    of_batch = BATCH / smallest - 2 * 32 * 4 * PAPER_PARAMETERS[16] / 4 / rate
    point_s = (of_batch - of_four) / (BATCH - 4)
    return point_s, of_four - 4 * point_s, rate


def points() -> list[FigurePoint]:
    """Return the points of the three figures."""
    p128 = PAPER_PARAMETERS[128]
    sizes = [
        FigurePoint(f"6, {size} neurons", worker_round(32, 4, PAPER_PARAMETERS[size], BATCH), 180, 210, size == 16)
        for size in sorted(PAPER_PARAMETERS)
    ]
    servers = [
        FigurePoint(f"7, {count} server{'s' * (count > 1)}", worker_round(32, count, p128, 4), 60, 110, count in (1, 8))
        for count in (1, 2, 4, 8)
    ]
    return sizes + servers


def dba3c_prediction(request: BenchmarkRequest) -> SuiteReport:
    """Predictions of figures 6 to 8 of DBA3C's paper, simulated from three of their points; measures nothing."""
    from launch.simulate.model import simulate

    rows = []
    for point in points():
        rate = simulate(point.case).env_steps_per_s / point.case.learners
        rows.append((point.figure, f"{rate:.0f}", f"{point.low:g} to {point.high:g}", _beside(rate, point)))
    batches = {nodes: max(PAPER_LEAST, PAPER_BATCH // nodes) for nodes in (1, 2, 4, 8, 16, 32, 64)}
    rates = {
        nodes: simulate(worker_round(nodes, 4, PAPER_PARAMETERS[128], batch)).env_steps_per_s
        for nodes, batch in batches.items()
    }
    for nodes, rate in rates.items():
        hours = PAPER_HOURS[1] * rates[1] / rate
        theirs = PAPER_HOURS.get(nodes)
        error = "given" if nodes == 1 else f"{100 * (hours / theirs - 1):+.0f} %" if theirs else "-"
        shown = f"{theirs:g} h" if theirs else "-"
        rows.append((f"8, {nodes} node{'s' * (nodes > 1)}", f"{hours:.2f} h", shown, error))
    return SuiteReport(
        suite="dba3c-prediction",
        headings=("figure", "predicted", "in the paper", "error"),
        rows=rows,
        unit="data points/s of a worker",
        notes=(
            "6, 7: data points a second of a worker; the paper's are read to the ends of their axes only",
            "8: hours to as many data points as a single node makes in its; the paper's are to a score of 300",
            f"costs: {POINT_S * 1e3:g} ms a data point, {ROUND_S * 1e3:g} ms a round, "
            f"links of {LINK_BYTES_PER_S * 8e-9:.1f} Gbit/s, from the three points that are given",
        ),
        figures={"predicted": {row[0]: row[1] for row in rows}},
    )


def _beside(rate: float, point: FigurePoint) -> str:
    if point.given:
        return "given"
    nearest = min(max(rate, point.low), point.high)
    return "in the axis" if nearest == rate else f"{100 * (rate / nearest - 1):+.0f} % from the axis"
