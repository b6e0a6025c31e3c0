"""A shard: a part of the central weights with its optimizer state, which a parameter server keeps in mode async.

A learner sends a shard its gradient, and gets new weights back; ``served.py`` is the learner's side. This module has no
sockets; ``processes/parameter_server.py`` has them. Source: Stooke & Abbeel (2018), section 4.3, and, for a quorum,
Chen et al. (2016), "Revisiting Distributed Synchronous SGD", section 3.2.

**Lost messages.** A learner numbers its changes (`Position.first_change`), and repeats a request until it is answered.
The shard records the number of the newest change of each learner that it has processed. Lost, repeated and late
requests therefore change nothing.

**Lost machines.** A shard is empty until a learner has filled it. The server keeps it in shared memory, which survives
the process, but not the machine. If the machine fails, the learners fill the shard again. Each offers the weights that
it got last, and the shard takes those of the newest version. Every answer has all weights of the shard. An answered
change is therefore in the weights of the learner that made it, and a change without an answer is sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from actorlearn.optim.groups import GroupedOptimizer
from actorlearn.parameters.request_line import AGAIN_S
from actorlearn.parameters.shard_frames import (
    APPLIED,
    CHANGE,
    DROPPED,
    EMPTY,
    FILL,
    FLOAT32,
    FLOAT64,
    HANDLED,
    PULL_STATE,
    REPEATED,
    ROW,
    STATE,
    UNUSABLE,
    WEIGHTS,
    WRITTEN,
    ShardFrame,
    new_table,
    take_newer,
)
from actorlearn.parameters.shard_layout import HEAD_WORDS
from actorlearn.parameters.waits import Stragglers

OFFERS_S = 2 * AGAIN_S
"""Longest time, in seconds from the first offer on, for which an empty shard waits for the offers of all learners.

A server ignores the requests of a learner until the order that lists it arrives. The learner sends its request again
after AGAIN_S, and its weights may be the newest.
"""
_DROPPED_COLUMN = HANDLED + 1
Answers = dict[int, ShardFrame]
"""Frames to send, by learner."""


class StatisticsRule:
    """Update rule of the observation statistics on a parameter server: merges the moments that learners send."""

    rates = 0
    """Smallest number of learning rates that a request must have."""

    def __init__(self, weights: Tensor, combine: Callable[[Tensor, Tensor], None]) -> None:
        """Merge into ``weights``, the statistics, by ``combine(weights, moments)``."""
        self.weights, self._combine = weights, combine

    def change(self, values: Tensor, rates: Sequence[float]) -> None:
        """Merge the moments of a batch's observations, ``values``, into the statistics."""
        self._combine(self.weights, values)

    def state(self) -> tuple[list[Tensor], list[float]]:
        """Return two empty lists, because this rule has no state."""
        return [], []

    def restore(self, vectors: Sequence[Tensor], scalars: Sequence[float]) -> None:
        """Do nothing, because there is no state."""


class OptimizerRule:
    """Update rule of a part of the parameters on a parameter server: an optimizer step with a learner's gradient."""

    def __init__(self, optimizer: GroupedOptimizer[Any], weights: Tensor) -> None:
        self._optimizer, self.weights = optimizer, weights
        self.rates = 1 + max(part.group for part in optimizer.parts)

    def change(self, values: Tensor, rates: Sequence[float]) -> None:
        """Take one optimizer step with the gradient ``values``."""
        self._optimizer.step(self.weights, values, rates)

    def state(self) -> tuple[list[Tensor], list[float]]:
        """Return the vectors of the optimizer's state, which are not copied, and its scalars."""
        return split_state(self._optimizer)

    def restore(self, vectors: Sequence[Tensor], scalars: Sequence[float]) -> None:
        """Replace the optimizer's state."""
        self._optimizer.restore(join_state(self._optimizer, vectors, scalars))


UpdateRule = StatisticsRule | OptimizerRule


def split_state(optimizer: GroupedOptimizer[Any]) -> tuple[list[Tensor], list[float]]:
    """Return the vectors of an optimizer's state, and all its other numbers in the order of their names."""
    state = optimizer.state()
    others = sorted(state.keys() - set(optimizer.vectors))
    return [state[name] for name in optimizer.vectors], [x for name in others for x in state[name].flatten().tolist()]


