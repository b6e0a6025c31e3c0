"""Mode async on one machine: each learner applies its gradient to the newest weights in the parameter store.

The store (``store.py``) has the weights and the optimizer state in shared memory, divided into chunks. A learner clips
its gradient. Then, chunk by chunk, it copies weights and optimizer state from the store to its device, takes the
optimizer step there, and writes them back. Source: Stooke & Abbeel (2018), section 4.3. As in the code of the paper,
each learner has its own count of Adam's steps.

With several local steps (appendix A of the paper), the learner takes them alone, and then merges them into the store.
They are counted across batches, so that A2C, whose batch is one step, can take several. Local steps that are not in the
store yet are lost if the learner is killed.

Each chunk records the number of the newest change of each learner (`Position.first_change`), and a restarted learner
skips changes that a chunk already contains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from actorlearn.memory.shared import Segment
from actorlearn.optim.adam import MultiStepAdam
from actorlearn.optim.groups import GroupedOptimizer, OptimizerT, clip, groups_within, make_groups
from actorlearn.optim.interface import copy_state
from actorlearn.optim.interface import make as make_optimizer
from actorlearn.optim.specs import AdamSettings, OptimizerSettings
from actorlearn.parameters.consumed import BEGINNING, Position
from actorlearn.parameters.interface import Agreed, Exchange, Joined, Learner, Stepped
from actorlearn.parameters.settings import AsyncExchangeSettings
from actorlearn.parameters.store import LearnerRecord, SharedStore


class Async(Exchange):
    """Mode async on one machine: applies a learner's gradients to weights that all learners share in shared memory."""

    def __init__(self, settings: AsyncExchangeSettings, learner: Learner) -> None:
        """Open the parameter store (``store.py``), and make an optimizer for each chunk of its weights."""
        self.learner, weights, optimizer = learner, learner.weights, learner.optimizer
        self.consumed = learner.consumed
        self.weights, self.local_steps = weights, settings.local_steps
        self.groups = make_groups(optimizer, learner.networks, learner.gradients.numel())
        segment = Segment.open(settings.store.file)
        self.store = SharedStore(segment, learner.number, learner.gradients.numel(), learner.alive)
        self.spans = {chunk: span for chunk, span in enumerate(self.store.spans) if span.start < span.stop}
        self.statistics = len(self.store.spans) - 1
        chunks = [chunk for chunk in self.spans if chunk != self.statistics]
        first = learner.number % len(chunks)
        self.chunks = chunks[first:] + chunks[:first]  # learners that start together begin at different chunks
        self.local: dict[int, GroupedOptimizer[MultiStepAdam]] = {}
        if settings.local_steps > 1:
            if not isinstance(optimizer, AdamSettings):
                raise ValueError(
                    f"exchange.local_steps: {settings.local_steps} needs optimizer.name: adam, not {optimizer.name}; "
                    "several local steps are defined for Adam only"
                )
            self.local = {chunk: self._optimizer_of(chunk, _local_adam) for chunk in chunks}
        self.optimizers: Mapping[int, GroupedOptimizer[Any]] = self.local or {
            chunk: self._optimizer_of(chunk, make_optimizer) for chunk in chunks
        }
        self.vectors = optimizer.state_vectors
        self.pending = 0
        """Number of local steps that are not in the store."""
        self._batch_steps = 0
        """Number of environment steps in the present batch."""
        self._rollout = self._number = 0
        """Number of the present rollout, and of the next optimizer step (`Position.first_change`)."""
        self._merged = False
        """Whether local steps were merged into the store since this learner last wrote its record."""
        self._applied = [-1] * len(self.store.spans)
        """Number of this learner's newest optimizer step in each chunk."""
        self._seen = [0] * len(self.store.spans)
        """Version of each chunk when this learner last copied or wrote it."""
        self._staleness: list[int] = []
        """For each optimizer step on a chunk since the last report: how many versions the chunk had got since this
        learner last copied or wrote it."""

    def _optimizer_of(
        self, chunk: int, make: Callable[[OptimizerSettings, Tensor], OptimizerT]
    ) -> GroupedOptimizer[OptimizerT]:
        span = self.spans[chunk]
        return GroupedOptimizer(make, groups_within(self.groups, span), self.weights[span])

    def state(self) -> dict[str, Tensor]:
        """Return the optimizer's state of all chunks as this learner has them, including its local steps."""
        parts = [optimizer.state() for optimizer in self.optimizers.values()]
        return {
            name: torch.cat([part[name] for part in parts]) if name in self.vectors else tensor
            for name, tensor in parts[0].items()
        }

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restore the optimizer's state; `join` writes it to the store if the store is empty."""
        copy_state(state, self.state())  # checks the shapes, because the slices below would hide an error
        for chunk, optimizer in self.optimizers.items():
            span = self.spans[chunk]
            optimizer.restore({name: state[name][span] if name in self.vectors else state[name] for name in state})

    def join(self, env_steps: int, updates: int, position: Position = BEGINNING) -> Joined:
        """Copy the store's weights, or fill it if it is empty; a restarted learner continues from its counts there."""
        with self.store.locked([0]):
            if not self.store.filled:
                for chunk in self.spans:
                    self._give(chunk)
                self.store.fill(env_steps, updates)
        self.pull()
        self.consumed.take_over(self.store.env_steps)
        if self.store.record is None:
            steps = self._steps_of(self.chunks[0])
            new = LearnerRecord(
                rollouts_learned=position.rollout,
                used=position.used,
                in_store=position.used,
                updates=0,
                began=position.used,
                optimizer_steps=steps,
                steps_before=steps,
            )
            self._settle(new)
        else:
            self._resume(self._record, position)
        stored = Position(self._record.rollouts_learned, self._record.used)
        return Joined(self.store.env_steps, self.store.updates, stored)

    def _resume(self, record: LearnerRecord, position: Position) -> None:
        """Set this learner's counts in the store back to the beginning of the rollout that it repeats after a restart.

        Local steps that were not merged into the store are lost, and their environment steps no longer count as used.
        Adam's step count includes the lost steps.
        """
        newest = max(self._applied[chunk] for chunk in self.chunks)
        begun = newest >= position.first_change  # if so, no local steps are lost: a change merges all earlier ones
        used = position.used if begun else min(position.used, record.in_store)
        if record.rollouts_learned > position.rollout:  # `settle` was called already, and will be called again
            record = record._replace(optimizer_steps=record.steps_before, updates=record.updates - 1)
        for chunk in self.optimizers:
            self._count_steps(chunk, record.optimizer_steps - self._steps_of(chunk))
        self.learner.carried.adopt(np.array([record.counts], np.int64), 0)
        self._settle(record._replace(rollouts_learned=position.rollout, used=used))

    def agree(
        self, env_steps: int, optimizer_steps: int, position: Position = BEGINNING, draining: bool = False
    ) -> Agreed:
        """Return the environment steps and updates of all learners, including this batch; does not wait for the others.

        If ``draining``, first merge local steps into the store. Then copy the store's weights, which have learned from
        all counted steps, except local steps that other learners have not merged yet. So only the learner that leaves
        last has all (`shared_changes`). Changes that others make at the same time may be in the weights too.
        """
        if draining and self.pending:
            self._merge_local_steps()
            self._settle(self._record)
        self._batch_steps, updates = (0, 0) if draining else (env_steps, 1)
        self.consumed.begin(self.learner.number, position)
        self._rollout = position.rollout
        self._number = max(self._number, position.first_change)
        agreed = Agreed(self.store.env_steps + self._batch_steps, self.store.updates + updates, draining)
        if draining:
            self.pull()
        return agreed

    def merge(self, moments: Tensor, combine: Callable[[Tensor, Tensor], None]) -> None:
        """Merge the moments of a batch's observations into the statistics in the store, which it locks for this."""
        with self.store.locked([self.statistics]) as chunk:
            self._take(chunk)
            if self._number > self._applied[chunk]:
                combine(self.weights[self.spans[chunk]], moments)
                self._give(chunk, self._number)
        self._number += 1

    def step(self, gradients: Tensor, learning_rates: Sequence[float], usable: bool = True) -> Stepped:
        """Clip the gradient, and take an optimizer step on the weights in the store, chunk by chunk.

        With several `local_steps`, take the step on this learner's weights, and merge them after this many steps.
        """
        norm = float(clip(gradients, self.groups))
        taken = usable and isfinite(norm)
        if taken:

            def step(chunk: int) -> None:
                span = self.spans[chunk]
                if self._number > self._applied[chunk]:
                    self.optimizers[chunk].step(self.weights[span], gradients[span], learning_rates)
                else:  # the chunk contains this step, which was taken before this learner was restarted
                    self._count_steps(chunk, 1)

            if self.local_steps == 1:
                self._update(step)
            else:
                for chunk in self.chunks:
                    step(chunk)
                self.pending += 1
                if self.pending == self.local_steps:
                    self._merge_local_steps()
        self._number += 1
        return Stepped(norm, taken)

    def settle(self) -> None:
        """Count the batch as used, unless it was counted before a restart."""
        self.consumed.settle(self.learner.number, self._batch_steps)
        record = self._record
        if record.rollouts_learned <= self._rollout:
            record = record._replace(rollouts_learned=self._rollout + 1, used=record.used + self._batch_steps)
            self._settle(record._replace(updates=record.updates + 1, steps_before=record.optimizer_steps))

    @property
    def _record(self) -> LearnerRecord:
        """Counts of this learner in the store, which exist once it has joined."""
        record = self.store.record
        assert record is not None
        return record

    def _settle(self, record: LearnerRecord) -> None:
        """Write this learner's counts to the store; updates `in_store`, `optimizer_steps` and `counts`."""
        in_store = record.used if self._merged or not self.pending else record.in_store
        steps, counts = self._steps_of(self.chunks[0]), tuple(self.learner.carried.counts())
        self.store.settle(record._replace(in_store=in_store, optimizer_steps=steps, counts=counts))
        self._merged = False

    def learned(self, end_steps: int) -> int:
        """Return the number of environment steps that the store's weights have learned from."""
        return self.store.env_steps

    def shared_changes(self) -> int:
        """Return the sum of the versions of all chunks that this learner has copied or written."""
        return sum(self._seen)

    def pull(self) -> bool:
        """Copy chunks that others have changed, and repeat local steps on them; returns whether there were any."""
        waiting = [chunk for chunk in self.spans if self.store.version(chunk) != self._seen[chunk]]
        changed = bool(waiting)
        while waiting:
            with self.store.locked(waiting) as chunk:
                self._take(chunk)
            if self.pending and chunk in self.local:
                weights = self.weights[self.spans[chunk]]
                for span, _, optimizer in self.local[chunk].parts:
                    optimizer.repeat(weights[span])
            waiting.remove(chunk)
        return changed

    def metrics(self) -> dict[str, float]:
        """Return mean and largest staleness of chunks, and the seconds waited for locks, since the last call."""
        stale, waited_s = self._staleness, self.store.waited_s
        self._staleness, self.store.waited_s = [], 0.0
        mean = sum(stale) / max(len(stale), 1)
        return {"staleness_mean": mean, "staleness_max": max(stale, default=0), "lock_wait_s": waited_s}

    def close(self) -> None:
        """Leave the other learners; the weights in the store stay as they are."""
        self.store.close()

    def _merge_local_steps(self) -> None:
        def merge(chunk: int) -> None:
            weights = self.weights[self.spans[chunk]]
            for span, _, optimizer in self.local[chunk].parts:
                optimizer.merge(weights[span])

        self._update(merge)
        self.pending, self._merged = 0, True

    def _update(self, rule: Callable[[int], None]) -> None:
        """Copy each chunk from the store, call ``rule(chunk)``, and write the chunk back; free chunks come first."""
        waiting = list(self.chunks)
        while waiting:
            with self.store.locked(waiting) as chunk:
                self._staleness.append(self.store.version(chunk) - self._seen[chunk])
                self._take(chunk)
                rule(chunk)
                if self._number > self._applied[chunk]:
                    self._give(chunk, self._number)
            waiting.remove(chunk)

    def _take(self, chunk: int) -> None:
        """Copy a chunk's weights and optimizer state from the store."""
        for own, central in self._rows(chunk, self.store.current(chunk)):
            own.copy_(central)
        self._seen[chunk], self._applied[chunk] = self.store.version(chunk), self.store.applied(chunk)

    def _give(self, chunk: int, number: int = -1) -> None:
        """Write a chunk's weights and optimizer state to the store, and the number of its change; -1 = none."""
        for own, central in self._rows(chunk, self.store.spare(chunk)):
            central.copy_(own)
        self._seen[chunk] = self.store.commit(chunk, number)
        self._applied[chunk] = max(self._applied[chunk], number)

    def _steps_of(self, chunk: int) -> int:
        """Return Adam's step count of this learner; 0 for an optimizer without one."""
        return int(self.optimizers[chunk].parts[0].optimizer.state().get("steps", 0))

    def _count_steps(self, chunk: int, steps: int) -> None:
        """Add the steps that this learner took before a restart to Adam's step count."""
        for part in self.optimizers[chunk].parts:
            if "steps" in (state := part.optimizer.state()):
                state["steps"] += steps

    def _rows(self, chunk: int, values: NDArray[np.float32]) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield weights and optimizer state of a chunk as pairs of vectors: the learner's own, and that in ``values``.

        ``values`` [1 + vectors, size] is the chunk's array in the store.
        """
        central = torch.from_numpy(values)
        yield self.weights[self.spans[chunk]], central[0]
        if chunk != self.statistics:
            for span, _, optimizer in self.optimizers[chunk].parts:
                state = optimizer.state()
                yield from ((state[name], row[span]) for name, row in zip(self.vectors, central[1:], strict=True))


def _local_adam(settings: OptimizerSettings, parameters: Tensor) -> MultiStepAdam:
    assert isinstance(settings, AdamSettings)
    return MultiStepAdam(settings, parameters)
