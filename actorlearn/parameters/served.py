"""Mode async on several machines: each learner sends its gradients to parameter servers, which apply them.

This is the learner's side; ``shard.py`` is the servers' side. Source: Stooke & Abbeel (2018), section 4.3. The servers
divide the weights among them into *shards*. The learner clips its whole gradient by its norm, sends each shard its
part, and copies the new weights from the answers.

The learner keeps the optimizer state of the newest checkpoint. With it, and with its weights, it fills empty servers:
when a run begins or is resumed, and after a server's machine has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf, isfinite
from typing import Any

import numpy as np
import torch
from torch import Tensor

from actorlearn.failpoints import hit
from actorlearn.optim.groups import clip
from actorlearn.parameters.alone import Alone
from actorlearn.parameters.consumed import BEGINNING, Position
from actorlearn.parameters.interface import NEAR_END, Agreed, Joined, Learner, Stepped, Stopped
from actorlearn.parameters.server_lines import ServerLines
from actorlearn.parameters.settings import ServedExchangeSettings
from actorlearn.parameters.shard import join_state, split_state
from actorlearn.parameters.shard_frames import (
    APPLIED,
    CHANGE,
    DROPPED,
    EMPTY,
    FILL,
    FLOAT32,
    FLOAT64,
    PULL,
    PULL_STATE,
    ROW,
    WIRES,
    WRITTEN,
    LearnerRow,
    ShardFrame,
    Table,
    most_bytes,
    new_table,
    take_newer,
)
from actorlearn.parameters.shard_layout import Sharding

STATE_S = 20.0
"""Longest wait, in seconds, for the servers' state when a checkpoint is written, and for their newest counts when this
learner ends. After it, the previous state is saved, or the last known counts are."""


class Served(Alone):
    """Mode async with parameter servers: sends a learner's gradients to servers, and gets new weights from them.

    Its optimizer holds the servers' optimizer state as of the newest checkpoint, and never takes a step.
    """

    def __init__(self, settings: ServedExchangeSettings, learner: Learner) -> None:
        """Prepare everything but the connections to the servers."""
        assert learner.endpoints is not None
        super().__init__(settings, learner)
        self.settings = settings
        self.sharding = Sharding(self.parameters.numel(), self.statistics.numel(), settings.servers)
        self.spans = dict(enumerate(self.sharding.spans))
        self.statistics_shard = self.sharding.statistics_shard
        """Number of the shard of statistics, if there are statistics."""
        self.shards = list(range(self.statistics_shard))
        """Numbers of the shards of parameters."""
        vectors, scalars = split_state(self.optimizer)
        largest = max(span.stop - span.start for span in self.spans.values())
        limit = most_bytes(largest, len(vectors), settings.learners, len(self.groups), len(scalars))
        self.lines = ServerLines(learner.endpoints, self.sharding.server_of, limit, learner.alive, learner.present)
        self.wire = WIRES[settings.wire]
        self._table = new_table(settings.learners)
        """Newest known counts (`LearnerRow`) of all learners; this learner's are exact."""
        self._tables = {shard: new_table(settings.learners) for shard in self.spans}
        """For each shard, the newest known counts of all learners at this shard."""
        self._base = (0, 0)
        """Environment steps and updates of all learners in the checkpoint from which the servers were filled."""
        self._versions = dict.fromkeys(self.spans, 0)
        """For each shard, the version of its weights that this learner has."""
        self._joined = False
        self._number = 0
        """Number of the next optimizer step (`Position.first_change`)."""
        self._staleness: list[int] = []
        """Staleness of each gradient at each shard since the last report."""
        self._dropped = 0
        """Number of gradients since the last report that at least one shard has dropped."""

    # State ------------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        """Fetch the servers' optimizer state and the weights that belong to it, and return the state.

        If the servers do not answer within STATE_S seconds, return the previous state.
        """
        if self._joined:
            with suppress(Stopped):
                self._take_state(
                    self.lines.ask({shard: ShardFrame(PULL_STATE, shard) for shard in self.shards}, STATE_S)
                )
        return self.optimizer.state()

    def _take_state(self, answers: Mapping[int, ShardFrame]) -> None:
        if any(answer.kind == EMPTY for answer in answers.values()):
            return
        vectors, _ = split_state(self.optimizer)
        for shard, answer in answers.items():
            span = self.spans[shard]
            weights, *parts = torch.split(answer.values, span.stop - span.start)
            self.weights[span].copy_(weights)
            self._versions[shard] = answer.version
            for vector, part in zip(vectors, parts, strict=True):
                vector[span].copy_(part)
            self._take_rows(answer)
        newest = max(answers.values(), key=lambda answer: answer.version)
        self.optimizer.restore(join_state(self.optimizer, vectors, newest.scalars))

    # Joining ----------------------------------------------------------------------------------------------------------

    def join(self, env_steps: int, updates: int, position: Position = BEGINNING) -> Joined:
        """Copy the servers' weights, and fill empty servers; a restarted learner continues from its counts there."""
        self._base = (env_steps, updates)
        self._take(self._ask(ShardFrame(PULL, shard) for shard in self.spans))
        self._joined = True
        row, own = self._resumed(position), self.learner.carried.counts()
        self.learner.carried.adopt(np.array([row.counts, own], np.int64), 0)  # a restored replay may be older
        self._settle(row)
        steps, made = self._totals()
        self.consumed.take_over(steps)
        return Joined(steps, made, Position(row.rollouts_learned, row.used))

    def _resumed(self, position: Position) -> LearnerRow:
        """Return this learner's counts for the rollout that it learns from next, after a first start or a restart.

        This is the rollout of ``position``. If the learner was restarted on another machine, ``position`` is that of an
        older checkpoint; then the rollout that the servers have recorded is taken, because the weights have learned
        from those before it.
        """
        row = self._record
        if not row.written:
            counts = tuple(self.learner.carried.counts())
            return row._replace(
                rollouts_learned=position.rollout, used=position.used, began=position.used, counts=counts
            )
        if row.rollouts_learned > position.rollout + 1:
            return row
        settled = row.rollouts_learned > position.rollout  # if so, `settle` will be called for this rollout again
        return row._replace(rollouts_learned=position.rollout, used=position.used, updates=row.updates - int(settled))

    # A batch ----------------------------------------------------------------------------------------------------------

    def agree(
        self, env_steps: int, optimizer_steps: int, position: Position = BEGINNING, draining: bool = False
    ) -> Agreed:
        """Return the newest known steps and updates of all learners, including this batch; does not wait for them.

        If ``draining``, first ask the servers for their weights and counts, and wait at most STATE_S seconds for them.
        """
        if draining and self._joined:
            with suppress(Stopped):  # a server is gone; the last answers then count
                self._take(self._ask((ShardFrame(PULL, shard) for shard in self.spans), STATE_S))
        self._batch_steps, updates = (0, 0) if draining else (env_steps, 1)
        self.consumed.begin(self.learner.number, position)
        self._rollout = position.rollout
        self._number = max(self._number, position.first_change)
        steps, made = self._totals()
        return Agreed(steps + self._batch_steps, made + updates, draining)

    def merge(self, moments: Tensor, combine: Callable[[Tensor, Tensor], None]) -> None:
        """Send the moments of a batch's observations to the server of the statistics, and copy the merged statistics.

        The server merges them with the same function as ``combine``, which is not called here.
        """
        own = ShardFrame(CHANGE, self.statistics_shard, number=self._number, values=moments, wire=FLOAT64)
        self._take(self._ask([own]))
        self._number += 1

    def step(self, gradients: Tensor, learning_rates: Sequence[float], usable: bool = True) -> Stepped:
        """Clip the gradient, send the servers their parts of it, and copy the new weights from the answers."""
        norm = float(clip(gradients, self.groups))
        hit("served.clipped")
        taken = usable and isfinite(norm)
        if taken:
            rates = tuple(map(float, learning_rates))
            answers = self._ask(
                ShardFrame(
                    CHANGE, shard, 0, self._number, rates=rates, values=gradients[self.spans[shard]], wire=self.wire
                )
                for shard in self.shards
            )
            self._take(answers)
            outcomes = [answer.outcome for answer in answers.values()]
            self._staleness += [outcome for outcome in outcomes if outcome >= APPLIED]
            self._dropped += DROPPED in outcomes
        self._number += 1
        hit("served.stepped")
        return Stepped(norm, taken)

    def settle(self) -> None:
        """Count the batch, unless it was counted before a restart, and send the count to the servers."""
        super().settle()
        row = self._record
        if row.rollouts_learned <= self._rollout:
            used = row.used + self._batch_steps
            self._settle(row._replace(rollouts_learned=self._rollout + 1, used=used, updates=row.updates + 1))

    def learned(self, end_steps: int) -> int:
        """Return the newest known number of environment steps; near ``end_steps``, ask the servers for it."""
        total, _ = self._totals()
        if total + NEAR_END * max(len(self.learner.present().learners), 1) * self._batch_steps >= end_steps:
            servers = range(self.settings.servers)
            with suppress(Stopped):
                answers = self._ask(
                    ShardFrame(PULL, self.sharding.first_of(server), wire=self.wire) for server in servers
                )
                self._take(answers, weights=False)
            total, _ = self._totals()
        return total

    def pull(self) -> bool:
        """Copy the servers' weights; returns whether any version changed."""
        before = dict(self._versions)
        wires = {shard: FLOAT32 if shard == self.statistics_shard else self.wire for shard in self.spans}
        self._take(self._ask(ShardFrame(PULL, shard, wire=wire) for shard, wire in wires.items()))
        return self._versions != before

    def metrics(self) -> dict[str, Any]:
        """Return mean and largest staleness, bytes, dropped gradients and seconds waited since the last call."""
        stale, self._staleness = self._staleness, []
        dropped, self._dropped = self._dropped, 0
        waited_s, self.lines.waited_s = self.lines.waited_s, 0.0
        return {
            "staleness_mean": sum(stale) / max(len(stale), 1),
            "staleness_max": max(stale, default=0),
            "server_wait_s": waited_s,
            **self.lines.moved.metrics(),
            **({"gradients_dropped": dropped} if self.settings.quorum else {}),
        }

    def close(self) -> None:
        """Close the connections to the servers."""
        self.lines.close()

    # Requests ---------------------------------------------------------------------------------------------------------

    def _ask(self, requests: Iterable[ShardFrame], patience_s: float = inf) -> dict[int, ShardFrame]:
        """Send requests to the servers, at most one for each shard, until all are answered; fill empty shards first."""
        waiting = {request.shard: request for request in requests}
        found: dict[int, ShardFrame] = {}
        while waiting:
            asked = {
                shard: request._replace(version=self._versions[shard], base=self._base, table=self._own_row)
                for shard, request in waiting.items()
            }
            answers = self.lines.ask(asked, patience_s)
            empty = [shard for shard, answer in answers.items() if answer.kind == EMPTY]
            found |= {shard: answer for shard, answer in answers.items() if shard not in empty}
            waiting = {shard: waiting[shard] for shard in empty}
            if empty:
                self._take(found, weights=False)  # offers then have the base of the filled shards
                self._take(self.lines.ask({shard: self._offer(shard) for shard in empty}, patience_s), weights=False)
        return found

    def _offer(self, shard: int) -> ShardFrame:
        """Return the request that offers this learner's weights and the saved optimizer state to an empty shard."""
        span, table = self.spans[shard], self._tables[shard].copy()
        vectors, scalars = split_state(self.optimizer) if shard != self.statistics_shard else ([], [])
        take_newer(table, self._table, same_shard=False)
        return ShardFrame(
            FILL,
            shard,
            version=self._versions[shard],
            base=self._base,
            table=table,
            values=torch.cat([self.weights[span], *(vector[span] for vector in vectors)]),
            scalars=tuple(scalars),
        )

    def _take(self, answers: Mapping[int, ShardFrame], weights: bool = True) -> None:
        """Copy step counts and, with ``weights``, the weights from the servers' answers."""
        for shard, answer in answers.items():
            self._take_rows(answer)
            if weights:
                self.weights[self.spans[shard]].copy_(answer.values)
                self._versions[shard] = answer.version

    def _take_rows(self, answer: ShardFrame) -> None:
        """Copy the newer counts of learners from an answer, and the counts to which they are added (``_base``).

        If a shard was filled from a newer checkpoint since this learner joined, all learners count from that one.
        """
        older = self._joined and answer.base[1] < self._base[1]
        if len(answer.table) != len(self._table) or older:
            return
        if self._joined and answer.base[1] > self._base[1]:
            row = self._record
            for table in (self._table, *self._tables.values()):
                table[:, WRITTEN:] = answer.table[:, WRITTEN:]
            self._own_row[0] = row._replace(written=row.written + 1, began=row.used, updates=0).words()
        take_newer(self._tables[answer.shard], answer.table)
        take_newer(self._table, answer.table, same_shard=False)
        self._base = answer.base

    @property
    def _own_row(self) -> Table:
        """Counts of this learner, as a view of one row of the table of learners."""
        return self._table[self.learner.number :][:1]

    @property
    def _record(self) -> LearnerRow:
        return LearnerRow.of(self._own_row[0].tolist())

    def _settle(self, row: LearnerRow) -> None:
        """Replace this learner's counts, and send them to each server; later requests contain them too."""
        counts = tuple(self.learner.carried.counts())
        self._own_row[0] = row._replace(written=row.written + 1, counts=counts).words()
        for server in range(self.settings.servers):
            self.lines.post(ShardFrame(ROW, self.sharding.first_of(server), base=self._base, table=self._own_row))

    def _totals(self) -> tuple[int, int]:
        """Return the last known environment steps and updates of all learners together."""
        rows = [LearnerRow.of(row) for row in self._table.tolist()]
        steps, made = self._base
        return steps + sum(row.used - row.began for row in rows), made + sum(row.updates for row in rows)