def join_state(
    optimizer: GroupedOptimizer[Any], vectors: Sequence[Tensor], scalars: Sequence[float]
) -> dict[str, Tensor]:
    """Return the optimizer state that `split_state` has split into these vectors and scalars."""
    own, rest = optimizer.state(), list(scalars)
    state = dict(zip(optimizer.vectors, vectors, strict=True))
    for name in sorted(own.keys() - set(optimizer.vectors)):
        values, rest = rest[: own[name].numel()], rest[own[name].numel() :]
        state[name] = torch.tensor(values, dtype=torch.float64).to(own[name].dtype).reshape(own[name].shape)
    return state


class Content(NamedTuple):
    """The whole state of a shard, as it is kept in shared memory."""

    words: NDArray[np.int64]
    """Whether the shard is filled, its version, the two numbers of `ShardFrame.base`, and the flattened table."""
    scalars: NDArray[np.float64]
    """Scalars of the update rule's state."""
    vectors: list[Tensor]
    """Weights, then the vectors of the update rule's state."""


class Shard:
    """A part of the weights on a parameter server, with its optimizer state; applies the gradients of learners."""

    def __init__(self, number: int, rule: UpdateRule, learners: int, quorum: int = 0) -> None:
        """Start empty, until a learner offers weights.

        If ``quorum`` is above 0, the mean of this many gradients, computed with the same version of the weights, makes
        the next version, and later gradients of that version are dropped. If it is 0, each gradient makes a new
        version.
        """
        self._number, self._rule, self._quorum = number, rule, quorum
        self.filled = False
        self.version = 0
        """Number of gradients or moments that were applied to the weights."""
        self.made = 0
        """Number of those applied by this process."""
        self._base = (0, 0)
        """Environment steps and updates of all learners in the checkpoint from which the shard was filled."""
        self.table = new_table(learners)
        """Counts (`LearnerRow`) of all learners."""
        self._offers: dict[int, ShardFrame] = {}
        """Newest offer of each learner, while the shard is empty."""
        self._offered_s = 0.0
        """Time of the first offer."""
        self._pending: dict[int, ShardFrame] = {}
        """With a quorum: gradients that were computed with the current version, by learner."""
        self._came_s: dict[int, float] = {}
        """Time at which each of these gradients came, by learner."""
        self.stragglers = Stragglers(learners)
        """With a quorum: how often each learner's gradient came last, and how long the others waited for it."""
        self.changed = False
        """Whether the server has to write the shard's state to shared memory."""
        self.staleness: dict[int, int] = {}
        """Number of applied changes by staleness, which is the number of changes by other learners since the learner
        got the weights with which it computed its own."""

    # State ------------------------------------------------------------------------------------------------------------

    def content(self) -> Content:
        """Return the whole state of the shard; its vectors are not copied."""
        vectors, scalars = self._rule.state()
        words = np.array([self.filled, self.version, *self._base, *self.table.ravel()], np.int64)
        return Content(words, np.array(scalars, np.float64), [self._rule.weights, *vectors])

    def restore(self, content: Content) -> None:
        """Restore the state that the server kept in shared memory before it was restarted."""
        filled, version, *base = content.words[:HEAD_WORDS].tolist()
        self.filled, self.version, self._base = bool(filled), version, (base[0], base[1])
        self.table = content.words[HEAD_WORDS:].reshape(self.table.shape).copy()
        self._rule.weights.copy_(content.vectors[0])
        self._rule.restore(content.vectors[1:], content.scalars.tolist())

    # Requests ---------------------------------------------------------------------------------------------------------

    def take(self, learner: int, frame: ShardFrame, now_s: float) -> Answers:
        """Process a request of a learner; returns answers to send, by learner. Invalid requests are ignored."""
        if not self._fits(learner, frame):
            return {}
        counts_on = self.filled and frame.base[1] >= self._base[1]  # otherwise its row counts from an older checkpoint
        if counts_on and len(frame.table) == 1 and frame.table[0, WRITTEN] > self.table[learner, WRITTEN]:
            self.table[learner, WRITTEN:] = frame.table[0, WRITTEN:]
        if frame.kind == ROW:
            return {}
        if not self.filled:
            return self._offered(learner, frame, now_s)
        if frame.kind == CHANGE:
            return self._changed(learner, frame, now_s)
        return {learner: self._answer(frame)}

    def due(self, present: Collection[int], now_s: float) -> Answers:
        """Fill the shard when all learners have offered weights or OFFERS_S is over, or apply a complete quorum.

        Returns the answers. ``present`` has the learners that the supervisor lists. A learner that is not listed was
        lost, because all learners are listed once they have connected; the shard does not wait for it.
        """
        late = now_s - self._offered_s >= OFFERS_S
        if self._offers and (late or self._offers.keys() >= set(present)):
            return self._fill()
        if self._pending and len(self._pending) >= min(self._quorum, len({*present, *self._pending})):
            return self._apply_mean()
        return {}

    def _fits(self, learner: int, frame: ShardFrame) -> bool:
        size, (vectors, scalars) = self._rule.weights.numel(), self._rule.state()
        needed = {CHANGE: size, FILL: (1 + len(vectors)) * size}.get(frame.kind, 0)
        if frame.kind == FILL and (len(frame.scalars) != len(scalars) or len(frame.table) != len(self.table)):
            return False
        if frame.kind == CHANGE and len(frame.rates) < self._rule.rates:
            return False
        return learner < len(self.table) and frame.kind <= FILL and frame.values.numel() == needed

    # Filling ----------------------------------------------------------------------------------------------------------

    def _offered(self, learner: int, frame: ShardFrame, now_s: float) -> Answers:
        if frame.kind != FILL:
            return {learner: ShardFrame(EMPTY, self._number, frame.request)}
        self._offered_s = self._offered_s if self._offers else now_s
        self._offers[learner] = frame
        return {}

    def _fill(self) -> Answers:
        """Take the newest weights that learners have offered, and the newest counts of each learner."""
        best = max(self._offers.items(), key=lambda offer: (offer[1].version, offer[1].base, -offer[0]))[1]
        for offer in self._offers.values():
            take_newer(self.table, offer.table)
        size = self._rule.weights.numel()
        weights, *vectors = torch.split(best.values.float(), size)
        self._rule.weights.copy_(weights)
        self._rule.restore(vectors, best.scalars)
        self.filled, self.version, self._base, self.changed = True, best.version, best.base, True
        offers, self._offers = self._offers, {}
        return {learner: self._answer(offer) for learner, offer in offers.items()}

    # Changes ----------------------------------------------------------------------------------------------------------

    def _changed(self, learner: int, frame: ShardFrame, now_s: float) -> Answers:
        if frame.number <= self.table[learner, HANDLED]:
            return {learner: self._answer(frame, REPEATED)}
        if not torch.isfinite(torch.linalg.vector_norm(frame.values)):
            return self._pass_over(learner, frame, UNUSABLE)
        if not self._quorum:
            return self._apply({learner: frame}, frame.values)
        if frame.version < self.version:
            self.table[learner, _DROPPED_COLUMN] += 1
            return self._pass_over(learner, frame, DROPPED)
        self._pending[learner] = frame
        self._came_s.setdefault(learner, now_s)
        return {}

    def _pass_over(self, learner: int, frame: ShardFrame, outcome: int) -> Answers:
        self.table[learner, HANDLED], self.changed = frame.number, True
        return {learner: self._answer(frame, outcome)}

    def _apply_mean(self) -> Answers:
        """Apply the mean of the gradients that have come; they are added in the order of learners."""
        came = dict(sorted(self._pending.items()))
        self.stragglers.count(self._came_s)
        self._pending, self._came_s = {}, {}
        return self._apply(came, torch.stack([frame.values for frame in came.values()]).mean(0))

    def _apply(self, came: Mapping[int, ShardFrame], values: Tensor) -> Answers:
        first = next(iter(came.values()))
        self._rule.change(values, first.rates)
        before, self.version, self.changed = self.version, self.version + 1, True
        self.made += 1
        answers = {}
        for learner, frame in came.items():
            self.table[learner, HANDLED] = frame.number
            stale = max(before - frame.version, APPLIED)
            self.staleness[stale] = self.staleness.get(stale, 0) + 1
            answers[learner] = self._answer(frame, stale)
        return answers

    def _answer(self, asked: ShardFrame, outcome: int = APPLIED) -> ShardFrame:
        """Return the answer to a request, with the weights or, for PULL_STATE, with the whole state."""
        whole = asked.kind == PULL_STATE
        vectors, scalars = self._rule.state() if whole else ([], [])
        wire = FLOAT32 if whole or asked.wire == FLOAT64 else asked.wire
        return ShardFrame(
            STATE if whole else WEIGHTS,
            self._number,
            asked.request,
            asked.number,
            self.version,
            outcome,
            self._base,
            self.table,
            values=torch.cat([self._rule.weights, *vectors]) if whole else self._rule.weights,
            scalars=tuple(scalars),
            wire=wire,
        )
