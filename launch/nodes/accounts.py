"""The steps of learners on the nodes of a run, as the head collects them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from actorlearn.memory.account import LearnerSteps, StepCounts
from actorlearn.parameters.checkpoint_folders import directory_of, newest_state
from launch.reports.accounting import SavedSteps, moved


class NodeAccounts:
    """The steps of each learner on the nodes that have ended or left."""

    def __init__(self, checkpoints: Path, outlived: bool) -> None:
        """``outlived``: whether a learner finds steps that it has not saved in the weights of others."""
        self._checkpoints, self._outlived = checkpoints, outlived
        self._there: dict[int, LearnerSteps] = {}
        """Steps of each learner on the node that it was on last, if it has left or ended."""
        self._moved: dict[int, dict[str, int]] = {}
        """Steps of each learner that its checkpoints did not count when it moved to another node."""
        self._unknown = ""

    def add(self, accounts: Mapping[int, LearnerSteps]) -> None:
        """Take the final account of a node."""
        self._there |= accounts

    def miss(self, why: str) -> None:
        """Record that the steps of some learner cannot be known any more; the first reason is kept."""
        self._unknown = self._unknown or why

    def move(self, learner: int) -> None:
        """Count, for a learner that begins on another node, the steps that its newest checkpoint does not contain."""
        if (there := self._there.pop(learner, None)) is None:
            return
        saved = saved_steps(self._checkpoints, learner)
        lost = moved(there, saved)
        if self._outlived and "rolled_back" in lost:
            self.miss(f"learner {learner} moved to another node before it had saved")
        before = self._moved.get(learner, {})
        self._moved[learner] = {reason: before.get(reason, 0) + lost.get(reason, 0) for reason in before | lost}

    def all(self) -> dict[int, LearnerSteps] | str:
        """Return the steps of all learners, once all nodes have ended; the reason if they are not known."""
        if self._unknown:
            return self._unknown
        return {
            learner: msgspec.structs.replace(steps, moved=self._moved.get(learner, {}))
            for learner, steps in self._there.items()
        }


def saved_steps(checkpoints: Path, learner: int) -> SavedSteps:
    """Return the counts in the newest checkpoint of a learner."""
    env_steps, state = newest_state(directory_of(checkpoints, learner))
    counts = msgspec.convert(state.get("account", {}), StepCounts)
    return SavedSteps(env_steps, counts, state.get("in_flight", 0))
