"""The topology of a run as a graph: boxes for its processes, lines for the data between them. Pure.

Boxes are in columns from the processes that make experience to those that learn from it; the table of roles gives the
column of each role. Numbers are those of the newest report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from itertools import pairwise
from typing import Any

from actorlearn.metrics.registry import LEARNERS, metric
from actorlearn.worker.roles import ROLES
from launch.desk.cast import Process
from launch.reports.checks import is_number, keep_usable
from launch.reports.format import as_bytes, as_percent, metric_value, printable

MOST_BOXES = 6
"""Most boxes for the processes of one role and learner; above it, healthy processes share a box."""
_HEALTHY = ("running", "exited")


class Column(IntEnum):
    """A column of the graph."""

    MAKERS = 0
    TRAINERS = 1
    SERVERS = 2
    """Drawn below the trainers, because experience does not pass through servers."""
    OTHERS = 3


def graph(
    processes: Sequence[Process], row: Mapping[str, Any], topology: Mapping[str, Any], meta: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the boxes and lines that the page draws; ``meta`` has the sizes of observations and weights, if known."""
    boxes = [box for group in _groups(processes) for box in _boxes(group)]
    learners = sorted({box["learner"] for box in boxes})
    lines = [line for learner in learners for line in _lines(learner, boxes, row, meta)]
    return {"boxes": boxes, "lines": [*lines, *_between_learners(boxes, row, topology)]}


def _groups(processes: Sequence[Process]) -> list[list[Process]]:
    """Return the processes grouped by role, learner and node."""
    groups: dict[tuple[Any, ...], list[Process]] = {}
    for process in processes:
        groups.setdefault((process.learner, process.role, process.node), []).append(process)
    return list(groups.values())


def _boxes(group: Sequence[Process]) -> list[dict[str, Any]]:
    alone = [process for process in group if len(group) <= MOST_BOXES or process.state not in _HEALTHY]
    together = [process for process in group if process not in alone]
    boxes = [_box(process.name, [process]) for process in alone]
    return [*boxes, *([_box(f"{len(together)} × {together[0].role}", together)] if together else [])]


def _box(title: str, members: Sequence[Process]) -> dict[str, Any]:
    """Return a box for one process, or for several healthy ones."""
    first = members[0]
    busy = [member.busy for member in members if member.busy is not None]
    deaths = sum(member.deaths for member in members)
    said = [first.state]
    if first.incarnation and len(members) == 1:
        said.append(f"incarnation {first.incarnation}")
    if deaths:
        said.append(f"{deaths} death{'s' * (deaths > 1)}")
    if busy:
        said.append(f"{as_percent(sum(busy) / len(busy))} busy")
    if first.node:
        said.append(f"on {first.node}")
    return {
        "name": printable(title),
        "role": first.role,
        "learner": first.learner,
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
    """Return lines for experience to a learner's trainer, and for weights from it to the processes that act."""
    own = {
        column: [box for box in boxes if (box["learner"], box["column"]) == (learner, column)] for column in range(3)
    }
    if not own[Column.TRAINERS]:
        return []
    trainer = own[Column.TRAINERS][0]["name"]
    numbers = _of_learner(row, trainer)
    steps_per_s = numbers.get("env_steps_per_s")
    rate, lag = metric_value(numbers, "env_steps_per_s"), metric_value(numbers, "policy_lag_mean")
    actors = own[Column.SERVERS] or own[Column.MAKERS]
    lines = [_line(box["name"], trainer, "experience") for box in own[Column.MAKERS]]
    lines += [_line(trainer, box["name"], "weights") for box in actors]
    observations = _flow(steps_per_s, meta.get("observation_bytes"))
    # Weights are published once an update; updates / env_steps is the number of updates a step.
    weights = _flow(steps_per_s, meta.get("weights_bytes"), row.get("updates"), row.get("env_steps"))
    rate = f"{rate} {metric('env_steps_per_s').shown_as}"
    for kind, told in (("experience", f"{rate}{observations}"), ("weights", f"lag {lag}{weights}")):
        if first := next((line for line in lines if line["kind"] == kind), None):
            first["said"] = told
    return lines


def _flow(steps_per_s: Any, size: Any, pieces: Any = 1, steps: Any = 1) -> str:
    """Return the bytes per second of ``pieces`` of a size in ``steps`` steps; empty if a number is unknown."""
    known = all(is_number(number) and number > 0 for number in (steps_per_s, size, pieces, steps))
    return f" · {as_bytes(steps_per_s * size * pieces / steps)}/s" if known else ""


def _between_learners(
    boxes: Sequence[Mapping[str, Any]], row: Mapping[str, Any], topology: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return lines between trainers and parameter servers; without servers, from each trainer to the next."""
    trainers = [box for box in boxes if box["column"] == Column.TRAINERS]
    servers = [box for box in boxes if box["role"] == "parameter_server"]
    others = [box for box in boxes if box["column"] == Column.OTHERS and box not in servers]
    lines = [_line(trainers[0]["name"], box["name"], "weights") for box in others[:MOST_BOXES] if trainers]
    served = [(trainer, server) for trainer in trainers for server in servers]
    pairs = served or list(pairwise(trainers))
    mode = printable(str(topology.get("mode") or ""))
    for first, second in pairs:
        said = (
            "" if first["name"] in {line["from"] for line in lines if line["said"]} else _traffic(row, first, topology)
        )
        lines.append(_line(first["name"], second["name"], "exchange", " ".join(filter(None, (mode, said)))))
    return lines


def _traffic(row: Mapping[str, Any], trainer: Mapping[str, Any], topology: Mapping[str, Any]) -> str:
    """Return the bytes per second that a trainer sends to sockets; empty if its messages are in shared memory."""
    report = topology.get("report")
    every_s = report.get("every_s") if isinstance(report, Mapping) else None
    sent = _of_learner(row, trainer["name"]).get("bytes_sent")
    return f"{as_bytes(sent / every_s)}/s" if is_number(sent) and sent and is_number(every_s) and every_s else ""


def _of_learner(row: Mapping[str, Any], trainer: str) -> Mapping[str, Any]:
    """Return the newest metrics of a learner; with one learner those of the run."""
    each = row.get(LEARNERS)
    if not isinstance(each, Mapping):
        return row
    own = each.get(trainer)
    return keep_usable(own) if isinstance(own, Mapping) else {}


def _line(begin: str, end: str, kind: str, said: str = "") -> dict[str, Any]:
    return {"from": begin, "to": end, "kind": kind, "said": printable(said)}
