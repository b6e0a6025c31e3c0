"""The account of a learner's experience: counts in shared memory that outlive the trainer's process.

Environment steps produced = used + dropped (for one of REASONS) + in flight (in blocks, not learned from yet).

The trainer commits after it has stored the new weights and before it frees the rollout's blocks. A restarted trainer
reads the next rollout and the counts from one record (``memory/record.py``), so they belong together. A trainer killed
before the commit has changed nothing, and its successor learns the rollout again.
"""

from __future__ import annotations

import msgspec

from actorlearn.memory.fields import Field
from actorlearn.memory.record import SLOTS, CommittedRecord
from actorlearn.memory.shared import Segment

REASONS = {
    "unfinished": "their simulator ended during a rollout",
    "stale": "the acting weights were too old (algorithm.on_policy_lag: drop)",
    "no_room": "the replay had no ring for their environment",
    "statistics": (
        "they were played before model.statistics_rows observations were collected, and used only for statistics"
    ),
    "not_finite": "all optimizer steps with them were skipped, because the loss or gradient was not finite",
    "rolled_back": "they were learned by a trainer that died before its next checkpoint",
    "not_resumed": "they were in flight at the checkpoint from which the run was resumed",
}
"""Reasons for which steps are dropped: keys of ``StepCounts.dropped``, and columns ``dropped_…`` of a report."""


def account_fields() -> list[Field]:
    """Fields of a learner's account segment."""
    return [Field("commits", "int64", (8,), 0), Field("records", "int64", (SLOTS, 16), 0)]


class StepCounts(msgspec.Struct, kw_only=True):
    """Environment steps of one learner."""

    used: int = 0
    """Steps learned from, except those rolled back."""
    dropped: dict[str, int] = {}
    """Steps that will never be learned from, or were rolled back, by reason (REASONS)."""

    def __post_init__(self) -> None:
        """Fill in zero for reasons that are not given, in the order of REASONS."""
        self.dropped = {reason: self.dropped.get(reason, 0) for reason in REASONS}

    @property
    def dropped_steps(self) -> int:
        """Steps dropped for any reason."""
        return sum(self.dropped.values())

    @property
    def passed(self) -> int:
        """Steps of passes over batches, also those whose optimizer steps were skipped."""
        return self.used + self.dropped["not_finite"]

    def roll_back(self, saved: StepCounts) -> None:
        """Count what was learned since ``saved`` as rolled back; counts of the weights become those of ``saved``."""
        of_weights = ("statistics", "not_finite")
        before = self.used + sum(self.dropped[reason] for reason in of_weights)
        self.used = saved.used
        self.dropped |= {reason: saved.dropped[reason] for reason in of_weights}
        self.dropped["rolled_back"] += before - self.used - sum(self.dropped[reason] for reason in of_weights)


class LearnerSteps(msgspec.Struct, kw_only=True):
    """All environment steps of one learner, from its segments, whether or not its trainer lives."""

    counts: StepCounts
    in_flight: int = 0
    """Steps in blocks that are not learned from and not dropped."""
    rollouts_learned: int = 0
    """Number of the next rollout to be learned."""
    commits: int = 0
    """Number of times that the account was committed since the run was started or resumed."""
    moved: dict[str, int] = {}
    """Steps made on the learner's earlier nodes that are not counted on its present node, by the reason for which they
    count as dropped."""


class Account:
    """A learner's next rollout and counts of steps: as last committed, and as its trainer will commit them next."""

    def __init__(self, segment: Segment) -> None:
        """Bind to an account segment and start from its last commit, or from zero if there is none."""
        self._record = CommittedRecord(segment["commits"], segment["records"])
        self.rollouts_learned, self.steps = self.read_committed()
        """Number of the next rollout to be learned, and the counts of the steps of all rollouts before it."""

    @property
    def commits(self) -> int:
        """Number of commits since the segment was made."""
        return self._record.commits

    def read_committed(self) -> tuple[int, StepCounts]:
        """Return, as last committed, the number of rollouts learned, and their steps that were used and dropped.

        Any process may call this.
        """
        (record,) = self._record.read(slice(2 + len(REASONS)))
        rollouts_learned, used, *dropped = record.tolist()
        return rollouts_learned, StepCounts(used=used, dropped=dict(zip(REASONS, dropped, strict=True)))

    def commit(self) -> None:
        """Replace the committed record by the current counts; called by the trainer only."""
        self._record.replace([self.rollouts_learned, self.steps.used, *self.steps.dropped.values()])
