"""Placement of learners on nodes, by cores, memory and GPUs.

A learner is never divided: its trainer, inference servers and simulators are on one node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from itertools import permutations
from typing import Annotated

import msgspec
from msgspec import Meta

from actorlearn.envs.specs import ENVIRONMENTS
from actorlearn.memory.rollout import block_fields
from actorlearn.memory.shared import segment_bytes
from actorlearn.wire.identity import Count, Name
from actorlearn.worker.roles import ROLES
from launch.plan.probe import Description
from launch.plan.roles import count_of, plan_of
from launch.plan.segments import block_shape, learner_segments
from launch.topology.defaults import BY_CORES
from launch.topology.load import Topology, TopologyError
from launch.topology.validate import join_words


class NodeResources(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Resources of a node, which it reports when it joins."""

    cores: Annotated[float, Meta(gt=0, le=65_536)]
    """Number of cores that the node may use; a fraction if a quota limits their time."""
    shm_bytes: Count
    """Free shared memory before any learner is placed."""
    gpus: Annotated[int, Meta(ge=0, le=4_096)] = 0
    cores_id: Name = ""
    """Identifies the cores: nodes that share cores have the same value. Empty: no other node uses these cores."""
    shm_id: Name = ""
    """Identifies the shared memory: nodes that share it have the same value. Empty: no other node uses this memory."""


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """Resources that each learner needs. A node must have the memory and the GPUs; it may have fewer cores."""

    cores: float
    shm_bytes: int
    gpus: int


def need_of(topology: Topology, description: Description) -> Need:
    """Return the resources that each learner of a topology needs."""
    roles = [role for role in ROLES.specs() if role.scope == "learner"]
    counts = {role.name: count_of(role, topology) for role in roles}
    segments = [fields for fields, _ in learner_segments(topology, description).values()]
    blocks = topology.simulators.count * segment_bytes(block_fields(block_shape(topology, description)))
    return Need(
        cores=sum(counts[role.name] * plan_of(role).threads(topology) for role in roles),
        shm_bytes=blocks + sum(map(segment_bytes, segments)),
        gpus=int(any(counts[role.name] and plan_of(role).device(topology) != "cpu" for role in roles)),
    )


def share_out(machines: Mapping[str, NodeResources]) -> dict[str, NodeResources]:
    """Return the resources of each node; nodes that share cores or memory each get an equal part of them."""
    on_cores = Counter(machine.cores_id for machine in machines.values())
    in_memory = Counter(machine.shm_id for machine in machines.values())
    return {
        name: msgspec.structs.replace(
            machine,
            cores=machine.cores / (on_cores[machine.cores_id] if machine.cores_id else 1),
            shm_bytes=machine.shm_bytes // (in_memory[machine.shm_id] if machine.shm_id else 1),
        )
        for name, machine in machines.items()
    }


def place_learners(
    learners: Iterable[int], machines: Mapping[str, NodeResources], need: Need, placed: Mapping[int, str]
) -> dict[int, str]:
    """Return the node of each of these learners; ``placed``: nodes of the learners that were placed before.

    A learner is placed on the node with the most cores left; of equal nodes, on the first by name. Raises TopologyError
    if no node has the memory or the GPU that it needs.
    """
    found: dict[int, str] = {}
    for learner in learners:
        there = [*placed.values(), *found.values()]
        fitting = [name for name in sorted(machines) if fits(machines[name], need, there.count(name))]
        if not fitting:
            what = f"{need.shm_bytes >> 20} MiB of shared memory" + (f" and {need.gpus} GPU" if need.gpus else "")
            raise TopologyError(
                f"learner {learner} needs {what}, and no node has that much free (nodes: "
                f"{', '.join(sorted(machines)) or 'none'}); add a node, or reduce simulators.envs, algorithm.horizon "
                "or replay.capacity_steps"
            )
        found[learner] = max(fitting, key=lambda name: machines[name].cores - need.cores * there.count(name))
    return found


def find_uneven(
    placed: Mapping[int, str], movable: Set[int], machines: Mapping[str, NodeResources], need: Need
) -> tuple[int, str, str] | None:
    """Return a learner that should move, its new node, and the reason; None if no move spreads the load better.

    ``movable``: the learners that can move. ``machines``: the nodes that may have learners. A move is possible to a
    node that has room and at least two learners fewer, if more cores are left there after the move than on the
    learner's node before it. Of the possible moves, the one from the node with the fewest cores left is returned, to
    the node with the most. The newest of the learners that can move is returned.
    """
    there = {name: [learner for learner, at in placed.items() if at == name] for name in sorted(machines)}
    left = {name: machines[name].cores - need.cores * len(own) for name, own in there.items()}
    moves = [
        (source, to)
        for source, to in permutations(there, 2)
        if len(there[source]) >= len(there[to]) + 2
        and not movable.isdisjoint(there[source])
        and fits(machines[to], need, len(there[to]))
        and left[to] - need.cores > left[source]
    ]
    if not moves:
        return None
    source, to = min(moves, key=lambda move: (left[move[0]], -left[move[1]]))
    counts = {name: len(there[name]) for name in (source, to)}
    said = [f"node {name} has {count or 'no'} learner{'s' * (count != 1)}" for name, count in counts.items()]
    return max(movable & set(there[source])), to, " and ".join(said)


def unlike_here(topology: Topology, machines: Mapping[str, NodeResources], cores: float) -> str:
    """Return a warning if defaults depend on this machine's cores and nodes have more or fewer; else empty."""
    left = [key for key in BY_CORES if key not in topology.written]
    if "trainer.threads" in left and ENVIRONMENTS.of(topology.env.id).most_trainer_threads == 1:
        left.remove("trainer.threads")  # one on every machine
    others = [f"{name} {each.cores:g}" for name, each in sorted(machines.items()) if each.cores != cores]
    if not left or not others:
        return ""
    said = ", ".join(others[:8]) + (f" and {len(others) - 8} more" if len(others) > 8 else "")
    return (
        f"{join_words(left)}: the defaults are for nodes with {cores:g} cores, as on the head's machine, but other "
        f"nodes have other numbers of cores ({said}); write values that fit all nodes"
    )


def fits(machine: NodeResources, need: Need, there: int) -> bool:
    """Whether a node has the memory and the GPUs for one more learner; ``there``: number of learners it has."""
    return need.shm_bytes * (there + 1) <= machine.shm_bytes and need.gpus * (there + 1) <= machine.gpus
