"""Stage 3 of 5: joins the blocks of a complete rollout to one batch.

Reads: the blocks of a rollout (``processes/members.py`` lists them).
Returns: a `Gathered`, which has a `Batch` on the trainer's device and counts of its steps. A block stores an action in
the row of its observation, and the outcome in the next row; in the batch, both have the same index. If the learner has
a replay, the batch has no observations, because ``learning/replay.py`` copies them from the blocks.
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
from actorlearn.memory.rollout import ARRIVAL_COLUMNS, GroupRollout, Rollouts
from actorlearn.memory.shared_rollout import Columns
from actorlearn.worker.staging import Staging

if TYPE_CHECKING:
    from actorlearn.learning.replay import Replayed


class Gatherer:
    """Copies the time steps of a rollout from shared memory to a batch on the trainer's device."""

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
        """Make batches on ``device``, with the algorithm's ``columns`` besides those that all batches have.

        ``rewards``, if given, scales rewards. Steps with a policy lag above ``most_lag`` are marked as invalid. So are,
        with ``replayed``, the steps of environments for which the replay has no room.
        """
        self._rollouts = rollouts
        self._staging, self._others_staging = Staging(device), Staging(device)
        self._columns = columns
        self._rewards, self._most_lag, self._replayed = rewards, most_lag, replayed

    def gather(
        self, rollout: int, parts: Sequence[GroupRollout], version: int, only_statistics: bool = False
    ) -> Gathered:
        """Return the batch of a complete rollout; ``version`` is the version of the weights that learn from it.

        ``parts`` are the groups of environments that have played the rollout. If ``only_statistics``, the rollout is
        not learned from, and only updates the statistics of observations.
        """
        ages = self._rollouts.judge(rollout, version) - _versions(rollout, parts)
        batch = self._shift(
            lambda name: [blocks.block(name, group, rollout) for _, blocks, group in parts], ages, self._staging
        )
        no_room, returns = 0, None
        if self._replayed is not None:
            stored = replace(batch, valid=batch.valid & self._replayed.room(parts).to(batch.valid.device))
            batch, no_room = stored, steps_in(batch) - steps_in(stored)
        if self._rewards is not None:
            batch, returns = self._rewards.scale(batch, [(part.owner, part.blocks.envs_per_group) for part in parts])
        fresh = mask_stale(batch, self._most_lag)
        valid_lags = lags(fresh)  # each count waits for a GPU
        return Gathered(
            rollout=rollout,
            parts=parts,
            batch=fresh,
            lags=valid_lags,
            steps=0 if only_statistics else len(valid_lags),
            stale=steps_in(batch) - len(valid_lags) if fresh is not batch else 0,
            no_room=no_room,
            only_statistics=only_statistics,
            returns=returns,
        )

    def share(self, own: Gathered, others: Sequence[Columns]) -> Gathered:
        """Add rollouts of other learners to this learner's rollout, with rewards scaled by this learner's scale.

        ``others`` has the columns of each of these rollouts, [T + 1, n, …] each. Their senders also share stale steps,
        which are marked as invalid here.
        """
        if not others:
            return own
        ages = torch.cat([torch.from_numpy(rows["policy_lag"]) for rows in others], dim=1)
        batch = self._shift(lambda name: [rows[name] for rows in others], ages, self._others_staging)
        if own.returns is not None:
            batch = replace(batch, reward=batch.reward / own.returns.deviation)
        return replace(own, shared=beside(own.batch, mask_stale(batch, self._most_lag)))

    def _shift(self, blocks_of: Callable[[str], list[NDArray[Any]]], ages: Tensor, staging: Staging) -> Batch:
        """Join rollouts [T + 1, n, …] to a batch in which an action has the same index as its reward.

        Observation and first have T + 1 time steps, other columns T. ``ages`` [T + 1, B] are policy lags.
        """
        rows = dict.fromkeys((*ARRIVAL_COLUMNS, "action"), slice(None))
        if self._replayed is not None:
            rows["observation"] = slice(0)
        rows |= {name: slice(1 if name == "state" else -1) for name in self._columns}
        column = staging.join({name: [block[part] for block in blocks_of(name)] for name, part in rows.items()}, dim=1)
        return Batch(
            observation=column["observation"],
            action=column["action"][:-1],
            reward=column["reward"][1:],
            terminated=column["terminated"][1:],
            truncated=column["truncated"][1:],
            life_lost=column["life_lost"][1:],
            first=column["first"],
            valid=~column["first"][1:],  # an environment that is reset ignores the action
            policy_lag=ages[:-1].to(column["first"].device),
            columns={name: column[name] for name in self._columns},
        )


def beside(batch: Batch, other: Batch) -> Batch:
    """Join two batches of equal length along the dimension of environments."""
    columns = {name: torch.cat([column, other.columns[name]], 1) for name, column in batch.columns.items()}
    names = [name for name in Batch.__slots__ if name != "columns"]
    joined = {name: torch.cat([getattr(batch, name), getattr(other, name)], 1) for name in names}
    return Batch(**joined, columns=columns)


def _versions(rollout: int, parts: Sequence[GroupRollout]) -> Tensor:
    """Return the version of the weights that chose each action, [T + 1, B]."""
    rows = [torch.from_numpy(blocks.block("policy_version", group, rollout))[:, None] for _, blocks, group in parts]
    return torch.cat([row.expand(-1, part.blocks.envs_per_group) for row, part in zip(rows, parts, strict=True)], dim=1)


def steps_in(batch: Batch) -> int:
    """Return the number of valid environment steps in a batch, that is, of actions that were carried out."""
    return int(np.count_nonzero(batch.valid.cpu().numpy()))


def lags(batch: Batch) -> NDArray[np.int64]:
    """Return the policy lag of each valid step: the updates between the weights that acted and those that learn."""
    found: NDArray[np.int64] = batch.policy_lag[batch.valid].cpu().numpy()
    return found


def mask_stale(batch: Batch, most_lag: int | None) -> Batch:
    """Mark steps as invalid whose actions were chosen by weights more than ``most_lag`` updates old; None: no limit."""
    if most_lag is None:
        return batch
    return replace(batch, valid=batch.valid & (batch.policy_lag <= most_lag))
