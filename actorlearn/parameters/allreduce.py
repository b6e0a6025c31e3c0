"""Learners in lock-step: the same weights everywhere, moved by the mean of all gradients.

Reads gradients; writes the flat weights and the optimizer's state, which are identical in every learner. Source: Stooke
& Abbeel (2018), section 4.2; as in their code gradients are summed and divided by the number of learners, and clipped
after that.

Learners wait for one another at the rendezvous, before a batch. torch.distributed then carries vectors between learners
that are all there: its own waiting cannot be broken off.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
from numpy.typing import NDArray
from torch import Tensor

from actorlearn.memory.shared import Segment
from actorlearn.parameters.exchange import Alone
from actorlearn.parameters.interface import Agreed, Disagreement, ExchangeSettings, Learner, PeerLost, Stepped
from actorlearn.parameters.rendezvous import Rendezvous
from actorlearn.parameters.waits import Waits

_LIMIT = timedelta(minutes=5)
"""After which a collective fails. A dead peer is noticed at once, and the supervisor ends one that hangs."""
_CONNECT_LIMIT = timedelta(seconds=15)
"""After which connecting fails. It notices no death and shows no sign of life, for which 30 s are allowed."""
_TRIES = 4
ASK_EVERY = 8
"""Steps within a batch between two questions whether to break it off; a round of value learning may have thousands.

By count and not by time, because all must ask together; a step of 2,048 transitions takes seconds on two cores.
"""
_LOOK = timedelta(milliseconds=50)
_GPU_LOOK_S = 1e-4
_ENV_STEPS, _OPTIMIZER_STEPS, _DRAINING, _BUSY_NS, _HASH = range(5)


class Sync:
    """One of several learners that take every step together."""

    def __init__(self, settings: ExchangeSettings, learner: Learner) -> None:
        """Take the place at the rendezvous; waits for nobody yet."""
        self.settings, self.learner = settings, learner
        self.weights, self._alive = learner.weights, learner.alive
        self.own = Alone(learner)
        self.rendezvous = Rendezvous(Segment.open(Path(settings.rendezvous)), settings.rank, learner.alive)
        self._waits = Waits(settings.learners)
        self._agreements = self._asked = 0

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
        said = self._connected([env_steps, updates, *(counts := self.learner.counts())])
        best = int(said[:, 1].argmax())
        for tensor in (self.weights, *self.learner.beside, *self.state().values()):
            if tensor.numel():
                self._finish(partial(dist.broadcast, tensor, best, async_op=True))
        self.learner.adopt(said[:, 2 : 2 + len(counts)], best)
        self._waits = Waits(self.settings.learners)
        return self.own.join(int(said[best, 0]), int(said[best, 1]))

    def _connected(self, numbers: Sequence[int]) -> NDArray[np.int64]:
        """Meet and connect; what each said. Meets again if one could not, which tells who has died meanwhile."""
        # Nobody outside this machine has to reach a learner. Ports are the kernel's choice, and told through a file.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
        wrong = "it could, and another learner could not"
        for attempt in range(_TRIES):
            said = self.rendezvous.meet(numbers)
            c10d._world.group_count = 0  # learners find each other by it, and it counts tries that failed
            try:
                dist.init_process_group(
                    "cpu:gloo,cuda:nccl" if self.settings.backend == "nccl" else "gloo",
                    init_method=f"file://{self.settings.rendezvous}.ports-{attempt}",
                    rank=self.settings.rank,
                    world_size=self.settings.learners,
                    timeout=_CONNECT_LIMIT,
                )
            except RuntimeError as error:
                wrong = str(error)
            connected = dist.is_initialized()
            if self.rendezvous.meet([connected])[:, 0].all():
                c10d._set_pg_timeout(_LIMIT)
                return said
            if connected:
                dist.destroy_process_group()
        raise ConnectionError(f"learner {self.settings.rank} did not get through to the others {_TRIES} times: {wrong}")

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
        rows = moments.new_zeros((self.settings.learners, *moments.shape))
        rows[self.settings.rank] = moments
        self._finish(partial(dist.all_reduce, rows, async_op=True))  # a sum with zeros: each row arrives as it was
        for row in rows:
            self.own.merge(row, combine)

    def step(self, gradients: Tensor, learning_rate: float, usable: bool = True) -> Stepped:
        """Average the gradients, clip, step. One learner's unusable gradient makes the mean unusable for all."""
        if not usable:
            gradients.fill_(torch.nan)
        self._finish(partial(dist.all_reduce, gradients, async_op=True))
        gradients.mul_(1.0 / self.settings.learners)
        return self.own.step(gradients, learning_rate)

    def ending(self, told: bool) -> bool:
        """Whether any learner is told to, asked of all every ASK_EVERY calls."""
        self._asked += 1
        if self._asked % ASK_EVERY:
            return False
        with self._waits.waiting():
            return bool(self.rendezvous.meet([told])[:, 0].any())

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
        if dist.is_initialized():
            dist.destroy_process_group()
        self.rendezvous.close()

    def _finish(self, start: Callable[[], dist.Work | None]) -> None:
        """Run a collective to its end; raises PeerLost.

        It shows signs of life meanwhile, but goes on even when told to end: nobody leaves in the middle of a batch.
        """
        with self._waits.waiting():
            try:
                work = start()
                while work is not None and not work.is_completed():
                    self._alive()
                    self._sleep(work)
                if work is not None:
                    work.wait()
            except RuntimeError as error:
                gone = f"in update {self.own.updates} learners {self.rendezvous.gone()} have gone: {error}"
                if self.settings.backend == "nccl" and dist.group.WORLD is not None:
                    dist.group.WORLD.abort()  # the GPU would go on waiting
                self.close()  # those who wait for this learner instead of the lost one fail in their turn
                raise PeerLost(gone) from error

    def _sleep(self, work: dist.Work) -> None:
        if self.settings.backend == "gloo":
            with suppress(RuntimeError):  # not done yet, or failed: the caller asks which
                work.wait(_LOOK)
        else:  # waiting for NCCL would only queue the wait on the GPU, and it notices no death
            self.rendezvous.check()
            time.sleep(_GPU_LOOK_S)

    def _fingerprint(self) -> int:
        weights = self.weights.detach().cpu().numpy()
        return int.from_bytes(hashlib.blake2b(weights.tobytes(), digest_size=8).digest(), "big", signed=True)

    def _compare(self, what: str, values: NDArray[np.int64]) -> None:
        if (values != values[0]).any():
            told = ", ".join(f"learner {rank}: {value}" for rank, value in enumerate(values))
            raise Disagreement(f"after update {self.own.updates} the learners differ in {what}: {told}")
