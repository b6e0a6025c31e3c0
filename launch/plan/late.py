"""Warnings about values of a topology that would take effect only after the end of the run."""

from __future__ import annotations

from collections.abc import Iterator

from actorlearn.algorithms.settings import EpsilonSchedule
from launch.topology.load import Topology


def never_reached(topology: Topology) -> Iterator[str]:
    """Yield a warning if the replay never has enough steps to learn from, and one if exploration never ends.

    The warnings do not prevent a run: a short trial of a topology shows whether its processes work.
    """
    total_steps, exploration = topology.total_steps, getattr(topology.algorithm, "exploration", None)
    if topology.replay is not None:
        each, learners = topology.replay.learning_starts_steps, topology.learners.count
        if each * learners >= total_steps:
            of_all = f" ({each * learners:,} for {learners} learners)" if learners > 1 else ""
            yield (
                f"replay.learning_starts_steps: {each:,}{of_all}: learning starts only after these steps, and the run "
                f"ends at total_steps: {total_steps:,}, so nothing is learned; lower replay.learning_starts_steps, or "
                "raise total_steps"
            )
    if isinstance(exploration, EpsilonSchedule) and exploration.initial != exploration.final:
        held = f"algorithm.epsilon_hold_steps: {exploration.hold_steps:,} and " if exploration.hold_steps else ""
        if exploration.hold_steps + exploration.steps > total_steps:
            yield (
                f"{held}algorithm.epsilon_steps: {exploration.steps:,}: the share of random actions reaches "
                f"algorithm.epsilon_final only after the end of the run at total_steps: {total_steps:,}; lower "
                "algorithm.epsilon_steps, or raise total_steps"
            )
