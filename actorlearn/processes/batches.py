"""Stage 3 of 5: gathers the complete blocks of a rollout into one batch, and frees them when it has been learned from.

Reads: blocks whose word ``completed`` says so; the members.
Writes: a ``Batch`` on the trainer's device, rows shifted to "action -> outcome"; the account; the words ``joined``,
``left``, ``released`` and ``open``, which free the blocks.
Next: ``processes/trainer.py`` turns the batch into a gradient.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from actorlearn.algorithms.interface import Batch
from actorlearn.failpoints import hit
from actorlearn.learning.reward_scale import RewardScale
from actorlearn.learning.staleness import without_stale
from actorlearn.memory.account import Account
from actorlearn.memory.rollout import Blocks, Rollouts, steps_in_flight, unfinished_steps
from actorlearn.metrics.episodes import Episodes
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import Member
from actorlearn.worker.staging import Staging
from actorlearn.worker.worker import open_members

Part = tuple[str, Blocks, int]
"""A group's block in a rollout: owner id, blocks, group."""


class Batches:
    """The members, which rollout each takes part in, and the batch they make."""

    def __init__(
        self,
        rollouts: Rollouts,
        account: Account,
        blocks: int,
        device: str,
        columns: Sequence[str],
        episodes: Episodes,
        rewards: RewardScale | None = None,
        most_lag: int | None = None,
    ) -> None:
        """``blocks`` rollouts may be open at once: 1 is strictly on-policy, 2 is one update of lag.

        ``rewards`` scales rewards, if they are to be; steps are dropped whose policy lag is more than ``most_lag``.
        """
        self.rollouts = rollouts
        self.account = account
        self.blocks = blocks
        self.staging = Staging(device)
        self.columns = columns
        self.observations = slice(None)
        self.episodes = episodes
        self.rewards = rewards
        self.most_lag = most_lag
        self.stale = 0
        """Steps of the rollout gathered last that are not learned from, because they are too old."""
        self.members: dict[str, Blocks] = {}
        self.gone: dict[str, Blocks] = {}
        """Members that have left or died, and whose complete blocks are still to be learned from."""
        self.released: list[str] = []
        """Members of which nothing is needed any more, and nobody has been told yet."""
        self.pending: dict[str, Blocks] = {}
        """Members that are to be admitted with the next rollout."""
        self.ids: dict[str, ProcessId] = {}
        """The identities of all these, by their peer ids."""
        self._listed: list[str] = []
        self._played: tuple[int, Sequence[Part]] = (-1, ())

    def follow(self, members: Sequence[Member], leaving: Sequence[str], gone: Sequence[Member] = ()) -> None:
        """Take the newest members into account: from the next rollout on for arrivals, at once for the dead.

        ``gone``: the dead that nobody has released yet; some may be of the time of another trainer.
        """
        known = {**self.members, **self.pending, **self.gone}
        listed = open_members(members, known)
        self._listed = list(listed)
        self.gone |= {peer: blocks for peer, blocks in self.members.items() if peer not in listed}
        for peer, blocks in open_members(gone, known).items():
            if 0 < blocks.released <= self.account.commits:
                self.released.append(peer)
            else:
                self.gone[peer] = blocks
        self.members = {peer: blocks for peer, blocks in listed.items() if blocks.joined >= 0}
        self.pending = {peer: blocks for peer, blocks in listed.items() if blocks.joined < 0}
        ids = {member.id.peer: member.id for member in (*gone, *members)} | self.ids
        self.ids = {peer: ids[peer] for peer in (*self.gone, *listed)}
        for peer in [peer for peer in self.pending if ids[peer].name in leaving]:
            self.members[peer] = self.pending.pop(peer)
            self.members[peer].admit(self.rollouts.open)  # never takes part, and is told so by the next lines
        for peer, blocks in self.members.items():
            if ids[peer].name in leaving and blocks.left > self.rollouts.open:
                blocks.leave(self.rollouts.open)

    @property
    def next(self) -> int:
        """The rollout to be learned next."""
        return self.account.rollouts_learned

    def open_next(self) -> None:
        """Commit the account, free the blocks of all rollouts learned, and let simulators begin as many new ones."""
        self._release()
        hit("batches.released")
        self.account.commit()
        hit("batches.committed")
        self._admit()
        hit("batches.admitted")
        self.rollouts.raise_to(self.next + self.blocks)

    def unblock(self) -> None:
        """Open a rollout, or pass over one, where no batch can come of the next rollout otherwise.

        Called while there is nothing to learn from. That is so while members play, and then there is nothing to do. But
        nobody plays when nobody takes part yet, when a trainer died before it opened the next rollout, and when all who
        took part have died while those who live join later.
        """
        members = self.members.values()
        taking_part = any(blocks.takes_part(self.next) for blocks in members)
        if taking_part and self.rollouts.open >= self.next + self.blocks:
            return
        if not taking_part and not self._admissible() and any(blocks.joined > self.next for blocks in members):
            self.account.rollouts_learned += 1  # one by one: complete blocks of the dead in between still count
        self.open_next()

    def in_flight(self) -> int:
        """Steps that lie in blocks and are not learned from."""
        return sum(steps_in_flight(blocks, self.next) for blocks in (*self.gone.values(), *self.members.values()))

    def _release(self) -> None:
        """Count what was left unfinished by those who are gone and all of whose complete rollouts are learned.

        Their segments name the commit that this is counted in, as a trainer may be killed before it makes that.
        """
        for peer in [peer for peer, blocks in self.gone.items() if not _remaining(blocks, self.next)]:
            blocks = self.gone.pop(peer)
            for group in range(blocks.groups):
                self.account.counts.dropped["unfinished"] += unfinished_steps(blocks, group)
                self.episodes.drop(f"{peer}/{group}")
            blocks.release(self.account.commits + 1)
            self.released.append(peer)

    def _admit(self) -> None:
        """Let those that are ready take part, from the first rollout that is not open yet.

        Where nobody takes part, at the start or when all have died, that is the rollout to be learned next.
        """
        first_rollout = max(self.rollouts.open, self.next) if self.members else self.next
        admitted = self._admissible()
        for blocks in admitted.values():
            blocks.admit(first_rollout)
        present = {**self.members, **admitted}
        self.members = {peer: present[peer] for peer in self._listed if peer in present}
        self.pending = {peer: blocks for peer, blocks in self.pending.items() if peer not in admitted}

    def _admissible(self) -> dict[str, Blocks]:
        """Waiting members that are ready; none while nobody takes part and one is not, so that all begin together."""
        ready = {peer: blocks for peer, blocks in self.pending.items() if blocks.ready}
        return ready if self.members or len(ready) == len(self.pending) else {}

    def parts(self) -> list[Part] | None:
        """Return the blocks that make the next batch, by their simulators' numbers; None while one is being written.

        The order is the same whoever has died meanwhile: a trainer that takes up a rollout of which another one has
        made some minibatches draws the rest from the same rows.
        """
        parts, rollout = [], self.next
        for peer, blocks in sorted({**self.gone, **self.members}.items(), key=lambda member: member[1].number):
            for group in range(blocks.groups):
                if not blocks.takes_part(rollout):
                    continue
                if blocks.completed(group) > rollout:
                    parts.append((peer, blocks, group))
                elif peer in self.members:
                    return None
        return parts or None

    def rows(self) -> int:
        """Count the rows of the next rollout that every participant has been in: how far its gathering is."""
        rollout = self.next
        members = [blocks for blocks in self.members.values() if blocks.takes_part(rollout)]
        return max(0, min((b.observed(g) - rollout * b.horizon for b in members for g in range(b.groups)), default=0))

    def gather(self, version: int) -> Batch | None:
        """Return the batch to learn from next by weights of this version; None while its rollout is being played."""
        parts = self.parts()
        if parts is None:
            return None
        batch = self.take(parts)
        if self.rewards is not None:
            batch = self.rewards.scaled(batch, [(f"{peer}/{g}", b.envs_per_group) for peer, b, g in parts])
        fresh = without_stale(batch, self.rollouts.judge(self.next, version), self.most_lag)
        self.stale = steps_in(batch) - steps_in(fresh)
        return fresh

    def count(self) -> None:
        """Count the rollout gathered last, which is over: the next one follows."""
        self.account.counts.dropped["stale"] += self.stale
        self.count_games()
        if self.rewards is not None:
            self.rewards.learned()
        self.account.rollouts_learned += 1

    def take(self, parts: Sequence[Part]) -> Batch:
        """Gather the next rollout's parts into a batch: observation and first [T + 1, B, …], the rest [T, B, …]."""
        rollout = self.next
        self._played = rollout, parts

        def gather(name: str, rows: slice = slice(None)) -> Tensor:
            arrays = [blocks.block(name, group, rollout)[rows] for _, blocks, group in parts]
            return self.staging.join(name, arrays, dim=1)

        reward, first = gather("reward"), gather("first")
        terminated, truncated = gather("terminated"), gather("truncated")
        return Batch(
            observation=gather("observation", self.observations),
            action=gather("action")[:-1],
            reward=reward[1:],
            terminated=terminated[1:],
            truncated=truncated[1:],
            life_lost=gather("life_lost")[1:],
            first=first,
            valid=~first[1:],  # an action that met a resetting environment did nothing
            policy_version=_versions(rollout, parts)[:-1],
            columns={name: gather(name, slice(1 if name == "state" else -1)) for name in self.columns},
        )

    def keep(self) -> None:
        """Store the rollout taken last, where rollouts are stored: it is about to be learned."""

    def count_games(self) -> None:
        """Count the games of the rollout taken last, once it is learned from: until then it may be taken again."""
        rollout, parts = self._played
        for peer, blocks, group in parts:
            over = blocks.block("terminated", group, rollout) | blocks.block("truncated", group, rollout)
            first = blocks.block("first", group, rollout)
            reward = blocks.block("reward", group, rollout)
            self.episodes.add(f"{peer}/{group}", reward, over, first)


def _versions(rollout: int, parts: Sequence[Part]) -> Tensor:
    """Return the policy version per row and environment [T + 1, B]; a row's actions all come from one version."""
    rows = [torch.from_numpy(blocks.block("policy_version", group, rollout))[:, None] for _, blocks, group in parts]
    return torch.cat([row.expand(-1, part[1].envs_per_group) for row, part in zip(rows, parts, strict=True)], dim=1)


def _remaining(blocks: Blocks, rollouts_learned: int) -> bool:
    """Whether a member has complete rollouts that are not learned from yet."""
    return any(min(blocks.completed(group), blocks.left) > rollouts_learned for group in range(blocks.groups))


def steps_in(batch: Batch) -> int:
    """Environment steps in a batch: actions that were carried out."""
    return int(np.count_nonzero(batch.valid.cpu().numpy()))
