"""``actorlearn simulate``: predicts the rate of a topology on several machines (``launch/simulate``).

The prediction needs costs, the times of the stages of an update. They are measured on this machine, taken from the
reports of a run, or given as keys ``simulate.…``.
"""

from __future__ import annotations

import json as json_format
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from rich.console import Console

from launch.bench.costs import costs_of_run, measure, measure_rest
from launch.errors import FailedError, RunError
from launch.machine.cores import begun_cores
from launch.plan.probe import describe
from launch.runs.find import find
from launch.simulate import keys as simulate_keys
from launch.simulate.scenario import Costs, Scenario
from launch.simulate.sweep import curves, scenario_of, work_of
from launch.topology.defaults import Tree, section
from launch.topology.load import Topology, load
from launch.topology.overrides import Override, apply, expand
from launch.topology.strict_yaml import TopologyError


def simulate(
    topology: str, overrides: Sequence[str], run: str | None, seconds: float, output: Path | None, json: bool
) -> int:
    """Print the prediction, and write it to the file ``output`` unless it is None; return the exit status.

    ``run``: names a run whose reports give the costs; None: they are measured in ``seconds``.
    """
    try:
        from launch.simulate import report
        from launch.simulate.estimate import estimate
        from launch.simulate.model import simulate as predict
    except ModuleNotFoundError as missing:
        if missing.name != "simpy":
            raise
        raise RunError("simulate needs SimPy, which is not installed: pip install 'actorlearn[simulate]'") from None
    keys, given, words = simulate_keys.read([override.text for override in expand(overrides)])
    loaded = _load(topology, words)
    if output is not None:
        report.refuse_kind(output)
    weights = keys.weights or describe(loaded, here=False).weights
    costs = _given(given)
    if costs is None or run is not None:
        work, cores = work_of(loaded), float(begun_cores())
        if run is None:
            measured = measure(topology, words, work, weights, cores, seconds)
        else:
            measured = costs_of_run(find(run), work, cores, measure_rest(topology, words, weights))
        costs = msgspec.structs.replace(measured, **given)
    whole = scenario_of(loaded, keys, costs, weights, begun_cores(), loaded.nodes.count)
    console = Console(highlight=False, markup=False, quiet=json)
    console.width = max(console.width, report.LEAST_WIDTH)
    console.print(_said(whole))
    found = {}
    for name, cases in curves(whole, loaded, keys).items():
        found[name] = [report.Point(at, predict(case), estimate(case)) for at, case in cases.items()]
        console.print()
        console.print(report.table(name, found[name]))
    if json:
        plain = {name: [{"at": point.at, **point.row()} for point in curve] for name, curve in found.items()}
        print(json_format.dumps({"scenario": msgspec.to_builtins(whole), "curves": plain}))
    if output is not None:
        try:
            report.write(found, output)
        except OSError as error:
            raise FailedError(f"-o {output}: cannot be written: {error}; name another file") from None
    return 0


def _load(path: str, words: list[str]) -> Topology:
    """Read the topology with the overrides ``words``, and raise RunError if a node would have no learner.

    If ``words`` has nodes.count=n and not learners.count, n learners are assumed.
    """
    given: Tree = {}
    for word in words:
        with suppress(TopologyError):  # `load` reports it
            apply(Override(word), given, {})
    count = section(given, "nodes").get("count")
    if isinstance(count, int | float) and count > 1 and "count" not in section(given, "learners"):
        words.append(f"learners.count={count:g}")
    loaded = load(path, words)
    learners, nodes = loaded.learners.count, loaded.nodes.count
    if learners < nodes:
        raise RunError(f"learners.count={learners}: each of the {nodes} nodes needs a learner; write at least {nodes}")
    return loaded


def _given(costs: dict[str, float]) -> Costs | None:
    """Return the costs if all that have no default are given; else None, because they must be measured."""
    stages = [costs[name] for name in simulate_keys.STAGES if name in costs]
    if len(stages) < len(simulate_keys.STAGES):
        return None
    if not any(stages):
        words = ", ".join(f"{simulate_keys.PREFIX}{name}=0" for name in simulate_keys.STAGES)
        raise RunError(f"{words}: an update must take some time; give one of them a value above 0")
    return Costs(**costs)


def _said(whole: Scenario) -> str:
    costs = ", ".join(f"{name} {value:.3g}" for name, value in msgspec.structs.asdict(whole.costs).items())
    learners = f"{whole.learners} learner{'s' * (whole.learners > 1)}"
    machines = f"{whole.machines} machine{'s' * (whole.machines > 1)} of {whole.cores:g} cores"
    link = f"{whole.link_bytes_per_s * 8e-6:,.0f} Mbit/s of messages and {whole.latency_s * 1e3:g} ms"
    return (
        f"{learners} on {machines}, {link}; {whole.weights:,} weights, exchange: {whole.exchanging}\n"
        f"costs in seconds: {costs}"
    )
