"""Mode async on one machine: each learner applies its gradient to the newest weights in the parameter store.

Reads gradients and the store; writes the store, the flat weights and the optimizer's state. Each chunk of these equals
the store's at the moment of the learner's change. Source: Stooke & Abbeel (2018), section 4.3 and, for several local
steps, appendix A.

The learner clips its gradient. It then copies, chunk by chunk, the store's weights and optimizer state to its device,
updates them there, and writes them back. Each learner has its own count of Adam's steps, as in the code of the paper.
Local steps are counted across batches, so that A2C, whose batch is one step, can take several. Local steps that are not
yet in the store are lost when the learner is killed.

A change of the store is one optimizer step, or one merge of statistics. Changes are numbered by rollout and then in
order, and minibatches depend on the seed and the rollout only. So a restarted learner that repeats its rollout makes
the same changes with the same numbers. Each chunk records this learner's newest change in it, and a change that a chunk
contains already is skipped there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
from actorlearn.parameters.consumed import BEGINNING, Consumed, Position
from actorlearn.parameters.interface import Agreed, Exchange, Joined, Learner, Stepped
from actorlearn.parameters.settings import AsyncExchangeSettings
from actorlearn.parameters.store import LearnerRecord, SharedStore


class Async(Exchange):
    """The exchange of one of several learners that share a parameter store."""

    def __init__(self, settings: AsyncExchangeSettings, learner: Learner) -> None:
        """Bind to the store, with an optimizer for each of its chunks."""
        self.learner, weights, optimizer = learner, learner.weights, learner.optimizer
        self.consumed = learner.consumed or Consumed(learner.number + 1)
        self.weights, self.local_steps = weights, settings.local_steps
        self.groups = make_groups(optimizer, learner.networks, learner.gradients.numel())
        self.store = SharedStore(
            Segment.open(settings.store.file), settings.rank, learner.gradients.numel(), learner.alive
        )
        self.spans = {chunk: span for chunk, span in enumerate(self.store.spans) if span.start < span.stop}
        self.statistics = len(self.store.spans) - 1
        chunks = [chunk for chunk in self.spans if chunk != self.statistics]
        first = settings.rank % len(chunks)
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
        """Local steps that are not in the store."""
        self._batch_steps = 0
        """Environment steps of the batch that is being learned."""
        self._rollout = self._number = 0
        """The rollout that is being learned, and the number of the change that is made next."""
        self._merged = False
        """Whether local steps were merged into the store since this learner's record was written last."""
        self._applied = [-1] * len(self.store.spans)
        """Number of this learner's newest change in each chunk."""
        self._seen = [0] * len(self.store.spans)
        """Version of each chunk when this learner last copied or wrote it."""
        self._staleness: list[int] = []
        """For each change of a chunk since the last report: the number of versions of the chunk since this learner last
        had it."""

    def _optimizer_of(
        self, chunk: int, make: Callable[[OptimizerSettings, Tensor], OptimizerT]
    ) -> GroupedOptimizer[OptimizerT]:
        span = self.spans[chunk]
        return GroupedOptimizer(make, groups_within(self.groups, span), self.weights[span])

    def state(self) -> dict[str, Tensor]:
        """Return a copy of the optimizer's state with the chunks joined; local steps are included."""
        parts = [optimizer.state() for optimizer in self.optimizers.values()]
        return {
            name: torch.cat([part[name] for part in parts]) if name in self.vectors else tensor
            for name, tensor in parts[0].items()
        }

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Replace the optimizer's state by a checkpoint's; ``join`` writes it to the store if the store is empty."""
        copy_state(state, self.state())  # checks the shapes, which slices for chunks would not
        for chunk, optimizer in self.optimizers.items():
            span = self.spans[chunk]
            optimizer.restore({name: state[name][span] if name in self.vectors else state[name] for name in state})

    def join(self, env_steps: int, updates: int, position: Position = BEGINNING) -> Joined:
        """Fill the store if it is empty, and copy its weights; continue where a killed incarnation was."""
        with self.store.locked([0]):
            if not self.store.filled:
                for chunk in self.spans:
                    self._give(chunk)
                self.store.fill(env_steps, updates)
        self.pull()
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
        """Continue a killed incarnation's work: set its record back to the start of the rollout that is repeated.

        Local steps that were not merged into the store are lost, and their environment steps no longer count as used.
        Adam's count of steps continues from all steps taken, the lost ones included.
        """
        newest = max(self._applied[chunk] for chunk in self.chunks)
        begun = newest >= position.first_change  # a change also merges all earlier local steps
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
        """Return all learners' totals plus this batch, without waiting. If draining, first merge the local steps."""
        if draining and self.pending:
            self._merge_local_steps()
            self._settle(self._record)
        self._batch_steps, updates = (0, 0) if draining else (env_steps, 1)
        self.consumed.begin(self.learner.number, position)
        self._rollout = position.rollout
        self._number = max(self._number, position.first_change)
        return Agreed(self.store.env_steps + self._batch_steps, self.store.updates + updates, draining)

    def merge(self, moments: Tensor, combine: Callable[[Tensor, Tensor], None]) -> None:
        """Combine the moments with the store's statistics, under their lock."""
        with self.store.locked([self.statistics]) as chunk:
            self._take(chunk)
            if self._number > self._applied[chunk]:
                combine(self.weights[self.spans[chunk]], moments)
                self._give(chunk, self._number)
        self._number += 1

    def step(self, gradients: Tensor, learning_rates: Sequence[float], usable: bool = True) -> Stepped:
        """Clip the gradient and take a step: on the store chunk by chunk, or a local one if `local_steps` are several.

        After `local_steps` local steps, these are merged into the store.
        """
        norm = clip(gradients, self.groups)
        taken = usable and bool(torch.isfinite(norm))
        if taken:

            def step(chunk: int) -> None:
                span = self.spans[chunk]
                if self._number > self._applied[chunk]:
                    self.optimizers[chunk].step(self.weights[span], gradients[span], learning_rates)
                else:  # the step was made before this learner was killed
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
        return Stepped(float(norm), taken)

    def settle(self) -> None:
        """Count the steps of the batch as used; a batch that was counted before a restart is not counted again."""
        self.consumed.settle(self.learner.number, self._batch_steps)
        record = self._record
        if record.rollouts_learned <= self._rollout:
            record = record._replace(rollouts_learned=self._rollout + 1, used=record.used + self._batch_steps)
            self._settle(record._replace(updates=record.updates + 1, steps_before=record.optimizer_steps))

    @property
    def _record(self) -> LearnerRecord:
        """Return this learner's record, which exists after joining."""
        record = self.store.record
        assert record is not None
        return record

    def _settle(self, record: LearnerRecord) -> None:
        """Write the record; `in_store`, `optimizer_steps` and `counts` are filled in here."""
        in_store = record.used if self._merged or not self.pending else record.in_store
        steps, counts = self._steps_of(self.chunks[0]), tuple(self.learner.carried.counts())
        self.store.settle(record._replace(in_store=in_store, optimizer_steps=steps, counts=counts))
        self._merged = False

    def learned(self, end_steps: int) -> int:
        """Return the store's total of environment steps."""
        return self.store.env_steps

    def pull(self) -> bool:
        """Copy the chunks that others have changed, and repeat on them the local steps that are not in the store."""
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
        """Leave; the changes that this learner made to the store stay."""
        self.store.close()

    def _merge_local_steps(self) -> None:
        def merge(chunk: int) -> None:
            weights = self.weights[self.spans[chunk]]
            for span, _, optimizer in self.local[chunk].parts:
                optimizer.merge(weights[span])

        self._update(merge)
        self.pending, self._merged = 0, True

    def _update(self, rule: Callable[[int], None]) -> None:
        """Copy every chunk, apply the rule to it and write it back, in the order in which locks become free."""
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
        for own, central in self._rows(chunk, self.store.current(chunk)):
            own.copy_(central)
        self._seen[chunk], self._applied[chunk] = self.store.version(chunk), self.store.applied(chunk)

    def _give(self, chunk: int, number: int = -1) -> None:
        for own, central in self._rows(chunk, self.store.spare(chunk)):
            central.copy_(own)
        self._seen[chunk] = self.store.commit(chunk, number)
        self._applied[chunk] = max(self._applied[chunk], number)

    def _steps_of(self, chunk: int) -> int:
        """Return Adam's count of this learner's steps; 0 for an optimizer that has none."""
        return int(self.optimizers[chunk].parts[0].optimizer.state().get("steps", 0))

    def _count_steps(self, chunk: int, steps: int) -> None:
        """Add the steps of an earlier incarnation to Adam's count."""
        for part in self.optimizers[chunk].parts:
            if "steps" in (state := part.optimizer.state()):
                state["steps"] += steps

    def _rows(self, chunk: int, values: NDArray[np.float32]) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the chunk's weights and optimizer vectors on this learner's device, and their rows in the store."""
        central = torch.from_numpy(values)
        yield self.weights[self.spans[chunk]], central[0]
        if chunk != self.statistics:
            for span, _, optimizer in self.optimizers[chunk].parts:
                state = optimizer.state()
                yield from ((state[name], row[span]) for name, row in zip(self.vectors, central[1:], strict=True))


def _local_adam(settings: OptimizerSettings, parameters: Tensor) -> MultiStepAdam:
    assert isinstance(settings, AdamSettings)
    return MultiStepAdam(settings, parameters)
