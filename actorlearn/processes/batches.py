"""Stage 3 of 5: gathers the complete blocks of a rollout into one batch.

Reads: the blocks of a rollout that is complete in all its parts (``processes/members.py`` lists them).
Writes: a ``Gathered``: the ``Batch`` on the trainer's device, with rows shifted so that each action is stored with its
outcome, and the counts that belong to it. If the learner has a replay, the batch has no observations
(``learning/replay.py`` stores them).
Next: ``processes/trainer.py`` learns from the batch, and then frees the blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from actorlearn.algorithms.interface import Batch
from actorlearn.learning.minibatches import Gathered
from actorlearn.learning.reward_scale import RewardScale
from actorlearn.memory.rollout import GroupRollout, Rollouts
from actorlearn.memory.shared_rollout import Columns
from actorlearn.worker.staging import Staging

if TYPE_CHECKING:
    from actorlearn.learning.replay import Replayed


class Gatherer:
    """Gathers rollouts into batches on one device."""

    def __init__(
        self,
        rollouts: Rollouts,
        device: str,
        columns: Sequence[str] = (),
        *,
        rewards: RewardScale | None = None,
        most_lag: int | None = None,
        replayed: Replayed | None = None,
    ) -> None:
        """Gather ``columns`` besides those that all batches have; ``rewards``, if given, scales rewards.

        Steps with a policy lag of more than ``most_lag`` are left out. With ``replayed``, so are the steps of
        environments for which its replay has no room.
        """
        self._rollouts = rollouts
        self._staging, self._others_staging = Staging(device), Staging(device)
        self._columns = columns
        self._rewards, self._most_lag, self._replayed = rewards, most_lag, replayed

    def gather(
        self, rollout: int, parts: Sequence[GroupRollout], version: int, only_statistics: bool = False
    ) -> Gathered:
        """Gather a complete rollout from these parts; ``version``: version of the weights that learn from it."""
        judged = self._rollouts.judge(rollout, version)
        batch, no_room, returns = self._join_parts(rollout, parts, judged), 0, None
        if self._replayed is not None:
            stored = replace(batch, valid=batch.valid & self._replayed.room(parts).to(batch.valid.device))
            batch, no_room = stored, steps_in(batch) - steps_in(stored)
        if self._rewards is not None:
            batch, returns = self._rewards.scale(batch, [(part.owner, part.blocks.envs_per_group) for part in parts])
        fresh = mask_stale(batch, self._most_lag)
        ages = lags(fresh)  # each count waits for a GPU
        return Gathered(
            rollout=rollout,
            parts=parts,
            batch=fresh,
            lags=ages,
            steps=0 if only_statistics else len(ages),
            stale=steps_in(batch) - len(ages) if fresh is not batch else 0,
            no_room=no_room,
            statistics_steps=len(ages) if only_statistics else 0,
            only_statistics=only_statistics,
            returns=returns,
        )

    def share(self, own: Gathered, others: Sequence[Columns]) -> Gathered:
        """Join rows of other learners' rollouts to this learner's rows; its reward scale is used for all rewards."""
        if not others:
            return own
        ages = torch.cat([torch.from_numpy(rows["policy_lag"]) for rows in others], dim=1)
        batch = self._shift(lambda name: [rows[name] for rows in others], ages, self._others_staging)
        if own.returns is not None:
            batch = replace(batch, reward=batch.reward / own.returns.deviation)
        return replace(own, shared=beside(own.batch, batch))

    def _join_parts(self, rollout: int, parts: Sequence[GroupRollout], version: int) -> Batch:
        """Join the parts of a rollout; policy lags are relative to ``version``."""

        def blocks_of(name: str) -> list[NDArray[Any]]:
            return [blocks.block(name, group, rollout) for _, blocks, group in parts]

        return self._shift(blocks_of, version - _versions(rollout, parts), self._staging)

    def _shift(self, blocks_of: Callable[[str], list[NDArray[Any]]], ages: Tensor, staging: Staging) -> Batch:
        """Join blocks [T + 1, n, …] and shift rows: observation and first [T + 1, B, …], other columns [T, B, …].

        ``ages``: policy lags of all rows, [T + 1, B].
        """

        def join(name: str, rows: slice = slice(None)) -> Tensor:
            return staging.join(name, [block[rows] for block in blocks_of(name)], dim=1)

        reward, first = join("reward"), join("first")
        terminated, truncated = join("terminated"), join("truncated")
        return Batch(
            observation=join("observation", slice(None) if self._replayed is None else slice(0)),
            action=join("action")[:-1],
            reward=reward[1:],
            terminated=terminated[1:],
            truncated=truncated[1:],
            life_lost=join("life_lost")[1:],
            first=first,
            valid=~first[1:],  # an environment that is reset ignores the action
            policy_lag=ages[:-1].to(first.device),
            columns={name: join(name, slice(1 if name == "state" else -1)) for name in self._columns},
        )


def beside(batch: Batch, other: Batch) -> Batch:
    """Join the environments of two batches with equal numbers of rows, in this order."""
    columns = {name: torch.cat([column, other.columns[name]], 1) for name, column in batch.columns.items()}
    names = [name for name in Batch.__slots__ if name != "columns"]
    joined = {name: torch.cat([getattr(batch, name), getattr(other, name)], 1) for name in names}
    return Batch(**joined, columns=columns)


def _versions(rollout: int, parts: Sequence[GroupRollout]) -> Tensor:
    """Return the policy version per row and environment [T + 1, B]; a row's actions all come from one version."""
    rows = [torch.from_numpy(blocks.block("policy_version", group, rollout))[:, None] for _, blocks, group in parts]
    return torch.cat([row.expand(-1, part.blocks.envs_per_group) for row, part in zip(rows, parts, strict=True)], dim=1)


def steps_in(batch: Batch) -> int:
    """Return the number of environment steps in a batch: actions that were carried out."""
    return int(np.count_nonzero(batch.valid.cpu().numpy()))


def lags(batch: Batch) -> NDArray[np.int64]:
    """Return the policy lag of each valid step: updates between the version that acted and the one that learns."""
    found: NDArray[np.int64] = batch.policy_lag[batch.valid].cpu().numpy()
    return found


def mask_stale(batch: Batch, most_lag: int | None) -> Batch:
    """Mask the transitions whose acting weights were more than ``most_lag`` updates old."""
    if most_lag is None:
        return batch
    return replace(batch, valid=batch.valid & (batch.policy_lag <= most_lag))
