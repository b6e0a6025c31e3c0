"""A shard of central weights and optimizer state, changed by learners that do not share memory.

Pure; ``processes/parameter_server.py`` has the socket. Source: Stooke & Abbeel (2018), section 4.3, and, for a quorum,
Chen et al. (2016), "Revisiting Distributed Synchronous SGD", section 3.2.

A learner sends its gradient and gets the weights back. It numbers its changes, a restarted one as before, and repeats a
request until it is answered. The shard knows the newest number that it has handled of each learner, so requests that
are lost, repeated or late change nothing.

A shard is empty until a learner has filled it. Its process keeps it in shared memory, which outlives a killed process
but not its machine. After that the learners fill it again: each offers the weights that it was given last, and those
of the newest version are taken. Every answer has all of the shard's weights, so a change that was answered is in the
weights of the learner that made it, or in newer ones; one that was not is sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from actorlearn.optim.groups import GroupedOptimizer
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
    STATE,
    TELL,
    TOLD,
    UNUSABLE,
    WEIGHTS,
    Frame,
    hear,
    new_table,
)
from actorlearn.parameters.shard_layout import HEAD_WORDS
from actorlearn.parameters.waits import Stragglers

OFFERS_S = 10.0
"""Longest time in which an empty shard waits for the offers of all learners, from the first one on."""
_DROPPED_COLUMN = HANDLED + 1
Answers = dict[int, Frame]
"""Frames to be sent, by learner."""


class Rule(Protocol):
    """Way in which a shard's numbers are changed, with the state of that."""

    weights: Tensor
    """The shard's own numbers [size]."""
    rates: int
    """Least number of learning rates that a change comes with."""

    def change(self, values: Tensor, rates: Sequence[float]) -> None:
        """Change the weights by what a learner has sent."""

    def state(self) -> tuple[list[Tensor], list[float]]:
        """Return vectors as long as the weights, not copied, and further numbers."""

    def restore(self, vectors: Sequence[Tensor], scalars: Sequence[float]) -> None:
        """Copy a state in."""


class OptimizerRule:
    """An optimizer, which takes gradients."""

    def __init__(self, optimizer: GroupedOptimizer[Any], weights: Tensor) -> None:
        """Change these weights, which the optimizer is for."""
        self._optimizer, self.weights = optimizer, weights
        self.rates = 1 + max(part.group for part in optimizer.parts)

    def change(self, values: Tensor, rates: Sequence[float]) -> None:
        """Take one step."""
        self._optimizer.step(self.weights, values, rates)

    def state(self) -> tuple[list[Tensor], list[float]]:
        """Return the optimizer's vectors and other numbers."""
        return split_state(self._optimizer)

    def restore(self, vectors: Sequence[Tensor], scalars: Sequence[float]) -> None:
        """Copy the optimizer's state in."""
        self._optimizer.restore(join_state(self._optimizer, vectors, scalars))


class StatisticsRule:
    """Statistics of observations, which take moments."""

    rates = 0

    def __init__(self, weights: Tensor, combine: Callable[[Tensor, Tensor], None]) -> None:
        """Change these statistics by ``combine(statistics, moments)``."""
        self.weights, self._combine = weights, combine

    def change(self, values: Tensor, rates: Sequence[float]) -> None:
        """Merge the moments."""
        self._combine(self.weights, values)

    def state(self) -> tuple[list[Tensor], list[float]]:
        """Return nothing."""
        return [], []

    def restore(self, vectors: Sequence[Tensor], scalars: Sequence[float]) -> None:
        """Do nothing."""


def split_state(optimizer: GroupedOptimizer[Any]) -> tuple[list[Tensor], list[float]]:
    """Return an optimizer's vectors, and all other numbers of its state, by the order of their names."""
    state = optimizer.state()
    others = sorted(state.keys() - set(optimizer.vectors))
    return [state[name] for name in optimizer.vectors], [x for name in others for x in state[name].flatten().tolist()]


def join_state(
    optimizer: GroupedOptimizer[Any], vectors: Sequence[Tensor], scalars: Sequence[float]
) -> dict[str, Tensor]:
    """Return the state that ``split_state`` has taken apart."""
    own, rest = optimizer.state(), list(scalars)
    state = dict(zip(optimizer.vectors, vectors, strict=True))
    for name in sorted(own.keys() - set(optimizer.vectors)):
        values, rest = rest[: own[name].numel()], rest[own[name].numel() :]
        state[name] = torch.tensor(values, dtype=torch.float64).to(own[name].dtype).reshape(own[name].shape)
    return state


class Content(NamedTuple):
    """Everything that a shard must not forget."""

    words: NDArray[np.int64]
    """Whether it is filled, its version, its base's two numbers, and the table, flat."""
    scalars: NDArray[np.float64]
    vectors: list[Tensor]
    """Weights, and then the rule's vectors."""


