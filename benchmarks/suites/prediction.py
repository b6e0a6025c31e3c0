"""The suite ``prediction``: compares rates on several nodes of this machine with those that the model predicts.

Six kinds of topologies, with 1 to 4 nodes, have environments that mostly wait, so that four nodes can share the cores
of this machine: sync, a quorum of N - 1 of N learners, async, gossip, sync over links of a limited rate, and sync with
a slow learner. The learners of two more kinds, with 1 and 2 nodes that are pinned to a core each, compute all the time.

The costs of each network and environment are measured once, with one learner, and used for all its topologies. What is
measured is kept in the output folder at once; cases that are there already are not measured again.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from benchmarks.namespaces import linked, namespaces
from benchmarks.request import BenchmarkRequest
from benchmarks.suites.nodes import SMALL, pin
from benchmarks.suites.stragglers import SLOWER
from launch.bench.costs import measure
from launch.bench.interleaved import Spread
from launch.bench.report import SuiteReport, rate
from launch.bench.running import Running
from launch.errors import FailedError
from launch.machine.cores import begun_cores
from launch.plan.probe import describe
from launch.plan.roles import first_processes
from launch.runs.jsonl import Lines
from launch.simulate.keys import SimulateKeys
from launch.simulate.scenario import Costs, Scenario
from launch.simulate.sweep import scenario_of, work_of
from launch.topology.load import load

WARMUP_S = 4.0
FILE = "prediction.jsonl"
"""File in the output folder, with a line for the costs of each load and for each measurement."""
LINK_MBIT_PER_S = 100
_BUFFERS = "burst 16kb latency 1s"
"""Buffers of links: few bytes pass at once beside those of a message, and the queue is too long to lose any."""

STEP_S = 0.02
"""Seconds of a step of the environments that wait; a rollout of five steps takes a tenth of a second."""
_WAITING = ("simulators.envs=1", "env.id=benchmarks.environments:Waiting", "algorithm.horizon=5")
LOADS = {"waiting": _WAITING, "waiting, wide": (*_WAITING, "model.hidden_sizes=[256, 256]"), "computing": ()}
"""Name of a load -> its keys, besides ``SMALL``; topologies with the same load have the same costs."""
_SERVED = ("mode=async", "parameter_servers.count=1")


class NodesKind(NamedTuple):
    """A topology that is measured with several numbers of nodes."""

    load: str
    together: tuple[str, ...]
    """Keys of several learners."""
    served: bool = False
    """Whether a single learner has these keys too."""
    backups: int | None = None
    """Number of learners above the quorum; None: there is no quorum."""
    link_mbit_per_s: float | None = None
    """Rate of each node's link in each direction; None: nodes reach one another by the loopback device."""
    slow: bool = False
    """Whether the last node's environments are SLOWER times slower."""

    @property
    def counts(self) -> tuple[int, ...]:
        """Numbers of nodes that are measured; learners that compute all the time need a core each."""
        return (1, 2) if self.load == "computing" else (1, 2, 3, 4)


KINDS = {
    "sync": NodesKind("waiting", ("mode=sync",)),
    "quorum": NodesKind("waiting", _SERVED, served=True, backups=1),
    "async": NodesKind("waiting", _SERVED, served=True),
    "gossip": NodesKind("waiting", ("mode=gossip", "gossip.graph=ring")),
    "slow-link": NodesKind("waiting, wide", ("mode=sync",), link_mbit_per_s=LINK_MBIT_PER_S),
    "straggler": NodesKind("waiting", ("mode=sync",), slow=True),
    "computing-sync": NodesKind("computing", ("mode=sync",)),
    "computing-gossip": NodesKind("computing", ("mode=gossip", "gossip.graph=ring")),
}


def keys_of(load_name: str, slow: str = "/") -> tuple[str, ...]:
    """Return the keys of a load; ``slow``: a folder that names the processes whose environments are slow."""
    waits = {"step_s": STEP_S, "slow": slow, "slower": SLOWER}
    return (*LOADS[load_name], *(() if load_name == "computing" else (f"env.kwargs={json.dumps(waits)}",)))


