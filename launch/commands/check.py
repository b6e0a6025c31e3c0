"""``actorlearn check``: validates a topology, and prints the plan of a run and warnings, as text or as JSON.

Starts no run. A child process makes the environment and the network once, to learn their sizes, and ends.
"""

from __future__ import annotations

import json as json_format
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from actorlearn.actions import describe_actions
from actorlearn.memory.owned import name_of
from actorlearn.memory.shared import SHM_ROOT, free_bytes
from actorlearn.models.specs import rows_before_learning
from actorlearn.optim.schedules import for_batches, scale_rate
from actorlearn.parameters.mixing import FREE_AGE, Mixing, measure_mixing, speed
from actorlearn.parameters.modes import GOSSIP
from launch.machine.folders import runtime_root
from launch.machine.gpus import visible_gpus
from launch.plan.addresses import Addresses
from launch.plan.memory_order import disorder
from launch.plan.nodes import NodeResources, need_of, place_learners
from launch.plan.plan import Plan
from launch.plan.planning import plan
from launch.plan.probe import Description, describe
from launch.plan.roles import plan_of
from launch.reports.format import as_bytes
from launch.topology.load import Topology, TopologyError, by_key, in_all, load, sizes, tree
from launch.topology.modes import mode, section_of
from launch.topology.validate import join_words


def check(topology: str, overrides: list[str], json: bool, everything: bool = False) -> int:
    """Print the plan; return the exit status. ``everything``: also print all keys, processes and shared memory."""
    loaded = load(topology, overrides)
    run_id = loaded.name  # the id of a real run is random
    sockets = runtime_root() / name_of(run_id)
    made = plan(loaded, describe(loaded), Addresses.of_run(run_id, Path("runs") / loaded.name, sockets))
    if json:
        print(json_format.dumps(as_json(made)))
        return 0
    console = Console()
    for line in summary(loaded, made):
        console.print(line, highlight=False, soft_wrap=True)
    for table in tables(loaded, made, everything):
        console.print()
        console.print(table)
    console.print()
    for choice in made.choices:
        console.print(f"[bold]chosen[/] {escape(str(choice))}", highlight=False, soft_wrap=True)
    if not everything:
        console.print("\nall keys with their values, processes and shared memory: add --all", highlight=False)
    return 0


def summary(loaded: Topology, made: Plan) -> list[str]:
    """Return a description of the run as lines of text, followed by one line for each warning.

    ``loaded``: the topology as the user has written it. ``made``: the plan; its topology also has the values that
    actorlearn chose.
    """
    topology = made.topology
    lines = [
        f"[bold]ok[/] {loaded.name}: {topology.algorithm.name} on {escape(topology.env.id)} to "
        f"{topology.total_steps:,} steps, {in_all(topology)}",
        _environment(topology, made.description),
        f"[bold]machine[/] {len(made.processes)} processes on {made.cores}, {as_bytes(made.bytes_total)} of shared "
        f"memory ({as_bytes(free_bytes())} free in {SHM_ROOT})",
        f"[bold]learning rate[/] {learning_rate(loaded)}",
    ]
    numbers = optimizer(made)
    if [*numbers.values()] != [loaded.optimizer.learning_rate, loaded.optimizer.rate_at_end, loaded.optimizer.epsilon]:
        said = ", ".join(f"{key} {number:g}" for key, number in numbers.items())
        lines.append(f"[bold]optimizer[/] {said}, adjusted to the number of learners and the batch size")
    if made.expectation:
        lines.append(f"[bold]updates[/] {made.expectation}")
    if rows := rows_before_learning(topology.model, topology.total_steps):
        lines.append(
            f"[bold]statistics[/] learning begins after at least {rows:,} steps, which only set the statistics of "
            "observations and do not count towards total_steps; model.statistics_rows changes their number"
        )
    if topology.nodes.several:
        lines.append(_nodes(made))
    if made.graph:
        lines.append(_mixing(measure_mixing(made.graph, loaded.learners.count)))
    return [*lines, *(f"[yellow]warning[/] {escape(warning)}" for warning in warnings(made))]