class Shard:
    """One shard."""

    def __init__(self, number: int, rule: Rule, learners: int, quorum: int = 0) -> None:
        """Begin empty.

        ``quorum``: gradients of one version whose mean makes the next; later ones of that version are dropped. 0 = each
        gradient makes a version, whichever it was computed for.
        """
        self._number, self._rule, self._quorum = number, rule, quorum
        self.filled = False
        self.version = 0
        """Number of times that it was changed."""
        self.made = 0
        """Number of those by this process."""
        self._base = (0, 0)
        self.table = new_table(learners)
        self._offers: dict[int, Frame] = {}
        """Newest offer of each learner, while the shard is empty."""
        self._offered_s = 0.0
        """Time of the first of them."""
        self._pending: dict[int, Frame] = {}
        """Gradients of the present version, by learner."""
        self._came_s: dict[int, float] = {}
        """Times at which they came."""
        self.stragglers = Stragglers(learners)
        """Learners whose gradients completed versions, and the time for which the others of the quorum waited."""
        self.changed = False
        """Whether there is state that its process has not kept yet."""
        self.staleness: dict[int, int] = {}
        """Number of applied changes, by staleness: changes by others since their learner was given the weights."""

    # State ------------------------------------------------------------------------------------------------------------

    def content(self) -> Content:
        """Return all state, vectors not copied."""
        vectors, scalars = self._rule.state()
        words = np.array([self.filled, self.version, *self._base, *self.table.ravel()], np.int64)
        return Content(words, np.array(scalars, np.float64), [self._rule.weights, *vectors])

    def restore(self, content: Content) -> None:
        """Take the state of an earlier process."""
        filled, version, *base = content.words[:HEAD_WORDS].tolist()
        self.filled, self.version, self._base = bool(filled), version, (base[0], base[1])
        self.table = content.words[HEAD_WORDS:].reshape(self.table.shape).copy()
        self._rule.weights.copy_(content.vectors[0])
        self._rule.restore(content.vectors[1:], content.scalars.tolist())

    # Requests ---------------------------------------------------------------------------------------------------------

    def take(self, learner: int, frame: Frame, now_s: float) -> Answers:
        """Take a request; returns answers. A request that does not fit the shard is passed over."""
        if not self._fits(learner, frame):
            return {}
        if len(frame.table) == 1 and frame.table[0, TOLD] > self.table[learner, TOLD]:
            self.table[learner, TOLD:] = frame.table[0, TOLD:]
        if frame.kind == TELL:
            return {}
        if not self.filled:
            return self._offered(learner, frame, now_s)
        if frame.kind == CHANGE:
            return self._changed(learner, frame, now_s)
        return {learner: self._answer(frame)}

    def due(self, present: Collection[int], now_s: float) -> Answers:
        """Return answers that have become due: to offers, and to gradients of which enough have come.

        ``present``: learners that the newest order lists. An order lists them once all of a run have connected, so one
        that it does not list was lost, perhaps before it sent anything, and is not waited for.
        """
        late = now_s - self._offered_s >= OFFERS_S
        if self._offers and (late or self._offers.keys() >= set(present)):
            return self._fill()
        if self._pending and len(self._pending) >= min(self._quorum, len({*present, *self._pending})):
            return self._apply_mean()
        return {}

    def _fits(self, learner: int, frame: Frame) -> bool:
        size, (vectors, scalars) = self._rule.weights.numel(), self._rule.state()
        needed = {CHANGE: size, FILL: (1 + len(vectors)) * size}.get(frame.kind, 0)
        if frame.kind == FILL and (len(frame.scalars) != len(scalars) or len(frame.table) != len(self.table)):
            return False
        if frame.kind == CHANGE and len(frame.rates) < self._rule.rates:
            return False
        return learner < len(self.table) and frame.kind <= FILL and frame.values.numel() == needed

    # Filling ----------------------------------------------------------------------------------------------------------

    def _offered(self, learner: int, frame: Frame, now_s: float) -> Answers:
        if frame.kind != FILL:
            return {learner: Frame(EMPTY, self._number, frame.request)}
        self._offered_s = self._offered_s if self._offers else now_s
        self._offers[learner] = frame
        return {}

    def _fill(self) -> Answers:
        """Take the newest weights that were offered, and all that is known of the learners."""
        best = max(self._offers.items(), key=lambda offer: (offer[1].version, offer[1].base, -offer[0]))[1]
        for offer in self._offers.values():
            hear(self.table, offer.table)
        size = self._rule.weights.numel()
        weights, *vectors = torch.split(best.values.float(), size)
        self._rule.weights.copy_(weights)
        self._rule.restore(vectors, best.scalars)
        self.filled, self.version, self._base, self.changed = True, best.version, best.base, True
        offers, self._offers = self._offers, {}
        return {learner: self._answer(offer) for learner, offer in offers.items()}

    # Changes ----------------------------------------------------------------------------------------------------------

    def _changed(self, learner: int, frame: Frame, now_s: float) -> Answers:
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

    def _pass_over(self, learner: int, frame: Frame, outcome: int) -> Answers:
        self.table[learner, HANDLED], self.changed = frame.number, True
        return {learner: self._answer(frame, outcome)}

    def _apply_mean(self) -> Answers:
        """Apply the mean of the gradients that have come, in the order of learners."""
        came = dict(sorted(self._pending.items()))
        self.stragglers.count(self._came_s)
        self._pending, self._came_s = {}, {}
        return self._apply(came, torch.stack([frame.values for frame in came.values()]).mean(0))

    def _apply(self, came: Mapping[int, Frame], values: Tensor) -> Answers:
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

    def _answer(self, asked: Frame, outcome: int = APPLIED) -> Frame:
        whole = asked.kind == PULL_STATE
        vectors, scalars = self._rule.state() if whole else ([], [])
        wire = FLOAT32 if whole or asked.wire == FLOAT64 else asked.wire
        return Frame(
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
