"""Moves of learners to nodes that have joined and have fewer learners than others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import permutations

from launch.plan.nodes import Need, NodeResources, fits
from launch.spawning.spawner import Key


@dataclass
class Moving:
    """A learner that is moving: its trainer saves and ends, its other processes are killed, and then it is released."""

    learner: int
    node: str
    """The node that it leaves."""
    to: str
    ended: set[Key] = field(default_factory=set)
    """Its processes that have ended."""
    released: bool = False
    """Whether its node was told to release it."""


def find_uneven(
    placed: Mapping[int, str], machines: Mapping[str, NodeResources], need: Need
) -> tuple[int, str, str] | None:
    """Return a learner that can move, its new node, and why; None if no learner would be better off on another node.

    ``machines``: the nodes that can have learners. A learner moves to a node with room for it and at least two learners
    fewer, if more cores are left there after the move than on its own node before. Of the node with the fewest cores
    left, the newest learner moves to the node with the most.
    """
    there = {name: [learner for learner, at in placed.items() if at == name] for name in sorted(machines)}
    left = {name: machines[name].cores - need.cores * len(own) for name, own in there.items()}
    moves = [
        (source, to)
        for source, to in permutations(there, 2)
        if len(there[source]) >= len(there[to]) + 2
        and fits(machines[to], need, len(there[to]))
        and left[to] - need.cores > left[source]
    ]
    if not moves:
        return None
    source, to = min(moves, key=lambda move: (left[move[0]], -left[move[1]]))
    return max(there[source]), to, f"node {source} has {_count(there[source])} and node {to} has {_count(there[to])}"


def _count(learners: Collection[int]) -> str:
    return f"{len(learners) or 'no'} learner{'' if len(learners) == 1 else 's'}"
