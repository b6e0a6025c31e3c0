"""Collects, for the head of a run, the counts of steps that nodes send when learners have ended on them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from actorlearn.memory.account import LearnerSteps, StepCounts
from actorlearn.parameters.checkpoint_folders import directory_of, newest_state
from launch.reports.accounting import SavedSteps, moved


class NodeAccounts:
    """The counts of steps of each learner, from the nodes on which it has ended."""

    def __init__(self, checkpoints: Path, outlived: bool) -> None:
        """``outlived``: whether a learner's updates survive the end of its trainer (`ModeSpec.outlived`)."""
        self._checkpoints, self._outlived = checkpoints, outlived
        self._there: dict[int, LearnerSteps] = {}
        """Steps of each learner on its last node, if it has ended there."""
        self._moved: dict[int, dict[str, int]] = {}
        """Steps of each learner that its checkpoints did not count when it moved to another node."""
        self._unknown = ""

    def add(self, accounts: Mapping[int, LearnerSteps]) -> None:
        """Add the final counts that a node has sent."""
        self._there |= accounts

    def miss(self, why: str) -> None:
        """Record why the steps of a learner are unknown for good; of several reasons, the first is kept."""
        self._unknown = self._unknown or why

    def move(self, learner: int) -> None:
        """Count the steps that a learner loses by a move to another node, because its checkpoint lacks them."""
        if (there := self._there.pop(learner, None)) is None:
            return
        saved = saved_steps(self._checkpoints, learner)
        lost = moved(there, saved)
        if self._outlived and "rolled_back" in lost:
            self.miss(f"learner {learner} moved to another node before it had saved")
        before = self._moved.get(learner, {})
        self._moved[learner] = {reason: before.get(reason, 0) + lost.get(reason, 0) for reason in before | lost}

    def all(self) -> dict[int, LearnerSteps] | str:
        """Return the counts of steps of each learner; if they are unknown, return the reason.

        Call it when all nodes have ended.
        """
        if self._unknown:
            return self._unknown
        return {
            learner: msgspec.structs.replace(steps, moved=self._moved.get(learner, {}))
            for learner, steps in self._there.items()
        }


def saved_steps(checkpoints: Path, learner: int) -> SavedSteps:
    """Return the counts of steps in the newest checkpoint of a learner."""
    env_steps, state = newest_state(directory_of(checkpoints, learner))
    counts = msgspec.convert(state.get("account", {}), StepCounts)
    return SavedSteps(env_steps, counts, state.get("in_flight", 0))
