"""Learners in lock-step: the same weights everywhere, moved by the mean of all gradients.

Reads gradients; writes the flat weights and the optimizer's state, which are identical in every learner. Source: Stooke
& Abbeel (2018), section 4.2; as in their code gradients are summed and divided by the number of learners, and clipped
after that.

What is done together is done by all who live, or by none, so those who outlive another have the same weights, and know
of each learner which minibatches are in them (``parameters/consumed.py``). They go on where they stood; one that comes
back takes their weights and goes on, too, where it stood in these.

Learners are on one machine, and everything goes through shared memory: nothing listens, so nobody else can take part.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from actorlearn.failpoints import hit
from actorlearn.memory.shared import Segment
from actorlearn.parameters.allgather import AllGather
from actorlearn.parameters.alone import Alone
from actorlearn.parameters.consumed import Consumed
from actorlearn.parameters.interface import Agreed, Disagreement, Exchange, Joined, Learner, Position, Stepped
from actorlearn.parameters.rendezvous import open_rendezvous
from actorlearn.parameters.settings import AloneExchangeSettings, SyncExchangeSettings
from actorlearn.parameters.waits import Waits

ASK_EVERY = 8
"""Most steps within a batch between two questions whether to break it off; in value learning there may be thousands.

By count and not by time, because all must ask together; how many, follows from the time the slowest took until now.
"""
ASK_S = 1.0
"""Time between two questions; where a step takes longer, as one of 2,048 transitions does on two cores, each asks."""
SUM_WHOLE = 2
"""Most learners of whom each sums whole gradients; of more each sums a part, and shows the others what came of it.

That takes a second meeting. The mean by such rows, in a trial on two cores that added in place, in milliseconds by
parameters: two learners 0.5 M 0.46 (parts: 0.59), 4 M 6.9 (6.9); four learners 0.5 M 2.2 (1.7), 4 M 12.7 (8.6). Gloo
over TCP took 1.5 and 16.7, 9.0 and 34.
"""
HASH_EVERY = 100
"""Batches between two comparisons of the weights' hash."""


class _Arrival(NamedTuple):
    """Numbers that a learner says on joining, before its `Carried.counts`."""

    env_steps: int
    """Environment steps of all learners in its weights."""
    updates: int
    """Updates in its weights."""
    changes: int
    """Changes of its weights since the last whole update."""
    number: int
    """Number of the learner, for good."""
    rollout: int
    """Rollout of its `Position`."""
    used: int
    """Environment steps of its `Position`."""


class _NextBatch(NamedTuple):
    """Numbers that a learner says of the batch it is about to learn."""

    env_steps: int
    """Environment steps in the batch."""
    optimizer_steps: int
    """Optimizer steps that the batch has left."""
    draining: int
    """1 where the learner is leaving and learns no batch; else 0."""
    busy_ns: int
    """Time it worked since the batch before, without waiting."""
    fingerprint: int
    """Hash of its weights; 0 where these are not compared."""
    rollout: int
    """Rollout of its `Position`."""
    used: int
    """Environment steps of its `Position`."""


