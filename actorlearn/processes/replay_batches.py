"""Stage 3 of value learning: a round's rows go into the replay, and the batch only says what was in them.

Reads: complete blocks, where they lie. Writes: the replay, flushed once a round, in the order of the roster.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from actorlearn.algorithms.interface import Batch
from actorlearn.memory.account import Account
from actorlearn.memory.rollout import Rounds
from actorlearn.metrics.episodes import Episodes
from actorlearn.processes.batches import Batches, Part
from actorlearn.processes.learning import Learning
from actorlearn.processes.replay_learning import ReplayLearning
from actorlearn.replay.buffer import Replay
from actorlearn.replay.rows import COLUMNS


class ReplayBatches(Batches):
    """Batches without observations, of rounds that are stored."""

    def __init__(
        self, rounds: Rounds, account: Account, blocks: int, device: str, replay: Replay, episodes: Episodes
    ) -> None:
        """Store in this replay."""
        super().__init__(rounds, account, blocks, device, (), episodes)
        self.observations = slice(0)
        self._replay = replay
        self._owners: set[str] = set()
        self._taken: tuple[int, Sequence[Part]] = (-1, ())

    def take(self, round_: int, parts: Sequence[Part]) -> Batch:
        """Say what is in a round."""
        self._taken = round_, parts
        return super().take(round_, parts)

    def keep(self) -> None:
        """Store the round taken last, unless that was done before the trainer was killed."""
        if self._taken[0] >= self._replay.rounds:
            self._store(*self._taken)

    def _store(self, round_: int, parts: Sequence[Part]) -> None:
        owners = {f"{peer}/{group}": (blocks, group) for peer, blocks, group in parts}
        for owner in self._owners - owners.keys():
            self._replay.leave(owner)
        for owner, (blocks, group) in owners.items():
            block = {name: blocks.block(name, group, round_) for name in COLUMNS}
            if not self._replay.add(owner, round_, block):  # more environments than there were at the start
                self.account.counts.dropped["no_room"] += int(np.count_nonzero(~block["first"][1:]))
        self._owners = set(owners)
        self._replay.flush()
        self._replay.rounds = round_ + 1


def batches_for(learning: Learning, rounds: Rounds, account: Account, blocks: int, episodes: Episodes) -> Batches:
    """What a learner gathers its rounds with."""
    device = learning.settings.device
    if isinstance(learning, ReplayLearning):
        return ReplayBatches(rounds, account, blocks, device, learning.replay, episodes)
    return Batches(rounds, account, blocks, device, learning.columns, episodes)
