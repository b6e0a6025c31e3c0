"""Segments of a run's shared memory and their layouts, computed from topology and description."""

from __future__ import annotations

from actorlearn.memory.account import account_fields
from actorlearn.memory.fields import Field
from actorlearn.memory.progress import ROWS, progress_fields
from actorlearn.memory.rollout import BlockShape, rollouts_fields
from actorlearn.memory.shared_rollout import message_fields, message_size
from actorlearn.metrics.timings import SECTIONS
from actorlearn.parameters.modes import Sizes
from actorlearn.parameters.published import SLOTS, slots_in_words, weights_fields
from actorlearn.replay.rows import ReplayShape, replay_fields, sampler_bytes
from actorlearn.replay.settings import ReplaySettings
from launch.plan.probe import Description
from launch.topology.load import Topology
from launch.topology.modes import asked, mode, sharing


def environments(topology: Topology) -> int:
    """Return the number of environments of all learners together at the start."""
    return topology.learners.count * topology.simulators.environments


def block_shape(topology: Topology, description: Description) -> BlockShape:
    """Return the shape of the shared memory into which a simulator writes rollouts."""
    return BlockShape(
        groups=topology.simulators.groups,
        blocks=topology.simulators.blocks,
        horizon=topology.algorithm.horizon,
        envs_per_group=topology.simulators.envs // topology.simulators.groups,
        observation_shape=description.observation_shape,
        observation_dtype=description.observation_dtype,
        actions=description.actions,
        columns=description.columns,
        state_size=description.state_size,
    )


def replay_shape(topology: Topology, description: Description, numbers: ReplaySettings) -> ReplayShape:
    """Return the shape of a learner's replay: one ring per environment, all of equal size."""
    rings = topology.simulators.environments
    return ReplayShape(
        rings=rings,
        size=-(-numbers.capacity_steps // rings),
        margin=topology.algorithm.horizon + 1,
        stack=description.stack,
        observation_shape=description.observation_shape,
        observation_dtype=description.observation_dtype,
        actions=description.actions,
        prioritised=numbers.prioritised,
        length=numbers.sequence_rows,
        every=numbers.sequence_every,
        state_size=description.state_size,
    )


def learner_segments(topology: Topology, description: Description) -> dict[str, tuple[list[Field], str]]:
    """Return the segments that each learner has, by kind: (fields, contents in words)."""
    weights, slots = weights_fields(description.weights), slots_in_words(description.weights, "weights")
    kinds = {
        "weights": (weights, slots),
        "rollouts": (rollouts_fields(), "numbers of the rollouts that simulators may start"),
    }
    kinds["account"] = (account_fields(), "counts of the steps that the learner has used and dropped")
    for segment in mode(topology).learner_segments(asked(topology), _sizes(topology, description)):
        kinds[segment.name] = (segment.fields, segment.what)
    if shared := sharing(topology):
        size = message_size(message_fields(block_shape(topology, description), shared.experience))
        what = f"{SLOTS} slots x rows of {shared.experience} environments, for other learners"
        kinds["experience"] = (weights_fields(size), what)
    if topology.replay:
        shape = replay_shape(topology, description, topology.replay)
        what = f"{shape.rings} rings of {shape.size:,} + {shape.margin:,} rows"
        what += f"; the trainer has {more:,} bytes more" if (more := sampler_bytes(shape)) else ""
        kinds["replay"] = (replay_fields(shape), what)
        if topology.replay.secondary_batch_size:
            kinds["secondary"] = (weights, f"{slots}, of the secondary learner")
    return kinds


def run_segments(topology: Topology, description: Description) -> list[tuple[str, list[Field], str]]:
    """Return the segments that all learners of a run share, as (name, fields, contents in words)."""
    made = [("progress", progress_fields(len(SECTIONS)), f"heartbeats of {ROWS} processes")]
    return [*mode(topology).run_segments(asked(topology), _sizes(topology, description)), *made]


def server_segments(topology: Topology, description: Description) -> list[tuple[str, list[Field], str]]:
    """Return the segments that parameter servers create themselves, as (name, fields, contents in words)."""
    return [*mode(topology).server_segments(asked(topology), _sizes(topology, description))]


def _sizes(topology: Topology, description: Description) -> Sizes:
    vectors = len(topology.optimizer.state_vectors)
    return Sizes(weights=description.weights, statistics=description.statistics, vectors=vectors)
