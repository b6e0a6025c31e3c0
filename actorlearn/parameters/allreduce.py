"""Learners in lock-step: the same weights everywhere, moved by the mean of all gradients.

Reads gradients; writes the flat weights and the optimizer's state, which are identical in every learner. Source: Stooke
& Abbeel (2018), section 4.2; as in their code gradients are summed and divided by the number of learners, and clipped
after that.

Learners are on one machine, and everything goes through shared memory: nothing listens, so nobody else can take part.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from actorlearn.memory.shared import Segment
from actorlearn.parameters.allgather import AllGather
from actorlearn.parameters.exchange import Alone
from actorlearn.parameters.interface import Agreed, Disagreement, ExchangeSettings, Learner, Place, Stepped
from actorlearn.parameters.rendezvous import Rendezvous
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
_ENV_STEPS, _OPTIMIZER_STEPS, _DRAINING, _BUSY_NS, _HASH = range(5)


class Sync:
    """One of several learners that take every step together."""

    def __init__(self, settings: ExchangeSettings, learner: Learner) -> None:
        """Take the place at the rendezvous; waits for nobody yet."""
        self.settings, self.learner = settings, learner
        self.weights = learner.weights
        self.own = Alone(learner)
        gradients = Segment.open(Path(settings.gradients))
        self.rendezvous = Rendezvous(Segment.open(Path(settings.rendezvous)), settings.rank, learner.alive)
        self._gathering = AllGather(gradients, self.rendezvous)
        self._waits = Waits(settings.learners)
        self._agreements = self._calls = 0
        self._ask_after, self._asked_ns = 1, time.monotonic_ns()

    def state(self) -> dict[str, Tensor]:
        """Return the optimizer's state."""
        return self.own.state()

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Copy a checkpoint's state in."""
        self.own.restore(state)

    def join(self, env_steps: int, updates: int) -> tuple[int, int]:
        """Wait for all, then take everything from the learner with most updates, the first of these.

        Learners that outlived a lost peer know more than the newest checkpoint does.
        """
        said = self.rendezvous.meet([env_steps, updates, *(counts := self.learner.counts())])
        best = int(said[:, 1].argmax())
        own = [self.weights, *self.learner.beside, *self.state().values()]
        taken = [self._gather(tensor)[best].clone() for tensor in own]
        for tensor, theirs in zip(own, taken, strict=True):  # all or nothing, should one be lost meanwhile
            tensor.copy_(theirs)
        self.learner.adopt(said[:, 2 : 2 + len(counts)], best)
        self._waits = Waits(self.settings.learners)
        return self.own.join(int(said[best, 0]), int(said[best, 1]))

    def consumed(self) -> Place | None:
        """As the learner says: nobody else knows."""
        return None

    def agree(self, env_steps: int, optimizer_steps: int, draining: bool = False) -> Agreed:
        """Wait for all learners; see that they are about to do the same, and now and then that they are the same."""
        every = self.settings.hash_every
        checked = every > 0 and self._agreements % every == 0
        self._agreements += 1
        fingerprint = self._fingerprint() if checked else 0
        with self._waits.waiting():
            said = self.rendezvous.meet([env_steps, optimizer_steps, draining, self._waits.busy_ns, fingerprint])
        self._waits.count(said[:, _BUSY_NS])
        leaving = bool(said[:, _DRAINING].any())
        self._compare("hash of the weights", said[:, _HASH])
        if not leaving:
            self._compare("optimizer steps in a batch", said[:, _OPTIMIZER_STEPS])
        return self.own.agree(int(said[:, _ENV_STEPS].sum()), optimizer_steps, leaving)

    def merge(self, moments: Tensor, combine: Callable[[Tensor, Tensor], None]) -> None:
        """Combine every learner's moments with the statistics, in the order of ranks."""
        for shown in self._gather(moments):
            self.own.merge(shown.to(moments.device), combine)

    def step(self, gradients: Tensor, learning_rate: float, usable: bool = True) -> Stepped:
        """Average the gradients, clip, step. One learner's unusable gradient makes the mean unusable for all."""
        if not usable:
            gradients.fill_(torch.nan)
        self._average(gradients)
        return self.own.step(gradients, learning_rate)

    def ending(self, told: bool) -> bool:
        """Whether any learner is told to, asked of all after as many calls as ``ask_after`` says."""
        self._calls += 1
        if self._calls < self._ask_after:
            return False
        with self._waits.waiting():
            said = self.rendezvous.meet([told, time.monotonic_ns() - self._asked_ns])
        self._ask_after = ask_after(self._calls, said[:, 1].max() / 1e9)
        self._calls, self._asked_ns = 0, time.monotonic_ns()
        return bool(said[:, 0].any())

    def settle(self) -> None:
        """Everything has been given."""

    def pull(self) -> bool:
        """Nobody learns alone."""
        return False

    def numbers(self) -> dict[str, float]:
        """Who made the others wait, and how long this learner did."""
        return self._waits.told()

    def close(self) -> None:
        """Leave. Learners that still wait for this one get PeerLost."""
        self.rendezvous.close()

    def _average(self, gradients: Tensor) -> None:
        """Make the flat gradients the mean of all learners', summed in the order of ranks: the same bits everywhere."""
        learners, rank = self.settings.learners, self.settings.rank
        shown = self._gather(gradients)
        if learners <= SUM_WHOLE:
            gradients.copy_(reduce(torch.add, shown)).mul_(1.0 / learners)
            return
        parts = gradients.tensor_split(learners)
        summed = reduce(torch.add, [whole.tensor_split(learners)[rank] for whole in shown])
        rows = self._rows(parts[rank].copy_(summed).mul_(1.0 / learners))
        for part, row in zip(parts, rows, strict=True):
            part.copy_(torch.from_numpy(row[: part.numel()]))

    def _gather(self, tensor: Tensor) -> list[Tensor]:
        """What each learner shows, in the order of ranks: on the CPU, shaped as this, good until the next call."""
        return [torch.from_numpy(row[: tensor.numel()]).view(tensor.shape) for row in self._rows(tensor)]

    def _rows(self, tensor: Tensor) -> NDArray[Any]:
        own = tensor.detach().cpu().contiguous().view(-1).numpy()
        with self._waits.waiting():
            return self._gathering.gather(own)

    def _fingerprint(self) -> int:
        weights = self.weights.detach().cpu().numpy()
        return int.from_bytes(hashlib.blake2b(weights.tobytes(), digest_size=8).digest(), "big", signed=True)

    def _compare(self, what: str, values: NDArray[np.int64]) -> None:
        if (values != values[0]).any():
            told = ", ".join(f"learner {rank}: {value}" for rank, value in enumerate(values))
            raise Disagreement(f"after update {self.own.updates} the learners differ in {what}: {told}")


def ask_after(calls: int, seconds: float) -> int:
    """Calls until the next question, when the slowest learner took so many seconds for the last so many."""
    return max(1, min(ASK_EVERY, int(ASK_S * calls / seconds)))
