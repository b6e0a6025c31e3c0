"""Mode sync: all learners have equal weights, and take each optimizer step together with the mean of their gradients.

Source: Stooke & Abbeel (2018), section 4.2. As in their code, gradients are summed, divided by the number of learners,
and then clipped. Every learner takes the same step, so optimizer states are equal too.

With several `local_steps`, or an outer optimizer, each learner clips its gradient and takes steps alone, with an
optimizer state of its own. Learners then take the mean of their weights instead (`optim/outer.py`), so that weights are
equal again at the end of each batch.

**Failures.** Each joint operation is completed by all living learners, or by none. When a learner dies, the others
therefore have equal weights, and know which minibatches of each learner are in them (``parameters/consumed.py``). They
continue with these. A restarted learner takes their weights, and continues its own experience after the part that
these weights contain.

**Transport.** Learners on one machine exchange through shared memory and open no socket. Learners on several machines
exchange through a hub (``hub_barrier.py``), where each barrier takes a network round trip. To save one, learners
compute the first gradient (or, with normalised observations, the moments of the batch) before they agree on the batch,
and send it together with the description of the batch. This gradient is not used if a learner is leaving, if a learner
has no gradient to send, or if some learners have fewer steps left. The learners then continue as if they had sent only
the descriptions.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from actorlearn.failpoints import hit
from actorlearn.memory.shared import Segment
from actorlearn.optim.outer import Outer
from actorlearn.optim.specs import OuterSettings
from actorlearn.parameters.alone import Alone
from actorlearn.parameters.barrier import SharedBarrier
from actorlearn.parameters.consumed import BEGINNING, Position
from actorlearn.parameters.hub_barrier import HubBarrier
from actorlearn.parameters.interface import Agreed, Disagreement, Joined, Learner, Stepped
from actorlearn.parameters.settings import SyncExchangeSettings
from actorlearn.parameters.waits import Waits

ASK_EVERY = 8
"""Largest number of optimizer steps between two barriers at which learners decide whether to break a batch off.

In value learning a batch may have thousands of steps. The interval is a number of steps and not a time, because all
learners must wait at the same barrier; `ask_after` computes it from the time of the slowest learner.
"""
ASK_S = 1.0
"""Intended seconds between two such barriers. If a step takes longer, there is a barrier at each step."""
HASH_EVERY = 100
"""Number of batches after which learners compare hashes of their weights, which must be equal."""


class _Arrival(NamedTuple):
    """Integers that a learner sends to the others when it joins; the counts of its replay (`Carried.counts`) follow."""

    advanced: int
    """1 if the sender's weights have learned since they were restored (`Consumed.advanced`); else 0."""
    env_steps: int
    """Number of environment steps, of all learners, that the sender's weights have learned from."""
    updates: int
    """Number of updates, of all learners, that the sender's weights contain."""
    changes: int
    """Number of optimizer steps, and merges of observation statistics, since the sender's last complete update."""
    number: int
    """Number of the sender, which never changes."""
    rollout: int
    """`Position.rollout` of the sender."""
    used: int
    """`Position.used` of the sender."""


class _NextBatch(NamedTuple):
    """Integers that a learner sends to the others about the batch that it learns from next."""

    env_steps: int
    """Number of environment steps in the batch."""
    optimizer_steps: int
    """Number of optimizer steps that remain for the batch."""
    draining: int
    """1 if the sender is leaving and does not learn from a batch; else 0."""
    busy_ns: int
    """Nanoseconds that the sender has worked since the last batch, without waiting."""
    fingerprint: int
    """Hash of the sender's weights; 0 when hashes are not compared."""
    saving: int
    """1 if the sender's next checkpoint is due (`Exchange.saving`); else 0."""
    saves: int
    """Number of saves requested so far, as the sender knows it."""
    rollout: int
    """`Position.rollout` of the sender."""
    used: int
    """`Position.used` of the sender."""


