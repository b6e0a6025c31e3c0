"""Stage 3 of value learning: a rollout's rows go into the replay, and the batch only says what was in them.

Reads: complete blocks, where they lie. Writes: the replay, flushed once a rollout, in the order of the members.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from actorlearn.algorithms.interface import Batch
from actorlearn.learning.reward_scale import RewardScale
from actorlearn.memory.account import Account
from actorlearn.memory.rollout import Blocks, Rollouts
from actorlearn.metrics.episodes import Episodes
from actorlearn.processes.batches import Batches, Part, steps_in
from actorlearn.replay.buffer import Replay
from actorlearn.replay.rows import COLUMNS


class ReplayBatches(Batches):
    """Batches without observations, of rollouts that are stored."""

    def __init__(
        self,
        rollouts: Rollouts,
        account: Account,
        blocks: int,
        device: str,
        replay: Replay,
        episodes: Episodes,
        rewards: RewardScale | None = None,
        most_lag: int | None = None,
    ) -> None:
        """Store in this replay."""
        super().__init__(rollouts, account, blocks, device, (), episodes, rewards, most_lag)
        self.observations = slice(0)
        self._replay = replay
        self._taken: tuple[int, dict[str, tuple[Blocks, int]]] = (-1, {})
        self._no_room = 0
        """Steps of the rollout taken last whose environments have no ring."""

    def take(self, parts: Sequence[Part]) -> Batch:
        """Say what is in the next rollout; more environments than there were at the start may find no room."""
        batch = super().take(parts)
        self._taken = self.next, {f"{peer}/{group}": (blocks, group) for peer, blocks, group in parts}
        room = self._replay.room({owner: blocks.envs_per_group for owner, (blocks, _) in self._taken[1].items()})
        stored = [torch.full((blocks.envs_per_group,), owner in room) for owner, (blocks, _) in self._taken[1].items()]
        kept = replace(batch, valid=batch.valid & torch.cat(stored).to(batch.valid.device))
        self._no_room = steps_in(batch) - steps_in(kept)
        return kept

    def keep(self) -> None:
        """Store the rollout taken last, unless that was done before the trainer was killed."""
        rollout, owners = self._taken
        if rollout < self._replay.rollouts:
            return
        self._replay.leave_to(owners)
        for owner, (blocks, group) in owners.items():
            self._replay.add(owner, rollout, {name: blocks.block(name, group, rollout) for name in COLUMNS})
        self._replay.flush(rollout + 1)

    def count_games(self) -> None:
        """Count the games of the rollout taken last, and its steps that no ring had room for."""
        super().count_games()
        self.account.counts.dropped["no_room"] += self._no_room
