"""The picture of a run on the desk: a box for each process, and lines for the data that flows between them.

Boxes are in columns: processes that make experience are left of those that learn from it. The numbers are those of the
newest report (line of metrics.jsonl).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

from actorlearn.metrics.registry import LEARNERS, metric
from actorlearn.parameters.mixing import GraphSettings, neighbours
from actorlearn.worker.roles import ROLES
from launch.desk.cast import Process
from launch.reports.checks import is_number, keep_usable, section_of
from launch.reports.format import as_bytes, as_percent, metric_value, printable

MOST_BOXES = 6
"""Most boxes for the processes of one role and learner. If there are more processes, healthy ones share a box."""
_ORDINARY = ("running", "starting", "exited")
"""States in which processes may share a box, with others in the same state."""
_MEMORY = {
    "sync": ("mean of gradients", "all learners wait for it"),
    "async": ("store of weights", "each learner changes it"),
}
"""Mode -> name and text of the box for the shared memory through which learners exchange in this mode."""


class Column(IntEnum):
    """The column of a box in the picture, which depends on the role of its processes."""

    MAKERS = 0
    TRAINERS = 1
    SERVERS = 2
    """Inference servers; drawn below the trainers, because experience does not pass through servers."""
    OTHERS = 3


def graph(
    processes: Sequence[Process], row: Mapping[str, Any], topology: Mapping[str, Any], meta: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the boxes and lines of the picture.

    ``row``: the newest report. ``meta``: content of meta.json, with the bytes of an observation and of the weights.
    """
    groups: dict[tuple[Any, ...], list[Process]] = {}
    for process in processes:
        groups.setdefault((process.learner, process.role, process.node), []).append(process)
    boxes = [box for group in groups.values() for box in _boxes(group)]
    learners = sorted({box["learner"] for box in boxes})
    lines = [line for learner in learners for line in _lines(learner, boxes, row, meta)]
    exchange, memory = _between_learners(boxes, row, topology)
    return {"boxes": [*boxes, *memory], "lines": [*lines, *exchange]}


def _boxes(group: Sequence[Process]) -> list[dict[str, Any]]:
    alone = [process for process in group if len(group) <= MOST_BOXES or process.state not in _ORDINARY]
    states = [[process for process in group if process not in alone and process.state == state] for state in _ORDINARY]
    shared = [_box(f"{len(own)} × {own[0].role}", own) for own in states if own]
    return [*(_box(process.name, [process]) for process in alone), *shared]


def _box(title: str, members: Sequence[Process]) -> dict[str, Any]:
    """Return a box for a process, or for several processes of one role and state; ``title``: its first line."""
    first = members[0]
    busy = [member.busy for member in members if member.busy is not None]
    restarts, deaths = (sum(getattr(member, name) for member in members) for name in ("incarnation", "deaths"))
    said = [first.state]  # what matters most comes first: the page cuts off what has no room
    if busy:
        said.append(f"{as_percent(sum(busy) / len(busy))} busy")
    if restarts:
        said.append(f"{restarts} restart{'s' * (restarts > 1)}")
    if deaths > restarts:
        said.append(f"{deaths} death{'s' * (deaths > 1)}")
    return {
        "id": printable(first.name),
        "name": printable(title),
        "role": first.role,
        "learner": first.learner,
        "node": printable(first.node),
        "column": int(_column(first.role)),
        "state": printable(first.state),
        "said": printable(", ".join(said)),
        "cause": printable(first.cause) if len(members) == 1 else "",
        "processes": [printable(member.name) for member in members],
    }


def _column(role: str) -> Column:
    spec = ROLES.spec(role) if role in ROLES.names() else None
    if spec is None or spec.scope == "run":
        return Column.OTHERS
    return Column.MAKERS if spec.makes_rows else Column.TRAINERS if spec.learns else Column.SERVERS


