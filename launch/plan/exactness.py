"""Exact resume: whether a resumed run ends with the weights of an uninterrupted run, and if not, the reason.

The answer follows from the topology and the description of environment and network. For an exact resume, checkpoints
also contain the state of each simulator (``actorlearn/processes/simulator_snapshots.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from actorlearn.envs.specs import without_stored_path
from actorlearn.memory.rollout import block_fields
from actorlearn.memory.shared import segment_bytes
from actorlearn.wire.identity import ProcessId
from launch.plan.auto import AUTO, Choice
from launch.plan.probe import Description
from launch.plan.segments import block_shape
from launch.topology.load import Topology, TopologyError, tree, with_defaults
from launch.topology.modes import mode

KEY = "checkpoint.exact"
MOST_BYTES = 256 << 20
"""Maximum bytes of a learner's blocks for which ``auto`` means true: snapshots within a rollout contain the blocks."""


def hindrances(topology: Topology, description: Description) -> list[str]:
    """Return the reasons why a resumed run would not continue exactly; empty if it would."""
    simulators = topology.simulators
    several = simulators.blocks > 1 and simulators.weights == "newest"
    devices = {"trainer.device": topology.trainer.device, "inference.device": topology.inference.device}
    found = {
        f"mode: {topology.mode}": mode(topology).inexact,
        "env.id": description.inexact,
        f"algorithm.name: {topology.algorithm.name}": description.algorithm_inexact,
        f"inference.batch_rows: {topology.inference.batch_rows}": topology.inference.batch_rows
        and "timing decides which environments a server answers together",
        f"simulators.blocks: {simulators.blocks}": several
        and "timing decides which weights choose an action; with simulators.weights: rollout it does not",
        "replay.save: false": topology.replay and not topology.replay.save and "checkpoints do not contain the replay",
        **{
            f"{key}: {device}": device != "cpu" and "a GPU may add numbers in another order each time"
            for key, device in devices.items()
        },
    }
    return [f"{key}: {why}" for key, why in found.items() if why]


def choose_exact(topology: Topology, description: Description) -> Choice:
    """Return whether checkpoints of this run are exact, and why.

    Raises TopologyError if ``checkpoint.exact: true`` is impossible.
    """
    wanted, against = topology.checkpoint.exact, hindrances(topology, description)
    if wanted is True and against:
        key = against[0].partition(":")[0]
        raise TopologyError(
            f"{KEY}: true: this run has no exact checkpoints: {against[0]}; change {key}, or set {KEY} to auto or false"
        )
    if wanted != AUTO:
        return Choice(KEY, wanted, "the topology sets this value")
    if against:
        return Choice(KEY, False, against[0])
    size = topology.simulators.count * segment_bytes(block_fields(block_shape(topology, description)))
    if size > MOST_BYTES:
        limit = f"auto saves at most {MOST_BYTES >> 20} MiB"
        why = f"a snapshot of a learner's blocks has {size >> 20} MiB, and {limit}; write true to save it"
        return Choice(KEY, False, why)
    why = "the whole state of the run can be saved, and the snapshots are small"
    return Choice(KEY, True, f"{why}; not verified: {description.unverified}" if description.unverified else why)


def reason(choices: Sequence[Choice]) -> str:
    """Return why the checkpoints of a run are exact, or why they are not; ``choices``: the choices of the plan."""
    return next(choice.why for choice in choices if choice.key == KEY)


def depends_on(topology: Topology) -> dict[str, Any]:
    """Return the keys, with their values, that must not change for simulators to continue from snapshots.

    Trainers save these keys in checkpoints. Other keys may change at a resume, because snapshots do not depend on them.
    """
    resolved = tree(topology)
    keys = ["seed", "mode", "learners.count", "algorithm.name", "algorithm.horizon"]
    keys += [f"{section}.{key}" for section in ("env", "model", "simulators", "inference") for key in resolved[section]]
    parts = {key: key.partition(".") for key in keys}
    return {key: resolved[section][name] if name else resolved[section] for key, (section, _, name) in parts.items()}


def reason_to_begin_anew(
    states: Sequence[Mapping[str, Any]], simulators: Sequence[Sequence[str]], topology: Topology
) -> str:
    """Return why simulators cannot continue from the saved snapshots; empty if they can.

    ``states``: the state in each learner's checkpoint; ``simulators``: the names of each learner's simulators at the
    start of the run.
    """
    for state, names in zip(states, simulators, strict=True):
        if why := state.get("inexact", "it has no snapshots of simulators"):
            return f"the checkpoint is not exact: {why}"
        saved = [process.name for process in msgspec.convert(state["simulators"], list[ProcessId])]
        if saved and saved != list(names):
            had, has = (" and ".join(listed) or "none" for listed in (saved, names))
            return f"the checkpoint has snapshots of {had}, and the run starts with {has}"
        now = without_stored_path(depends_on(topology))
        before = without_stored_path(with_defaults(state["depends_on"], topology, now))
        for key in dict.fromkeys((*now, *before)):
            if before.get(key) != now.get(key):
                return f"{key} was {before.get(key)!r} in the checkpoint and is {now.get(key)!r} now"
    if len({state["weights"] for state in states}) > 1:  # only some learners have saved again within a batch
        return "the learners saved their checkpoints of these steps at different times"
    return ""