def warnings(made: Plan) -> list[str]:
    """Return a warning, with a remedy, for each problem that the run would have on this machine."""
    found = []
    if made.graph and (said := _taken_back(made.topology, measure_mixing(made.graph, made.topology.learners.count))):
        found.append(said)
    found += made.misfits
    if disordered := disorder():
        accepted = made.topology.supervision.any_memory_order
        found.append(f"{disordered}: {'this topology accepts it' if accepted else 'the run would be refused'}")
    if made.bytes_total > free_bytes():
        less = "replay.capacity_steps" if made.topology.replay else "simulators.envs or algorithm.horizon"
        found.append(
            f"the run needs {as_bytes(made.bytes_total)} of shared memory, and {SHM_ROOT} has only "
            f"{as_bytes(free_bytes())} free, so the run would be refused; free some (`actorlearn clean`), or "
            f"lower {less}"
        )
    return found


def learning_rate(topology: Topology) -> str:
    """Return a phrase with the learning rate and its schedule, before it is scaled by learners and batch size."""
    settings, end = topology.optimizer, topology.schedule_steps or topology.total_steps
    first, final, warmup = settings.learning_rate, settings.rate_at_end, settings.warmup_steps
    before = f"0 to {first:g} in {warmup:,} steps, then " if warmup else ""
    return before + (
        f"{first:g} throughout" if final == first else f"{first:g} to {final:g} at {end:,} steps, {settings.schedule}"
    )


def as_json(made: Plan) -> dict[str, Any]:
    """Return the plan as plain values; ``nodes`` is None if the learners do not fit on nodes like this machine."""
    topology = made.topology
    try:
        nodes = placement(made) if topology.nodes.several else {}
    except TopologyError:  # real nodes may be larger
        nodes = None
    return {
        "name": topology.name,
        "cores": made.cores.allowed,
        "usable_cores": made.cores.usable,
        "processes": [{"name": process.name, "role": process.id.role} for process in made.processes],
        "sockets": made.sockets,
        "wakeups": [made.addresses.wakeup(process.id).path for process in made.processes if process.role.woken],
        "segments": [{"name": segment.name, "bytes": segment.bytes, "what": segment.what} for segment in made.segments],
        "bytes_total": made.bytes_total,
        "bytes_free": free_bytes(),
        "observation": {
            "shape": list(made.description.observation_shape),
            "dtype": made.description.observation_dtype,
            "from": made.description.observation_from,
            "left_out": list(made.description.left_out),
        },
        "actions": msgspec.to_builtins(made.description.actions),
        "action_mask": msgspec.to_builtins(made.description.action_mask),
        "agents": made.description.agents,
        "weights": made.description.weights,
        "optimizer": optimizer(made),
        "nodes": nodes,
        "mixing": measure_mixing(made.graph, topology.learners.count)._asdict() if made.graph else None,
        "choices": [asdict(choice) for choice in made.choices],
        "in_all": sizes(topology),
        "topology": tree(topology),
    }


def optimizer(made: Plan) -> dict[str, float]:
    """Return the learning rates and the epsilon that trainers use.

    They are those of the topology, scaled by the number of learners, and with a replay by the size of its batches.
    """
    topology = made.topology
    batches = topology.replay.batches if topology.replay else 1.0
    scaling, learners = topology.learners.rate_scaling, topology.learners.count
    found = for_batches(topology.optimizer, batches, scaling)
    return {
        "learning_rate": scale_rate(found.learning_rate, learners, scaling),
        "learning_rate_final": scale_rate(found.rate_at_end, learners, scaling),
        "epsilon": found.epsilon,
    }


def tables(loaded: Topology, made: Plan, everything: bool = False) -> list[Table]:
    """Return the tables to print: one of the keys that the user has set.

    If ``everything`` is true, return tables of processes, shared memory and all keys instead. ``loaded``: the topology
    as the user has written it.
    """
    values = by_key(tree(made.topology))
    if everything:
        return [_processes(made), _segments(made), _keys("key", values)]
    return [_keys("set", {key: value for key, value in values.items() if key in loaded.written})]


def _environment(topology: Topology, found: Description) -> str:
    of = f", from {found.observation_from}" if found.observation_from else ""
    said = [
        f"observation {found.observation_dtype}{list(found.observation_shape)}{of}",
        describe_actions(found.actions) + (f", valid ones by {found.action_mask}" if found.action_mask else ""),
        *([f"{found.agents} agents per game, one row for each"] if found.agents > 1 else []),
        _network(topology),
    ]
    return f"[bold]environment[/] {escape('; '.join([*said, *filter(None, [found.unseen])]))}"


def _network(topology: Topology) -> str:
    """Return a phrase with the network's name, and the parts of a flat observation that it treats as images."""
    images = [str([*image.shape]) for image in getattr(topology.model, "images", ())]
    what = f", with convolutions for {'image' if len(images) == 1 else 'images'} {', '.join(images)}" if images else ""
    return f"network {topology.model.name}{what}"