class Sync(Alone):
    """Mode sync: computes the same new weights in all learners, from the mean of their gradients."""

    def __init__(self, settings: SyncExchangeSettings, learner: Learner, hash_every: int = HASH_EVERY) -> None:
        """Open the shared memory or the connection to the hub; does not wait for other learners."""
        self.settings, self.hash_every = settings, hash_every
        super().__init__(settings, learner)
        self.barrier = self._open_barrier()
        self._agreements = self._calls = 0
        self._ask_after, self._asked_ns = 1, time.monotonic_ns()
        self._numbers: list[int] = []
        """Numbers of the learners by rank, as received on joining."""
        self._batches: list[_NextBatch] = []
        """Description of each learner's present batch, by rank."""
        self._remaining = 0
        """Number of optimizer steps that remain for all learners. A learner with fewer takes part only in the last."""
        self._merging: list[int] = []
        """Ranks of the learners whose moments of the present batch are not in the statistics yet."""
        local = settings.local_steps > 1 or learner.outer is not None
        self.outer = learner.outer or (Outer(OuterSettings(), self.parameters) if local else None)
        """Computes new weights from the mean of the learners' weights; None if gradients are exchanged."""
        self._local: list[list[int]] = []
        """Ranks of the learners that took part, for each local step since the last exchange."""
        self._optimizer_then: dict[str, Tensor] = {}
        """The optimizer's state at the last exchange."""
        self._state_then: Tensor | None = None
        """The algorithm's own state at the last exchange; None if the algorithm has none."""
        self.early = bool(settings.host) and self.outer is None
        self._brought: Tensor | None = None
        """Moments or gradient that this learner sends with the next description of a batch."""
        self._brings_gradient = False
        self._early: NDArray[Any] | None = None
        """The moments of all learners, or the sum of all gradients of the batch's first step, if they came with the
        descriptions; else None."""
        self._asks = self._ends = False
        """Whether this learner asks to break the batch off, and whether any learner asked for it at the newest step."""

    def join(self, env_steps: int, updates: int, position: Position = BEGINNING) -> Joined:
        """Wait for all learners, then copy all training state from the one whose weights have the most updates.

        If several have equally many, the one with the most optimizer steps since its last update is chosen. A learner
        that has not learned since it restored a checkpoint is chosen only if no learner has. Its checkpoint may have
        more updates, but they belong to a part of the training that was lost and that the others have replaced.
        """
        counts, consumed = self.learner.carried.counts(), self.consumed
        arrival = _Arrival(consumed.advanced, env_steps, updates, consumed.changes, self.learner.number, *position)
        said = self.barrier.gather_numbers([*arrival, *counts])
        arrivals = [_Arrival._make(numbers) for numbers in said[:, : len(arrival)].tolist()]
        best = max(
            range(len(said)),
            key=lambda rank: (arrivals[rank].advanced, arrivals[rank].updates, arrivals[rank].changes, -rank),
        )
        shared = [self.weights, torch.from_numpy(consumed.table)]
        if self.learner.outer is not None:
            shared.append(self.learner.outer.velocity)
        beside = [*self.learner.carried.shared_tensors, *([] if self.learner.state is None else [self.learner.state])]
        taken = [self._gather(tensor)[best].clone() for tensor in (*shared, *beside)]
        state = {name: self._gather(tensor)[best].clone() for name, tensor in self.state().items()}
        # Only now are tensors changed, so that a lost peer leaves all unchanged. After local steps each learner has its
        # own optimizer state, target network and state of the algorithm, and keeps them if its weights have as many
        # updates and steps as the chosen ones.
        keeps = self.outer is not None and arrivals[best][:4] == arrivals[self.settings.rank][:4]
        changed = shared if keeps else [*shared, *beside]
        for tensor, theirs in zip(changed, taken[: len(changed)], strict=True):
            tensor.copy_(theirs)
        if not keeps:
            self.restore(state)
        consumed.advanced = bool(arrivals[best].advanced)
        if self.outer is not None:
            self.outer.begin(self.parameters)
            self._begin_local()
        hit("allreduce.adopted")
        self._numbers = [each.number for each in arrivals]
        for each in arrivals:
            if consumed.position(each.number) is None:
                consumed.begin(each.number, Position(each.rollout, each.used))
        self.learner.carried.adopt(said[:, len(arrival) : len(arrival) + len(counts)], best)
        self.barrier.waits = Waits(self.settings.learners)
        super().join(arrivals[best].env_steps, arrivals[best].updates)
        return Joined(self.env_steps, self.updates, consumed.position(self.learner.number))

    def agree(
        self, env_steps: int, optimizer_steps: int, position: Position = BEGINNING, draining: bool = False
    ) -> Agreed:
        """Wait for all learners, and exchange the numbers of environment and optimizer steps of their next batches.

        After every ``hash_every`` batches, the learners also compare hashes of their weights. Raises Disagreement if
        these differ, PeerLost, and Stopped.
        """
        checked = self._agreements % self.hash_every == 0
        self._agreements += 1
        fingerprint = self._fingerprint() if checked else 0
        busy_ns = self.barrier.waits.busy_ns
        numbers = self._announce(
            _NextBatch(env_steps, optimizer_steps, draining, busy_ns, fingerprint, self.saving, self.saves, *position)
        )
        batches = [_NextBatch._make(row) for row in numbers[:, : len(_NextBatch._fields)].tolist()]
        hit("allreduce.agreed")
        self.barrier.waits.count(np.array([batch.busy_ns for batch in batches]))
        leaving = any(batch.draining for batch in batches)
        self.saving = any(batch.saving for batch in batches)
        self.saves = max(batch.saves for batch in batches)
        self._compare([batch.fingerprint for batch in batches])
        if not leaving:
            self._begin(batches)
        agreed = super().agree(sum(batch.env_steps for batch in batches), optimizer_steps, position, leaving)
        return agreed if leaving else agreed._replace(idle=self._remaining - optimizer_steps)

    def bring(self, moments: Tensor | None = None, gradients: Tensor | None = None) -> None:
        """Keep the moments or the gradient, which `agree` sends to the other learners with its own message."""
        self._brought, self._brings_gradient = gradients if moments is None else moments, moments is None

    def _announce(self, batch: _NextBatch) -> NDArray[np.int64]:
        """Send the description of this learner's batch, and the vector kept by `bring`; returns all descriptions.

        The vectors of all learners, or their sum, are kept for `merge` or `step`.
        """
        brought, self._brought, self._early = self._brought, None, None
        if brought is None or isinstance(self.barrier, SharedBarrier) or not self.learner.alive():
            return self.barrier.gather_numbers(batch)  # without a vector, this learner may stop waiting if told to end
        among = range(self.settings.learners) if self._brings_gradient else ()
        numbers, vectors = self.barrier.exchange(batch, _on_cpu(brought), among)
        steps = {_NextBatch._make(each[: len(batch)]).optimizer_steps for each in numbers.tolist()}
        if not self._brings_gradient or len(steps) == 1:  # all learners take part in the first step
            self._early = vectors
        return numbers

    def _begin(self, batches: list[_NextBatch]) -> None:
        """Record that all learners begin their batches, and find those whose observation moments have to be merged."""
        consumed = self.consumed
        self._merging = []
        for rank, (number, batch) in enumerate(zip(self._numbers, batches, strict=True)):
            consumed.begin(number, Position(batch.rollout, batch.used))
            if not consumed.merged(number, batch.rollout):
                self._merging.append(rank)
        self._batches, self._remaining = batches, max(batch.optimizer_steps for batch in batches)
        self._asks = self._ends = False

    @property
    def taking_part(self) -> list[int]:
        """Ranks of the learners whose gradients are averaged in the next step: those that still have a minibatch."""
        return [rank for rank, batch in enumerate(self._batches) if batch.optimizer_steps >= self._remaining]

    def merge(self, moments: Tensor, combine: Callable[[Tensor, Tensor], None]) -> None:
        """Merge the moments of all learners' observations into the statistics, in the order of ranks."""
        rows, self._early = self._early, None
        if not self._merging:
            return
        gathered = self._gather(moments) if rows is None else [torch.from_numpy(row) for row in rows]
        for rank in self._merging:
            combine(self.statistics, gathered[rank].to(moments.device))
            self.consumed.merge(self._numbers[rank])
        hit("allreduce.merged")

    def step(self, gradients: Tensor, learning_rates: Sequence[float], usable: bool = True) -> Stepped:
        """Average the gradients of all learners, clip the mean, and take an optimizer step with it.

        If one learner's gradient is not finite, no learner takes the step. With an outer optimizer, each learner takes
        the step with its own gradient, and the weights are averaged after `local_steps` steps.
        """
        if self.outer is not None:
            return self._step_locally(gradients, learning_rates, usable, self.outer)
        if not usable:
            gradients.fill_(torch.nan)
        among = self.taking_part
        self._average(gradients, among)
        stepped = self.apply(gradients, learning_rates, usable)  # an early sum lacks the nan, so ``usable`` is checked
        hit("allreduce.stepped")
        self.consumed.step(self._numbers[rank] for rank in among)
        self._remaining -= 1
        return stepped

    def mean(self, numbers: Tensor) -> Tensor:
        """Return the mean of a vector over the learners that take the next step together."""
        if self.outer is not None:  # each learner takes the step by itself
            return numbers
        gathered, among = self._gather(numbers), self.taking_part
        return reduce(torch.add, [gathered[rank].double() for rank in among]) / len(among)

    def _step_locally(self, gradients: Tensor, learning_rates: Sequence[float], usable: bool, outer: Outer) -> Stepped:
        """Take a step alone. After every `local_steps` steps, and at the end of a batch, average all weights."""
        among = self.taking_part
        if not self._local and self.learner.state is not None:  # now, because the learner changes it after each step
            self._state_then = self.learner.state.clone()
        stepped = Stepped(0.0, True)
        if self.settings.rank in among:
            stepped = self.apply(gradients, learning_rates, usable)
        self._local.append(among)
        self._remaining -= 1
        if len(self._local) == self.settings.local_steps or not self._remaining:
            mean = self.parameters.clone()
            self._average(mean, sorted({rank for ranks in self._local for rank in ranks}))
            self.parameters.copy_(mean)
            outer.step(self.parameters)
            hit("allreduce.averaged")
            for ranks in self._local:
                self.consumed.step(self._numbers[rank] for rank in ranks)
            self._begin_local()
        return stepped

    def _begin_local(self) -> None:
        self._local = []
        self.learner.carried.keep()
        self._optimizer_then = {name: tensor.clone() for name, tensor in self.state().items()}

    def break_off(self) -> None:
        """Restore the weights and states of the last exchange, if the learner has taken local steps since."""
        if self.outer is not None and self._local:
            self.parameters.copy_(self.outer.anchor)
            self.restore(self._optimizer_then)
            if self.learner.state is not None and self._state_then is not None:
                self.learner.state.copy_(self._state_then)
            self.learner.carried.go_back()
            self._local = []

    def ending(self, asked: bool) -> bool:
        """Return whether all learners stop this batch before its last step, because one of them was told to end.

        Asking the others costs a barrier, so it is done only once in `ask_after` calls. If gradients are sent between
        machines, ``asked`` is sent with each gradient instead.
        """
        if self.early:
            self._asks = asked
            return self._ends
        self._calls += 1
        if self._calls < self._ask_after:
            return False
        numbers = self.barrier.gather_numbers([asked, time.monotonic_ns() - self._asked_ns])
        self._ask_after = ask_after(self._calls, numbers[:, 1].max() / 1e9)
        self._calls, self._asked_ns = 0, time.monotonic_ns()
        return bool(numbers[:, 0].any())

    def settle(self) -> None:
        """Record that the weights have learned from the batches of all learners."""
        for number, batch in zip(self._numbers, self._batches, strict=True):
            self.consumed.settle(number, batch.env_steps)

    def metrics(self) -> dict[str, float]:
        """Return metrics of the straggler, of this learner's waiting time, and of the bytes sent between machines."""
        return self.barrier.metrics()

    def close(self) -> None:
        """Leave the other learners; those that still wait for this one get PeerLost."""
        self.barrier.close()

    def _open_barrier(self) -> SharedBarrier | HubBarrier:
        settings, learner = self.settings, self.learner
        if not settings.host:
            segments = Segment.open(settings.rendezvous.file), Segment.open(settings.gradients.file)
            return SharedBarrier(*segments, settings.rank, learner.alive)
        assert learner.endpoints is not None
        own = learner.endpoints, settings.host, settings.trainers, settings.generation
        return HubBarrier(*own, self.weights.numel(), learner.alive)

    def _average(self, gradients: Tensor, among: Sequence[int]) -> None:
        """Replace a flat vector by its mean over the learners of these ranks."""
        total, self._early = self._early, None
        if total is None:
            numbers, total = self.barrier.add(_on_cpu(gradients), among, [self._asks])
            self._ends = bool(numbers[:, 0].any())
        gradients.copy_(torch.from_numpy(total)).mul_(1.0 / len(among))

    def _gather(self, tensor: Tensor) -> list[Tensor]:
        """Send a tensor to all learners, and return theirs by rank. Valid until the next barrier."""
        return [torch.from_numpy(row).view(tensor.shape) for row in self.barrier.gather(_on_cpu(tensor))]

    def _fingerprint(self) -> int:
        weights = self.weights.detach().cpu().numpy()
        return int.from_bytes(hashlib.blake2b(weights.tobytes(), digest_size=8).digest(), "big", signed=True)

    def _compare(self, values: Sequence[int]) -> None:
        if len(set(values)) > 1:
            all_values = ", ".join(f"learner {rank}: {value}" for rank, value in enumerate(values))
            raise Disagreement(
                f"the weights of the learners differ after update {self.updates}; their hashes: {all_values}"
            )


def _on_cpu(tensor: Tensor) -> NDArray[Any]:
    """Return the numbers of a tensor as a flat array, which may share memory with the tensor."""
    return np.asarray(tensor.detach().cpu().contiguous().view(-1).numpy())


def ask_after(calls: int, seconds: float) -> int:
    """Return how many calls of `Sync.ending` to make until the next barrier, so that barriers are ASK_S seconds apart.

    The last ``calls`` calls took the slowest learner ``seconds`` seconds.
    """
    return max(1, min(ASK_EVERY, int(ASK_S * calls / seconds)))
