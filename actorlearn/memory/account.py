"""The account of a learner: counts of its environment steps in shared memory, which outlive the trainer's process.

Each step that was made is used (learned from), dropped (for one of REASONS) or in flight (in shared memory, neither
used nor dropped yet).

The trainer updates the account ("commits") after it has published new weights, and before the memory of the rollout may
be overwritten. The number of the next rollout and the counts are one atomic record (``memory/record.py``). So if the
trainer is killed before the commit, a new trainer learns from the same rollout again, and no step is counted twice.
"""

from __future__ import annotations

import msgspec

from actorlearn.memory.fields import Field
from actorlearn.memory.record import SLOTS, CommittedRecord
from actorlearn.memory.shared import Segment

REASONS = {
    "unfinished": "their simulator ended during a rollout",
    "stale": "the acting weights were too old (algorithm.on_policy_lag: drop)",
    "no_room": "the replay had no room for their environment",
    "statistics": (
        "they were played before model.statistics_rows observations were collected, and used only for statistics"
    ),
    "not_finite": "all optimizer steps with them were skipped, because the loss or gradient was not finite",
    "rolled_back": "a trainer learned from them, but died before its next checkpoint",
    "not_resumed": "they were not learned from yet at the checkpoint from which the run was resumed",
}
"""Reasons for which steps are dropped: keys of ``StepCounts.dropped``, and metrics ``dropped_…``."""


def account_fields() -> list[Field]:
    """Return the shared memory layout of a learner's step counts."""
    return [Field("commits", "int64", (8,), 0), Field("records", "int64", (SLOTS, 16), 0)]


class StepCounts(msgspec.Struct, kw_only=True):
    """Numbers of environment steps of one learner: used for learning, and dropped, by reason."""

    used: int = 0
    """Steps learned from, except those whose learning was lost with a dead trainer (reason "rolled_back")."""
    dropped: dict[str, int] = {}
    """Number of steps by the reason for which they are not in the weights (REASONS)."""

    def __post_init__(self) -> None:
        """Set reasons that are not given to 0, and sort them as in REASONS."""
        self.dropped = {reason: self.dropped.get(reason, 0) for reason in REASONS}

    @property
    def dropped_steps(self) -> int:
        """Steps dropped for any reason."""
        return sum(self.dropped.values())

    @property
    def passed(self) -> int:
        """Number of steps with which the trainer has computed gradients, also if the optimizer step was skipped."""
        return self.used + self.dropped["not_finite"]

    def roll_back(self, saved: StepCounts) -> None:
        """Go back to the counts ``saved`` in a checkpoint, and count the steps used since as "rolled_back"."""
        of_weights = ("statistics", "not_finite")
        before = self.used + sum(self.dropped[reason] for reason in of_weights)
        self.used = saved.used
        self.dropped |= {reason: saved.dropped[reason] for reason in of_weights}
        self.dropped["rolled_back"] += before - self.used - sum(self.dropped[reason] for reason in of_weights)


class LearnerSteps(msgspec.Struct, kw_only=True):
    """All environment steps of one learner, read from shared memory; its trainer need not be alive."""

    counts: StepCounts
    in_flight: int = 0
    """Steps in shared memory that are neither used nor dropped yet."""
    rollouts_learned: int = 0
    """Number of the next rollout to be learned from."""
    commits: int = 0
    """Number of commits of the account since the run was started or resumed."""
    moved: dict[str, int] = {}
    """If the learner has moved between nodes: steps made on earlier nodes that its present node does not count, by the
    reason for which they count as dropped."""


class Account:
    """Environment step counts of a learner that survive its trainer: `commit` writes them to shared memory."""

    def __init__(self, segment: Segment) -> None:
        """Read the last commit from shared memory; without a commit all counts are 0."""
        self._record = CommittedRecord(segment["commits"], segment["records"])
        self.rollouts_learned, self.steps = self.read_committed()
        """Number of the next rollout to be learned from, and the counts of the steps of all rollouts before it."""

    @property
    def commits(self) -> int:
        """Number of commits since the segment was made."""
        return self._record.commits

    def read_committed(self) -> tuple[int, StepCounts]:
        """Return the number of rollouts learned from and the step counts, as last committed.

        Any process may call this.
        """
        (record,) = self._record.read(slice(2 + len(REASONS)))
        rollouts_learned, used, *dropped = record.tolist()
        return rollouts_learned, StepCounts(used=used, dropped=dict(zip(REASONS, dropped, strict=True)))

    def commit(self) -> None:
        """Write the present counts to shared memory; only the trainer may call this."""
        self._record.replace([self.rollouts_learned, self.steps.used, *self.steps.dropped.values()])