class Sync(Exchange):
    """The exchange of one of several learners that take every step together."""

    def __init__(self, settings: SyncExchangeSettings, learner: Learner, hash_every: int = HASH_EVERY) -> None:
        """Take the place at the rendezvous; waits for nobody yet."""
        self.settings, self.learner, self.hash_every = settings, learner, hash_every
        self.weights = learner.weights
        self.own = Alone(
            AloneExchangeSettings(), replace(learner, consumed=learner.consumed or Consumed(settings.learners))
        )
        gradients = Segment.open(settings.gradients.file)
        self.rendezvous = open_rendezvous(settings.rendezvous, settings.rank, learner.alive)
        self._gathering = AllGather(gradients, self.rendezvous)
        self._waits = Waits(settings.learners)
        self._agreements = self._calls = 0
        self._ask_after, self._asked_ns = 1, time.monotonic_ns()
        self._numbers: list[int] = []
        """Numbers of the learners by rank, as said on joining."""
        self._first: list[int] = []
        """Step of the batch at which each learner, by rank, makes its first."""
        self._step = 0
        self._merging: list[int] = []
        """Ranks of those whose moments of the batch are not in the statistics."""
        self._batch_steps: list[int] = []

    def state(self) -> dict[str, Tensor]:
        """Return the optimizer's state."""
        return self.own.state()

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Copy a checkpoint's state in."""
        self.own.restore(state)

    def join(self, env_steps: int, updates: int) -> Joined:
        """Wait for all, then take everything from the learner whose weights were changed most often.

        Learners that outlived a lost peer know more than the newest checkpoint does.
        """
        counts, consumed = self.learner.carried.counts(), self.own.consumed
        arrival = _Arrival(env_steps, updates, consumed.changes, self.learner.number, *self.learner.position())
        said = self.rendezvous.meet([*arrival, *counts])
        arrivals = [_Arrival._make(numbers) for numbers in said[:, : len(arrival)].tolist()]
        best = max(range(len(said)), key=lambda rank: (arrivals[rank].updates, arrivals[rank].changes, -rank))
        own = [self.weights, consumed.table, *self.learner.carried.tensors, *self.state().values()]
        taken = [self._gather(tensor)[best].clone() for tensor in own]
        for tensor, theirs in zip(own, taken, strict=True):  # all or nothing, should one be lost meanwhile
            tensor.copy_(theirs)
        hit("allreduce.adopted")
        self._numbers = [each.number for each in arrivals]
        for each in arrivals:
            if consumed.position(each.number) is None:
                consumed.begin(each.number, Position(each.rollout, each.used))
        self.learner.carried.adopt(said[:, len(arrival) : len(arrival) + len(counts)], best)
        self._waits = Waits(self.settings.learners)
        self.own.join(arrivals[best].env_steps, arrivals[best].updates)
        return Joined(self.own.env_steps, self.own.updates, consumed.position(self.learner.number))

    def agree(self, env_steps: int, optimizer_steps: int, draining: bool = False) -> Agreed:
        """Wait for all learners; hear how much each has left to do; see now and then that they are the same."""
        checked = self._agreements % self.hash_every == 0
        self._agreements += 1
        fingerprint = self._fingerprint() if checked else 0
        position = self.learner.position()
        with self._waits.waiting():
            said = self.rendezvous.meet(
                _NextBatch(env_steps, optimizer_steps, draining, self._waits.busy_ns, fingerprint, *position)
            )
        batches = [_NextBatch._make(numbers) for numbers in said[:, : len(_NextBatch._fields)].tolist()]
        hit("allreduce.agreed")
        self._waits.count(np.array([batch.busy_ns for batch in batches]))
        leaving = any(batch.draining for batch in batches)
        self._compare("hash of the weights", [batch.fingerprint for batch in batches])
        if not leaving:
            self._begin(batches)
        return self.own.agree(sum(batch.env_steps for batch in batches), optimizer_steps, leaving)

    def _begin(self, batches: Sequence[_NextBatch]) -> None:
        """Work out at which step each learner comes in, and whose moments are still to come."""
        consumed = self.own.consumed
        self._merging = []
        for rank, (number, batch) in enumerate(zip(self._numbers, batches, strict=True)):
            consumed.begin(number, Position(batch.rollout, batch.used))
            if not consumed.merged(number, batch.rollout):
                self._merging.append(rank)
        most = max(batch.optimizer_steps for batch in batches)
        self._first, self._step = [most - batch.optimizer_steps for batch in batches], 0
        self._batch_steps = [batch.env_steps for batch in batches]

    @property
    def idle(self) -> int:
        """Steps that others make first, who have more left to do."""
        return self._first[self.settings.rank]

    @property
    def taking_part(self) -> list[int]:
        """Ranks of those whose gradients are averaged in the next step."""
        return [rank for rank, first in enumerate(self._first) if first <= self._step]

    def merge(self, moments: Tensor, combine: Callable[[Tensor, Tensor], None]) -> None:
        """Combine the moments with the statistics, in the order of ranks, of all whose are not in them."""
        if not self._merging:
            return
        shown = self._gather(moments)
        for rank in self._merging:
            combine(self.own.statistics, shown[rank].to(moments.device))
            self.own.consumed.merge(self._numbers[rank])
        hit("allreduce.merged")

    def step(self, gradients: Tensor, learning_rate: float, usable: bool = True) -> Stepped:
        """Average the gradients, clip, step. One learner's unusable gradient makes the mean unusable for all."""
        if not usable:
            gradients.fill_(torch.nan)
        among = self.taking_part
        self._average(gradients, among)
        stepped = self.own.apply(gradients, learning_rate)
        hit("allreduce.stepped")
        self.own.consumed.step(self._numbers[rank] for rank in among)
        self._step += 1
        return stepped

    def ending(self, asked: bool) -> bool:
        """Whether any learner is to end, which all ask one another after as many calls as ``ask_after`` says."""
        self._calls += 1
        if self._calls < self._ask_after:
            return False
        with self._waits.waiting():
            said = self.rendezvous.meet([asked, time.monotonic_ns() - self._asked_ns])
        self._ask_after = ask_after(self._calls, said[:, 1].max() / 1e9)
        self._calls, self._asked_ns = 0, time.monotonic_ns()
        return bool(said[:, 0].any())

    def settle(self) -> None:
        """Count the batches of all, which are in the weights now."""
        for number, env_steps in zip(self._numbers, self._batch_steps, strict=True):
            self.own.consumed.settle(number, env_steps)

    def metrics(self) -> dict[str, float]:
        """Return who made the others wait, and how long this learner waited."""
        return self._waits.metrics()

    def close(self) -> None:
        """Leave; learners that still wait for this one get PeerLost."""
        self.rendezvous.close()

    def _average(self, gradients: Tensor, among: Sequence[int]) -> None:
        """Make the flat gradients the mean of these learners', summed by rank: the same bits everywhere."""
        learners, rank = self.settings.learners, self.settings.rank
        gathered = self._gather(gradients)
        shown = [gathered[other] for other in among]
        if learners <= SUM_WHOLE:
            gradients.copy_(reduce(torch.add, shown)).mul_(1.0 / len(among))
            return
        parts = gradients.tensor_split(learners)
        summed = reduce(torch.add, [whole.tensor_split(learners)[rank] for whole in shown])
        rows = self._rows(parts[rank].copy_(summed).mul_(1.0 / len(among)))
        for part, row in zip(parts, rows, strict=True):
            part.copy_(torch.from_numpy(row[: part.numel()]))

    def _gather(self, tensor: Tensor) -> list[Tensor]:
        """Tensors that all learners show, by rank: on the CPU, in this one's shape, good until the next call."""
        return [torch.from_numpy(row[: tensor.numel()]).view(tensor.shape) for row in self._rows(tensor)]

    def _rows(self, tensor: Tensor) -> NDArray[Any]:
        own = tensor.detach().cpu().contiguous().view(-1).numpy()
        with self._waits.waiting():
            return self._gathering.gather(own)

    def _fingerprint(self) -> int:
        weights = self.weights.detach().cpu().numpy()
        return int.from_bytes(hashlib.blake2b(weights.tobytes(), digest_size=8).digest(), "big", signed=True)

    def _compare(self, what: str, values: Sequence[int]) -> None:
        if len(set(values)) > 1:
            all_values = ", ".join(f"learner {rank}: {value}" for rank, value in enumerate(values))
            raise Disagreement(f"after update {self.own.updates} the learners differ in {what}: {all_values}")


def ask_after(calls: int, seconds: float) -> int:
    """Calls until the next question, when the slowest learner took so many seconds for the last so many."""
    return max(1, min(ASK_EVERY, int(ASK_S * calls / seconds)))
