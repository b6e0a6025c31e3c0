"""Moves of learners to nodes that have joined and have fewer learners than others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

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


def find_uneven(placed: Mapping[int, str], nodes: Collection[str]) -> tuple[int, str, str] | None:
    """Return a learner that can move, its new node, and why; None if no node has two learners more than another.

    ``nodes``: the nodes that can have learners. The newest learner of the fullest node moves.
    """
    there = {name: [learner for learner, at in placed.items() if at == name] for name in sorted(nodes)}
    if not there:
        return None
    most = max(there, key=lambda name: len(there[name]))
    least = min(there, key=lambda name: len(there[name]))
    if len(there[most]) < len(there[least]) + 2:
        return None
    return max(there[most]), least, f"node {most} has {_count(there[most])} and node {least} has {_count(there[least])}"


def _count(learners: Collection[int]) -> str:
    return f"{len(learners) or 'no'} learner{'' if len(learners) == 1 else 's'}"