class NodesCase(NamedTuple):
    """One case: a kind of topology, and a number of nodes with one learner each."""

    name: str
    """Name of its kind."""
    nodes: int

    @property
    def kind(self) -> NodesKind:
        """The kind of topology with this name."""
        return KINDS[self.name]

    @property
    def title(self) -> str:
        """Name of the case in the table."""
        return f"{self.name}, {self.nodes} node{'s' * (self.nodes > 1)}"

    def keys(self, slow: str = "/") -> list[str]:
        """Return the overrides of the run except those of nodes; ``slow``: as in `keys_of`."""
        kind = self.kind
        keys = [*keys_of(kind.load, slow), f"learners.count={self.nodes}"]
        keys += kind.together if self.nodes > 1 or kind.served else ()
        if kind.backups is not None:
            keys.append(f"learners.quorum={max(1, self.nodes - kind.backups)}")
        return keys


class NodesRate(msgspec.Struct, frozen=True):
    """The measured rate of a case."""

    case: str
    nodes: int
    steps_per_s: float
    """Environment steps per second that changed weights."""
    staleness: float | None
    """Mean staleness of gradients in mode async."""


class Priced(msgspec.Struct, frozen=True):
    """The costs of a load, and the number of weights of its network."""

    load: str
    costs: Costs
    weights: int


_KIND, _NODES = "kind=", "nodes.count="


def cases(overrides: Sequence[str]) -> list[NodesCase]:
    """Return the cases of each ``kind=`` and ``nodes.count=`` among the overrides; raises FailedError for none."""
    kinds, counts = _chosen(_KIND, overrides), _chosen(_NODES, overrides)
    if strangers := kinds - {*KINDS}:
        raise FailedError(f"{_KIND}{strangers.pop()}: no case is of this kind; write one of {', '.join(KINDS)}")
    found = [
        NodesCase(name, nodes)
        for name, kind in KINDS.items()
        if not kinds or name in kinds
        for nodes in kind.counts
        if not counts or str(nodes) in counts
    ]
    if not found:
        raise FailedError(f"{_NODES}{counts.pop()}: no case has so many nodes; write one of 1, 2, 3, 4")
    return found


def _chosen(key: str, overrides: Sequence[str]) -> set[str]:
    return {word.removeprefix(key) for word in overrides if word.startswith(key)}


def prediction(request: BenchmarkRequest) -> SuiteReport:
    """Rates of 1 to 4 nodes of six topologies beside predictions; kind=… and nodes.count=… choose, -o DIR resumes."""
    from launch.simulate.estimate import estimate
    from launch.simulate.model import simulate

    common = [*SMALL, *(word for word in request.overrides if not word.startswith((_KIND, _NODES)))]
    priced, found = _measure_missing(request, common, cases(request.overrides))
    rows, bars, predicted = [], {}, {}
    for case, measured in found.items():
        case_of = scenario(request.topology, common, case, priced[case.kind.load])
        outcome, closed = simulate(case_of), estimate(case_of)
        spread = bars[case.title] = Spread(tuple(each.steps_per_s for each in measured))
        predicted[case.title] = outcome.env_steps_per_s
        stale = [each.staleness for each in measured if each.staleness is not None]
        rows.append(
            (
                case.title,
                rate(spread),
                *_beside(outcome.env_steps_per_s, spread),
                *_beside(closed.env_steps_per_s, spread),
                *(
                    f"{value:.2f}" if stale else ""
                    for value in (statistics.fmean(stale or [0.0]), outcome.staleness_mean, closed.staleness)
                ),
            )
        )
    return SuiteReport(
        suite="prediction",
        headings=(
            *("steps/s", "measured", "predicted", "error", "closed form", "its error"),
            *("staleness", "predicted", "closed form"),
        ),
        rows=rows,
        bars=bars,
        unit="steps/s",
        notes=(
            f"slow-link: {LINK_MBIT_PER_S} Mbit/s in each direction; straggler: the last one's steps take {SLOWER:g}x",
            *(f"costs, {own.load}: {_said(own.costs)}" for own in priced.values()),
        ),
        figures={"predicted": predicted},
    )


def _measure_missing(
    request: BenchmarkRequest, common: Sequence[str], wanted: Sequence[NodesCase]
) -> tuple[dict[str, Priced], dict[NodesCase, list[NodesRate]]]:
    """Measure what the output folder lacks; returns the costs of each load, and all measurements of each case."""
    file = request.output / FILE if request.output else None
    priced, found = _read(file)
    for load_name in dict.fromkeys(case.kind.load for case in wanted):
        if load_name not in priced:
            priced[load_name] = _price(request, common, load_name)
            _keep(file, priced[load_name])
    for turn in range(request.repetitions):
        for case in wanted:
            if len(found.setdefault(case, [])) <= turn:
                measured = measure_case(request, common, case)
                found[case].append(measured)
                _keep(file, measured)
    order = [NodesCase(name, nodes) for name, kind in KINDS.items() for nodes in kind.counts]
    return priced, {case: found[case] for case in order if case in found}