def _lines(
    learner: int, boxes: Sequence[Mapping[str, Any]], row: Mapping[str, Any], meta: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the lines of one learner: experience to its trainer, and weights from it.

    The first line of each kind has a text; the rate of experience is that of all simulators of the learner.
    """
    own = {
        column: [box for box in boxes if (box["learner"], box["column"]) == (learner, column)] for column in range(3)
    }
    if not own[Column.TRAINERS]:
        return []
    trainer = own[Column.TRAINERS][0]["id"]
    numbers = _of_learner(row, trainer)
    steps_per_s = numbers.get("env_steps_per_s")
    rate, lag = metric_value(numbers, "env_steps_per_s"), metric_value(numbers, "policy_lag_mean")
    actors = own[Column.SERVERS] or own[Column.MAKERS]
    lines = [_line(box["id"], trainer, "experience") for box in own[Column.MAKERS]]
    lines += [_line(trainer, box["id"], "weights") for box in actors]
    observations = _flow(steps_per_s, meta.get("observation_bytes"))
    # Weights are published once an update; updates / env_steps is the number of updates a step.
    weights = _flow(steps_per_s, meta.get("weights_bytes"), row.get("updates"), row.get("env_steps"))
    rate = f"{rate} {metric('env_steps_per_s').shown_as}"
    for kind, told in (("experience", f"{rate}{observations}"), ("weights", f"lag {lag}{weights}")):
        if first := next((line for line in lines if line["kind"] == kind), None):
            first["said"] = told
    return lines


def _flow(steps_per_s: Any, size: Any, pieces: Any = 1, steps: Any = 1) -> str:
    """Return a rate of data as text, such as " · 1.2 MiB/s": ``pieces`` of ``size`` bytes every ``steps`` steps.

    Return "" if a number is unknown.
    """
    known = all(is_number(number) and number > 0 for number in (steps_per_s, size, pieces, steps))
    return f" · {as_bytes(steps_per_s * size * pieces / steps)}/s" if known else ""


def _between_learners(
    boxes: Sequence[Mapping[str, Any]], row: Mapping[str, Any], topology: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the lines for the exchange between learners, and the box of the shared memory that they lead to.

    With parameter servers and in mode gossip there is no such box: lines lead to servers, or to other trainers.
    """
    trainers = [box for box in boxes if box["column"] == Column.TRAINERS]
    servers = [box for box in boxes if box["role"] == "parameter_server"]
    others = [box for box in boxes if box["column"] == Column.OTHERS and box not in servers]
    lines = [_line(trainers[0]["id"], box["id"], "weights") for box in others[:MOST_BOXES] if trainers]
    mode = str(topology.get("mode") or "")
    memory: list[dict[str, Any]] = []
    if servers:
        ways = [(trainer["id"], server["id"]) for trainer in trainers for server in servers]
    elif mode == "gossip":
        ways = _edges(trainers, topology)
    elif len(trainers) > 1 and mode in _MEMORY:
        memory = [_memory_box(mode)]
        ways = [(trainer["id"], memory[0]["id"]) for trainer in trainers]
    else:
        ways = []
    said: set[str] = set()
    for begin, end in ways:
        own = _exchanged(row, begin, topology) if begin not in said else ""
        said.add(begin)
        lines.append(_line(begin, end, "exchange", own))
    return lines, memory


def _edges(trainers: Sequence[Mapping[str, Any]], topology: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return pairs of trainers in mode gossip; the second mixes the weights of the first with its own."""
    by_learner = {trainer["learner"]: trainer["id"] for trainer in trainers}
    named = section_of(topology, "gossip")
    chosen, peers = named.get("graph", "ring"), named.get("peers", 1)
    try:
        if isinstance(chosen, str):
            graph = GraphSettings(name=chosen, peers=peers)
        else:
            graph = GraphSettings(name="lists", lists=tuple(map(tuple, chosen)))
        learners = sorted(by_learner)
        return [(by_learner[peer], by_learner[own]) for own in learners for peer in neighbours(graph, learners, own)]
    except (TypeError, ValueError):  # the file was edited by hand, or is of another version
        return []


def _memory_box(mode: str) -> dict[str, Any]:
    name, said = _MEMORY[mode]
    box = {"id": "exchange", "name": name, "role": "memory", "learner": 0, "node": "", "column": int(Column.OTHERS)}
    return {**box, "state": "memory", "said": said, "cause": "", "processes": []}


def _exchanged(row: Mapping[str, Any], trainer: str, topology: Mapping[str, Any]) -> str:
    """Return staleness and bytes per second of a trainer's exchange as text, without unknown ones."""
    every_s = section_of(topology, "report").get("every_s")
    own = _of_learner(row, trainer)
    sent, staleness = own.get("bytes_sent"), own.get("staleness_mean")
    words = [f"staleness {metric_value(own, 'staleness_mean')}"] if is_number(staleness) else []
    if is_number(sent) and sent and is_number(every_s) and every_s:
        words.append(f"{as_bytes(sent / every_s)}/s")
    return " · ".join(words)


def _of_learner(row: Mapping[str, Any], trainer: str) -> Mapping[str, Any]:
    """Return the newest metrics of the learner with this trainer; with a single learner, those of the run."""
    each = row.get(LEARNERS)
    if not isinstance(each, Mapping):
        return row
    own = each.get(trainer)
    return keep_usable(own) if isinstance(own, Mapping) else {}


def _line(begin: str, end: str, kind: str, said: str = "") -> dict[str, Any]:
    return {"from": begin, "to": end, "kind": kind, "said": printable(said)}
