"""Shared memory of a run: which segments it has, and what they are laid out by, from topology and description.

Pure.
"""

from __future__ import annotations

from actorlearn.memory.account import account_fields
from actorlearn.memory.fields import Field
from actorlearn.memory.progress import ROWS, progress_fields
from actorlearn.memory.rollout import BlockShape, rollouts_fields
from actorlearn.metrics.timings import SECTIONS
from actorlearn.parameters.modes import Sizes
from actorlearn.parameters.published import slots_in_words, weights_fields
from actorlearn.replay.rows import ReplayShape, replay_fields, sampler_bytes
from actorlearn.replay.settings import ReplaySettings
from launch.plan.probe import Description
from launch.topology.load import Topology
from launch.topology.modes import asked, mode


def environments(t: Topology) -> int:
    """Return the number of environments at the start, of all learners together."""
    return t.learners.count * t.simulators.environments


def block_shape(t: Topology, d: Description) -> BlockShape:
    """The numbers of every simulator's segment."""
    return BlockShape(
        groups=t.simulators.groups,
        blocks=t.simulators.blocks,
        horizon=t.algorithm.horizon,
        envs_per_group=t.simulators.envs // t.simulators.groups,
        observation_shape=d.observation_shape,
        observation_dtype=d.observation_dtype,
        actions=d.actions,
        columns=d.columns,
        state_size=d.state_size,
    )


def replay_shape(t: Topology, d: Description, numbers: ReplaySettings) -> ReplayShape:
    """The shape of every learner's replay: a ring for each environment, of equal parts of the capacity."""
    rings = t.simulators.environments
    return ReplayShape(
        rings=rings,
        size=-(-numbers.capacity_steps // rings),
        margin=t.algorithm.horizon + 1,
        stack=d.stack,
        observation_shape=d.observation_shape,
        observation_dtype=d.observation_dtype,
        actions=d.actions,
        prioritised=numbers.prioritised,
        length=numbers.sequence_rows,
        every=numbers.sequence_every,
        state_size=d.state_size,
    )


def learner_segments(t: Topology, d: Description) -> dict[str, tuple[list[Field], str]]:
    """Kinds of segments that every learner has one of: fields, and what is in it."""
    weights, slots = weights_fields(d.weights), slots_in_words(d.weights, "weights")
    kinds = {"weights": (weights, slots), "rollouts": (rollouts_fields(), "which rollouts may be begun")}
    kinds["account"] = (account_fields(), "what became of its experience")
    for own in mode(t).learner_segments(asked(t), _sizes(t, d)):
        kinds[own.name] = (own.fields, own.what)
    if t.replay:
        shape = replay_shape(t, d, t.replay)
        what = f"{shape.rings} rings of {shape.size:,} + {shape.margin:,} rows"
        what += f"; the trainer has {more:,} bytes more" if (more := sampler_bytes(shape)) else ""
        kinds["replay"] = (replay_fields(shape), what)
        if t.replay.secondary_batch_size:
            kinds["secondary"] = (weights, f"{slots}, of the secondary learner")
    return kinds


def run_segments(t: Topology, d: Description) -> list[tuple[str, list[Field], str]]:
    """Segments that a run has one of: name, fields, and what is in it."""
    made = [("progress", progress_fields(len(SECTIONS)), f"heartbeats of {ROWS} processes")]
    return [*mode(t).run_segments(asked(t), _sizes(t, d)), *made]


def _sizes(t: Topology, d: Description) -> Sizes:
    return Sizes(weights=d.weights, statistics=d.statistics, vectors=len(t.optimizer.state_vectors))