def _read(file: Path | None) -> tuple[dict[str, Priced], dict[NodesCase, list[NodesRate]]]:
    """Return what has been measured before."""
    priced: dict[str, Priced] = {}
    found: dict[NodesCase, list[NodesRate]] = {}
    for row in Lines(file).new() if file else ():
        if "load" in row:
            own = msgspec.convert(row, Priced)
            priced[own.load] = own
        else:
            measured = msgspec.convert(row, NodesRate)
            found.setdefault(NodesCase(measured.case, measured.nodes), []).append(measured)
    return priced, found


def _keep(file: Path | None, row: Priced | NodesRate) -> None:
    if file is not None:
        with file.open("a") as lines:
            lines.write(json.dumps(msgspec.to_builtins(row)) + "\n")


def _price(request: BenchmarkRequest, common: Sequence[str], load_name: str) -> Priced:
    keys = [*common, *keys_of(load_name)]
    one = load(request.topology, [*keys, "learners.count=1"])
    weights = describe(one).weights
    costs = measure(request.topology, keys, work_of(one), weights, float(begun_cores()), request.seconds)
    return Priced(load_name, costs, weights)


def scenario(path: str, common: Sequence[str], case: NodesCase, priced: Priced) -> Scenario:
    """Return the case for the model: nodes share this machine's cores; those that compute are machines of one core."""
    kind = case.kind
    slow: dict[str, Any] = {"slow_learners": 1, "slow_factor": SLOWER} if kind.slow else {}
    machines, cores = 1, float(begun_cores())
    if kind.load == "computing":
        machines, cores = min(case.nodes, begun_cores()), 1.0
    elif kind.link_mbit_per_s:
        machines = case.nodes
    keys = SimulateKeys(machines=machines, link_mbit_per_s=kind.link_mbit_per_s or 1e9, latency_ms=0.0, **slow)
    made = load(path, [*common, *case.keys()])
    return scenario_of(made, keys, priced.costs, priced.weights, cores, case.nodes)


def measure_case(request: BenchmarkRequest, common: Sequence[str], case: NodesCase) -> NodesRate:
    """Run a case, and return its rate and staleness."""
    with tempfile.TemporaryDirectory(prefix="actorlearn-slow-") as slow:
        keys = [*common, *case.keys(slow)]
        made = load(request.topology, keys)
        with _running(request.topology, keys, case) as run:
            if case.kind.load == "computing":
                pin(run, {process.name: process.id.learner for process in first_processes(made)})
            if case.kind.slow:
                names = [name for name in run.pids() if name.startswith("simulator")]
                Path(slow, str(run.pids()[max(names)])).touch()
            run.rate(0.0, WARMUP_S)
            before = len(run.seen) - 1
            run.rate(request.seconds)
    first, *rows = run.seen[before:]
    last = rows[-1]
    seconds, steps = last["time_s"] - first["time_s"], last["env_steps"] - first["env_steps"]
    dropped = sum(row.get("gradients_dropped", 0) for row in rows) * work_of(made).env_steps
    stale = [row["staleness_mean"] for row in rows if made.mode == "async" and "staleness_mean" in row]
    return NodesRate(case.name, case.nodes, (steps - dropped) / seconds, statistics.fmean(stale) if stale else None)


@contextmanager
def _running(topology: str, keys: Sequence[str], case: NodesCase) -> Iterator[Running]:
    """Run a case on its nodes; raises FailedError."""
    if case.kind.link_mbit_per_s:
        names, limit = [f"node-{number}" for number in range(case.nodes)], f"{case.kind.link_mbit_per_s:g}mbit"
        with namespaces(names, limit, _BUFFERS) as network, linked(topology, keys, network) as run:
            yield run
        return
    nodes = (f"nodes.count={case.nodes}", "nodes.listen=127.0.0.1:0")
    with Running(topology, (*keys, *nodes), engine="local") as run:
        yield run


def _beside(predicted: float, measured: Spread) -> tuple[str, str]:
    return f"{predicted:,.0f}", f"{100 * (predicted / measured.median - 1):+.0f} %"


def _said(costs: Costs) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in msgspec.structs.asdict(costs).items())
