"""The state of a trainer: what its checkpoints hold, as tensors and plain values, and how it is restored from these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from actorlearn.learning.reward_scale import RewardScale
from actorlearn.learning.update import Learning
from actorlearn.parameters.checkpoint import Checkpoint
from actorlearn.parameters.published import Published
from actorlearn.processes.counts import TrainerCounts
from actorlearn.processes.members import RolloutMembers
from actorlearn.processes.simulator_snapshots import rekey_to_first, simulators_of


class NotKeptError(Exception):
    """Weights by which simulators act cannot be saved."""


@dataclass(frozen=True)
class TrainerState:
    """The parts of a trainer that are saved in a checkpoint."""

    learning: Learning
    counts: TrainerCounts
    members: RolloutMembers
    published: Published
    rewards: RewardScale | None
    """The reward scale; None if rewards are not scaled."""

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors that learning changes, by name."""
        return self.learning.tensors()

    def plain(self) -> dict[str, Any]:
        """Return all other state as plain values, except the weights by which simulators act."""
        return {
            **self.counts.state(),
            "in_flight": self.members.in_flight(),
            "policy_version": self.published.version,
            "rewards": self.rewards.state() if self.rewards is not None else None,
            "skipped": self.learning.skipped,
            "rollouts": self.members.rollouts.state(self.members.next),
            "weights": self.learning.sha256(),
        }

    def acting(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """Return the weights by which open rollouts are played, and the steps of their publication, by version.

        The newest version is left out if it equals the learner's weights; it differs only after a pass that was broken
        off. Raises NotKeptError if a version is no longer kept, or after such a pass without a replay.
        """
        rollouts, newest = self.members.rollouts, self.published.version
        versions = {newest, *(rollouts.version(rollout) for rollout in range(self.members.next, rollouts.open))}
        kept = self.published.kept(versions)
        if gone := versions - kept.keys():
            raise NotKeptError(f"versions {gone} of the weights are not kept any more")
        weights = self.learning.weights.detach().cpu().numpy()
        if newest in kept and np.array_equal(kept[newest][0], weights, equal_nan=True):
            del kept[newest]
        elif self.learning.minibatches.replay is None:
            raise NotKeptError("it was told to end among the minibatches of a batch")
        tensors = {f"published.{version}": torch.from_numpy(copy) for version, (copy, _) in kept.items()}
        return tensors, {str(version): steps for version, (_, steps) in kept.items()}

    def restore(self, saved: Checkpoint, exactly: bool, outlived: bool) -> None:
        """Restore a checkpoint; ``exactly``: its simulators continue from their snapshots.

        ``outlived``: a trainer's weights survive its death (``parameters/modes.py``).
        """
        begins = not self.counts.account.commits
        self.learning.restore(saved, exactly)
        self.counts.restore(saved.state, exactly, outlived)
        if begins and not exactly:
            self.learning.consumed.forget_parts()
        if self.rewards is not None and saved.state.get("rewards"):
            rewards = saved.state["rewards"]
            returns = rekey_to_first(rewards["returns"], simulators_of(saved.state)) if exactly else rewards["returns"]
            self.rewards.restore({**rewards, "returns": returns})
        if exactly:
            self._restore_acting(saved)
        else:
            self.published.go_on_after(saved.state["policy_version"])

    def _restore_acting(self, saved: Checkpoint) -> None:
        """Publish the weights by which simulators act under their old versions, and restore rollouts and games."""
        state, weights = saved.state, saved.section("published")
        for version in sorted(map(int, weights)):
            self.published.go_on_after(version - 1)
            self.published.publish(weights[str(version)].numpy(), state["published"][str(version)])
        if str(state["policy_version"]) not in weights:
            self.published.go_on_after(state["policy_version"] - 1)
            self.learning.publish(self.published, self.counts.env_steps)
        self.members.rollouts.restore(state["rollouts"])
        self.counts.episodes.restore(rekey_to_first(state["games"], simulators_of(state)))
        self.learning.skipped = state["skipped"]