def placement(made: Plan) -> dict[str, list[int]]:
    """Return the learners of each node, under the assumption that all nodes are like this machine.

    If this machine has no GPU, nodes are assumed to have enough of them. Raises TopologyError if the learners do not
    fit on such nodes.
    """
    topology, names = made.topology, [f"node-{number}" for number in range(made.topology.nodes.count)]
    need = need_of(topology, made.description)
    gpus = len(visible_gpus()) or need.gpus * topology.learners.count  # a login node has none
    here = NodeResources(cores=made.cores.usable, shm_bytes=free_bytes(), gpus=gpus)
    placed = place_learners(range(topology.learners.count), dict.fromkeys(names, here), need, {})
    return {name: [learner for learner, node in placed.items() if node == name] for name in names}


def _nodes(made: Plan) -> str:
    need = need_of(made.topology, made.description)
    takes = [f"{need.cores:g} cores", f"{as_bytes(need.shm_bytes)} of shared memory"]
    takes += [f"{need.gpus} GPU"] if need.gpus else []
    here = "machines like this one" + (" with enough GPUs" if need.gpus and not visible_gpus() else "")
    try:
        nodes = [f"{name}: {', '.join(map(str, found)) or 'none'}" for name, found in placement(made).items()]
    except TopologyError as error:
        return f"[yellow]warning[/] nodes like this machine are too small: {escape(str(error))}"
    return f"[bold]nodes[/] a learner takes {join_words(takes)}; learners of each node, on {here}: {'; '.join(nodes)}"


def _mixing(found: Mixing) -> str:
    low, high = found.in_degree
    within, period = found.connected_within, found.period
    drawn = "" if found.repeats else f" in {period} draws"
    turns = f"the graph repeats after {period} exchanges" if found.repeats else "a new graph is drawn for each exchange"
    said = [
        f"each learner averages with {low if low == high else f'{low} to {high}'} other(s)",
        "the graph is always the same" if period == 1 else turns,
        f"all learners are connected within {within} exchange(s){drawn}"
        if within
        else f"not all learners are ever connected{drawn}",
        f"an exchange reduces the differences between learners to {found.spectral_radius:.3f} of their "
        f"size{drawn} (spectral radius)",
        f"exchanges of all learners at the same time {'keep' if found.doubly_stochastic else 'change'} the "
        "mean of their weights",
    ]
    return f"[bold]mixing[/] {', '.join(said)}"


def _taken_back(topology: Topology, found: Mixing) -> str:
    """Return a warning, in mode gossip, if averaging with old weights undoes a part of each optimizer step; else ""."""
    others, own = found.in_degree[1] / (1 + found.in_degree[1]), section_of(topology, GOSSIP)
    if mode(topology) != GOSSIP or not others or own.age_corrected or own.max_staleness is not None:
        return ""
    lost = 1 - speed(others, FREE_AGE)
    return (
        f"learners do not wait for messages, so weights are about {FREE_AGE:g} exchanges old when they are "
        f"averaged, and this undoes {lost:.0%} of each optimizer step. gossip.age_corrected: true corrects "
        "for the age; gossip.max_staleness: 0 makes learners wait for new messages. A run with "
        "gossip.graph: none shows how learners learn without exchanges"
    )


def _table(*headings: str, right: tuple[str, ...] = ()) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(heading, justify="right" if heading in right else "left", overflow="fold")
    return table


def _processes(made: Plan) -> Table:
    table = _table("process", "does", "is woken by")
    table.add_row("supervisor", "starts, watches, restarts, stops", made.addresses.control.file.name)
    for process in made.processes:
        role = process.role
        wakers = [made.addresses.wakeup(process.id).path if role.woken else "", made.mailbox(process)]
        woken_by = ", ".join(Path(waker).name for waker in wakers if waker)
        table.add_row(process.name, plan_of(role).does(made.topology), woken_by)
    return table


def _segments(made: Plan) -> Table:
    table = _table("segment", "bytes", "what", right=("bytes",))
    for segment in made.segments:
        table.add_row(segment.name, f"{segment.bytes:,}", segment.what)
    table.add_row("all", f"{made.bytes_total:,}", "")
    return table


def _keys(heading: str, values: Mapping[str, Any]) -> Table:
    table = _table(heading, "value")
    for key, value in values.items():
        table.add_row(key, escape(_value(value)))
    return table


def _value(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:_}"  # as it may be written in a topology
    return value if isinstance(value, str) else json_format.dumps(value)
