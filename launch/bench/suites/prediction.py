"""The suite ``prediction``: rates of learners on nodes of this machine beside those that the model predicts.

Costs are measured with one learner, and predict the rates of 1 to 4 nodes in each mode, even and with one slow learner.
Each learner and its node are pinned to a core, which learners share where there are more of them: to the model these
are machines of one core, with links that take no time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import msgspec

from launch.bench.measure.costs import measure
from launch.bench.measure.interleaved import Spread, interleave
from launch.bench.measure.report import Report, rate
from launch.bench.measure.request import Request
from launch.bench.measure.running import Running
from launch.bench.suites.nodes import SMALL, pin
from launch.bench.suites.stragglers import SLOWER, slowed
from launch.errors import FailedError
from launch.machine.cores import begun_cores
from launch.plan.probe import describe
from launch.plan.processes import first_processes
from launch.simulate.keys import SimulateKeys
from launch.simulate.scenario import Costs, Scenario
from launch.simulate.sweep import scenario_of, work_of
from launch.topology.load import load

COUNTS = (1, 2, 3, 4)
WARMUP_S = 4.0
_MODES = {"sync": (), "gossip": ("gossip.graph=ring",), "async": ()}

_MODE, _LEARNERS = "mode=", "learners.count="


class Case(NamedTuple):
    """Learners on so many nodes, one each."""

    mode: str
    nodes: int
    slow: bool
    """Whether the last learner is slower than the others, by SLOWER."""

    @property
    def name(self) -> str:
        """Its words in a table."""
        many = f"{self.nodes} nodes" if self.nodes > 1 else "1 node"
        return f"{self.mode}, {many}{', one slow' if self.slow else ''}"

    @property
    def keys(self) -> list[str]:
        """Overrides of its run, but for the nodes."""
        alone = self.nodes == 1
        return [f"learners.count={self.nodes}", *(() if alone else (f"mode={self.mode}", *_MODES[self.mode]))]


def cases(overrides: Sequence[str]) -> list[Case]:
    """Return the cases of a ``mode=`` and a ``learners.count=`` among the overrides; raises FailedError for none."""
    wanted = _chosen(_MODE, overrides) or {*_MODES}
    counts = [count for count in COUNTS if str(count) in (_chosen(_LEARNERS, overrides) | {"1"})]
    counts = counts if len(counts) > 1 else [*COUNTS]
    if strangers := wanted - {*_MODES}:
        raise FailedError(f"mode={strangers.pop()}: no case is in this mode; write one of {', '.join(_MODES)}")
    each = [Case(mode, nodes, slow) for mode in sorted(wanted) for slow in (False, True) for nodes in counts]
    alone = [case for case in each if case.nodes == 1 and not case.slow]
    return alone[:1] + [case for case in each if case.nodes > 1]


def _chosen(key: str, overrides: Sequence[str]) -> set[str]:
    return {word.removeprefix(key) for word in overrides if word.startswith(key)}


def prediction(request: Request) -> Report:
    """Rates of 1 to 4 nodes of this machine, in each mode, beside predictions; mode=… and learners.count=… choose."""
    from launch.simulate.estimate import estimate
    from launch.simulate.model import simulate

    common = [*SMALL, *(word for word in request.overrides if not word.startswith((_MODE, _LEARNERS)))]
    wanted = cases(request.overrides)
    one = load(request.topology, [*common, "learners.count=1"])
    costs = measure(
        request.topology, common, work_of(one), describe(one).weights, float(begun_cores()), request.seconds
    )
    scenarios = {case: scenario(request.topology, common, case, costs, describe(one).weights) for case in wanted}
    turns: dict[str, Callable[[], float]] = {case.name: partial(_rate, request, common, case) for case in wanted}
    rates = interleave(turns, request.repetitions)
    predicted = {case: simulate(scenarios[case]).env_steps_per_s for case in wanted}
    closed = {case: estimate(scenarios[case]).env_steps_per_s for case in wanted}
    return Report(
        suite="prediction",
        headings=("steps/s", "measured", "predicted", "error", "closed form", "error of that"),
        rows=[
            (
                case.name,
                rate(found := rates[case.name]),
                *_beside(predicted[case], found),
                *_beside(closed[case], found),
            )
            for case in wanted
        ],
        bars=rates,
        unit="steps/s",
        notes=(f"one slow: stopped most of the time, so that it is {SLOWER:g} times slower", f"costs: {_said(costs)}"),
        figures={"predicted": {case.name: predicted[case] for case in wanted}},
    )


def scenario(path: str, common: Sequence[str], case: Case, costs: Costs, weights: int) -> Scenario:
    """Return the model's case: each core is a machine."""
    slow: dict[str, Any] = {"slow_learners": 1, "slow_factor": SLOWER} if case.slow else {}
    machines = min(case.nodes, begun_cores())
    keys = SimulateKeys(machines=machines, link_mbit_per_s=1e9, latency_ms=0.0, **slow)
    return scenario_of(load(path, [*common, *case.keys]), keys, costs, weights, 1.0, case.nodes)


def _rate(request: Request, common: Sequence[str], case: Case) -> float:
    """Return the measured rate of a case."""
    on_nodes = [f"nodes.count={case.nodes}", "nodes.listen=127.0.0.1:0"]
    overrides = [*common, *case.keys, *on_nodes]
    learners = {process.name: process.id.learner for process in first_processes(load(request.topology, overrides))}
    with Running(request.topology, overrides, engine="local") as run, ExitStack() as stopped:
        pin(run, learners)
        for name, pid in run.pids().items():
            if case.slow and learners[name] == case.nodes - 1:
                stopped.enter_context(slowed(pid))
        return run.rate(request.seconds, WARMUP_S)


def _beside(predicted: float, measured: Spread) -> tuple[str, str]:
    return f"{predicted:,.0f}", f"{100 * (predicted / measured.median - 1):+.0f} %"


def _said(costs: Costs) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in msgspec.structs.asdict(costs).items())
