"""The section ``replay`` of a topology, and the rules of learning from it and of weights that belong to a rollout.

Pure. What the numbers mean is in ``actorlearn/replay``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from actorlearn.algorithms.interface import REPLAYED, SHIPPED
from launch.topology.fields import Section, refuse

if TYPE_CHECKING:
    from launch.topology.schema import Topology

VERSIONS = 3
"""Of the weights that are kept (actorlearn.parameters.published.SLOTS)."""


class ReplaySection(Section):
    """The replay of each learner, for dqn and c51 (actorlearn.replay.settings.ReplaySettings)."""

    capacity_steps: int = Field(ge=1, le=10**9, description="transitions kept, of all environments of a learner")
    batch_size: int = Field(ge=1, le=65_536, description="transitions of one update, drawn with replacement")
    base_batch_size: int | None = Field(
        ge=1,
        le=65_536,
        description="transitions that learning_rate (see learners.rate_scaling) and adam's epsilon (then "
        "x base_batch_size / batch_size) are for; null = batch_size",
    )
    ratio: float = Field(gt=0, le=10_000, description="times each step is learned from: batch_size x updates / steps")
    learning_starts_steps: int = Field(ge=1, le=10**9, description="agent steps stored before the first update")
    prioritised: bool = Field(description="drawn in proportion to priority^alpha instead of all alike")
    alpha: float = Field(ge=0, le=10, description="prioritised: 0 = all alike")
    beta: float = Field(ge=0, le=10, description="prioritised: of the weights against the bias, at step 0")
    beta_final: float = Field(ge=0, le=10, description="prioritised: reached linearly at total_steps; 1 = no bias")
    save: bool = Field(description="with every checkpoint, so that a resumed run goes on with it; large")
    secondary_batch_size: int = Field(
        ge=0,
        le=65_536,
        description="transitions of an update of a second network that learns beside, and never acts; 0 = none",
    )


def weights_of_rollouts(t: Topology) -> None:
    """Refuse ``weights: rollout`` where a rollout's are not kept, or are not one version."""
    if t.simulators.weights == "newest":
        return
    if t.simulators.blocks > VERSIONS:
        refuse(
            f"{VERSIONS} versions of the weights are kept, and {t.simulators.blocks} rollouts (blocks) may be open",
            f"write simulators.blocks: {VERSIONS} or less, or weights: newest",
            "simulators.weights",
        )
    if t.inference.batch_rows or t.learners.pull_rows:
        refuse(
            "rows of several rollouts would be answered together (inference.batch_rows), or by weights that change "
            "within a rollout (learners.pull_rows)",
            "leave both at 0, or write weights: newest",
            "simulators.weights",
        )


def replay_of_values(t: Topology) -> None:
    """Refuse a replay that learning cannot begin with, and what value learning has not, or alone has."""
    if t.algorithm.name not in REPLAYED:
        _noise_of_values(t)
        return
    r, environments = t.replay, t.simulators.environments
    batch, which = max((r.batch_size, "batch_size"), (r.secondary_batch_size, "secondary_batch_size"))
    if batch > r.learning_starts_steps:
        refuse(
            f"an update draws {batch} transitions ({which}), so that many are stored before the first",
            f"write {batch} or more",
            "replay.learning_starts_steps",
        )
    n, horizon = t.algorithm.n_step, t.algorithm.horizon
    if (n - horizon) * environments > r.learning_starts_steps:  # beside these there is the rollout before the update
        refuse(
            f"a transition is whole {n} steps later (n_step), and the first update draws some of {environments} "
            f"environments, which play {horizon} a rollout (horizon)",
            f"write {(n - horizon) * environments} or more",
            "replay.learning_starts_steps",
        )
    stack = t.env.stack if t.env.id.startswith("ALE/") else 1
    rows = t.algorithm.horizon + 1 + stack + t.algorithm.n_step  # r's own rule, of rings (Replay.__init__)
    least = max(batch, rows * environments)
    if r.capacity_steps < least:
        refuse(
            f"it holds a batch, and of each of {environments} environments a rollout, stack and n_step ({rows} rows)",
            f"write {least} or more",
            "replay.capacity_steps",
        )
    if r.secondary_batch_size and (t.mode != "sync" or t.learners.count > 1):
        refuse(
            f"it learns beside a learner that is alone, and there are {t.learners.count} learners in mode {t.mode}",
            "write learners.count: 1 and mode: sync, or 0",
            "replay.secondary_batch_size",
        )
    _target_at_a_rollout(t)
    for key, has, what in (
        ("model.recurrence", t.model.recurrence != "none", "single transitions are replayed, and no memories"),
        ("model.normalize_observation", t.model.normalize_observation, "statistics are those of whole batches"),
        ("algorithm.normalize_reward", t.algorithm.normalize_reward, "rewards are stored as they came"),
        ("algorithm.epochs", t.algorithm.epochs > 1, "replay.ratio says how often a step is learned from"),
        ("algorithm.minibatches", t.algorithm.minibatches > 1, "replay.batch_size says how large they are"),
        ("algorithm.on_policy_lag", t.algorithm.on_policy_lag == "drop", "old transitions are what a replay is for"),
    ):
        if has:
            refuse(f"{t.algorithm.name} has none: {what}", "leave it out, or use another algorithm", key)


def _noise_of_values(t: Topology) -> None:
    """Refuse noise where it would be acted with and not learned with."""
    if t.algorithm.name in SHIPPED and t.model.noisy:
        refuse(
            f"noise is drawn for {' and '.join(REPLAYED)} alone, and {t.algorithm.name} draws its actions already",
            "write 0.0, or another algorithm",
            "model.noisy",
        )


def _target_at_a_rollout(t: Topology) -> None:
    """Refuse target networks that are not those of a rollout's begin where acting is by the rollout's weights."""
    steps = t.algorithm.horizon * t.learners.count * t.simulators.environments
    if t.simulators.weights == "rollout" and t.algorithm.target_every_steps % steps:
        refuse(
            f"with simulators.weights: rollout it is whole rollouts, and one has {steps} steps "
            f"(horizon {t.algorithm.horizon} x {steps // t.algorithm.horizon} environments)",
            f"write {-(-t.algorithm.target_every_steps // steps) * steps}, or another horizon, or weights: newest",
            "algorithm.target_every_steps",
        )
