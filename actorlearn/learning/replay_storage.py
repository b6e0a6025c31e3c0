"""Storage of rollouts in a learner's replay, with the observations that stage 3 leaves out of the batch.

Reads: complete blocks, in place. Writes: the replay, in the order of the parts, flushed once for each rollout.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from actorlearn.memory.rollout import GroupRollout
from actorlearn.replay.buffer import Replay


class ReplayStorage:
    """Stores rollouts in one replay."""

    def __init__(self, replay: Replay) -> None:
        """Store in this replay, which has a fixed number of rings."""
        self._replay = replay

    def room(self, parts: Sequence[GroupRollout]) -> Tensor:
        """Return for each environment of a rollout, bool [B], whether the replay has a ring for it."""
        owners = self._replay.room({part.owner: part.blocks.envs_per_group for part in parts})
        return torch.cat([torch.full((part.blocks.envs_per_group,), part.owner in owners) for part in parts])

    def store(self, rollout: int, parts: Sequence[GroupRollout]) -> None:
        """Store a rollout, unless an earlier incarnation of the trainer has stored it."""
        if rollout < self._replay.rollouts:
            return
        self._replay.leave_to([part.owner for part in parts])
        for part in parts:
            block = {name: part.blocks.block(name, part.group, rollout) for name in self._replay.shape.columns}
            self._replay.add(part.owner, rollout, block)
        self._replay.flush(rollout + 1)
