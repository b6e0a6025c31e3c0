"""One learner of mode sync: `python -m tests.parameters.sync_learner <scenario> <rank> <learners> <path>...`.

Prints its events as lines of JSON. The paths are the barriers of the generations, beside which the segment of
gradients lies.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from actorlearn.address import Shm
from actorlearn.parameters.allreduce import ASK_EVERY, Sync
from actorlearn.parameters.consumed import Consumed, Position
from actorlearn.parameters.interface import (
    Agreed,
    Carried,
    Disagreement,
    Exchange,
    Learner,
    PeerLost,
    Stopped,
)
from actorlearn.parameters.settings import SyncExchangeSettings
from tests import named

ROWS, INPUTS, HIDDEN, STATISTICS = 24, 4, 8, 2
PARAMETERS = INPUTS * HIDDEN + HIDDEN
UPDATES, UNUSABLE, RATE = 8, 5, 0.05
OPTIMIZER = named.optimizer(name="adam", epsilon=1e-5, clip_norm=0.5)


def start() -> Tensor:
    return torch.linspace(-1.0, 1.0, PARAMETERS + STATISTICS)


def gradient(weights: Tensor, rows: slice, update: int) -> Tensor:
    """Gradient of a mean squared error over some rows of an update's data."""
    generator = torch.Generator().manual_seed(update)
    inputs, targets = torch.randn(ROWS, INPUTS, generator=generator), torch.randn(ROWS, generator=generator)
    parameters = weights[:PARAMETERS].detach().clone().requires_grad_()
    hidden = torch.tanh(inputs[rows] @ parameters[: INPUTS * HIDDEN].view(INPUTS, HIDDEN))
    loss = (hidden @ parameters[INPUTS * HIDDEN :] - targets[rows]).square().mean()
    return torch.autograd.grad(loss, parameters)[0]


def combine(statistics: Tensor, moments: Tensor) -> None:
    """Merge moments, with a result that depends on their order."""
    statistics.mul_(0.5).add_(moments)


def told(**what: object) -> None:
    print(json.dumps(what), flush=True)


class SyncLearner:
    """A learner's weights and counts; ``join`` makes the exchange of a generation."""

    def __init__(self, rank: int, learners: int, paths: list[str]) -> None:
        self.rank, self.learners, self.paths = rank, learners, paths
        self.weights = start()
        self.env_steps = self.updates = 0
        self.position, self.consumed = Position(), Consumed(learners)
        self.alive: Callable[[], bool] = lambda: True
        self.beside = torch.full((3,), float(rank))
        self.state = torch.full((2,), float(rank))
        self.heard: dict[str, Any] = {}

    def join(self, generation: int) -> Exchange:
        settings = SyncExchangeSettings(
            rank=self.rank,
            learners=self.learners,
            rendezvous=Shm(path=self.paths[generation]),
            gradients=Shm(path=str(Path(self.paths[generation]).with_name("gradients"))),
        )
        own = Learner(
            *(OPTIMIZER, self.weights, torch.zeros(PARAMETERS), lambda: self.alive()),
            number=self.rank,
            consumed=self.consumed,
            carried=Beside(self),
            state=self.state,
        )
        exchange = Sync(settings, own, hash_every=1)
        self.env_steps, self.updates, position = exchange.join(self.env_steps, self.updates, self.position)
        self.position = position or self.position
        return exchange

    def learn(self, exchange: Exchange, middle: Callable[[], None] = lambda: None) -> Agreed:
        """One update with this learner's share of the rows."""
        agreed = exchange.agree(10 * (self.rank + 1), 1, self.position)
        if agreed.draining:
            return agreed
        middle()
        exchange.merge(torch.tensor([self.rank + 1.0, float(self.updates)]), combine)
        each = ROWS // self.learners
        rows = slice(self.rank * each, (self.rank + 1) * each)
        usable = not (self.rank == 1 and self.updates == UNUSABLE)
        stepped = exchange.step(gradient(self.weights, rows, self.updates), [RATE], usable)
        exchange.settle()
        told(update=self.updates, norm=stepped.norm, taken=stepped.taken)
        self.env_steps, self.updates = agreed.env_steps, agreed.updates
        self.position = Position(self.position.rollout + 1, self.position.used + 10 * (self.rank + 1))
        return agreed

    def end(self, exchange: Exchange) -> None:
        told(weights=self.weights.tolist(), env_steps=self.env_steps, updates=self.updates)
        exchange.close()
        exchange.close()


class Beside(Carried):
    """A tensor that is equal in all learners, and two counts of each that all hear."""

    def __init__(self, learner: SyncLearner) -> None:
        self.learner = learner

    @property
    def shared_tensors(self) -> list[torch.Tensor]:
        return [self.learner.beside]

    def counts(self) -> list[int]:
        return [self.learner.updates, self.learner.rank]

    def adopt(self, counts: Any, best: int) -> None:
        self.learner.heard.update(said=counts.tolist(), best=best)


def learn(learner: SyncLearner) -> None:
    """Make some updates; then learner 1 is told to end within a batch, and drains without a batch."""
    exchange = learner.join(0)
    for _ in range(UPDATES):
        learner.learn(exchange)
    for step in range(10 * ASK_EVERY):  # as if there were this many minibatches
        if exchange.ending(learner.rank == 1 and step > 2 * ASK_EVERY):
            told(broken_off=step)
            break
    told(**exchange.metrics())
    told(sockets=sum(handle.exists() and handle.is_socket() for handle in Path("/proc/self/fd").iterdir()))
    agreed = exchange.agree(0, 0, learner.position, draining=True) if learner.rank == 1 else learner.learn(exchange)
    told(**agreed._asdict())
    learner.end(exchange)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def lose(learner: SyncLearner) -> None:
    """Learner 2 dies in the third update, the others go on in a second generation, and learner 0 is told to end."""
    generation = len(learner.paths) - 2  # a newcomer knows only the second generation
    exchange = learner.join(max(generation, 0))
    if generation == 0:
        try:
            for update in range(UPDATES):
                learner.learn(exchange, die if (learner.rank, update) == (2, 2) else lambda: None)
        except PeerLost as error:
            told(lost=str(error))  # and the exchange has left
        exchange = learner.join(1)
    told(joined=learner.updates, beside=learner.beside.tolist(), own=learner.state.tolist(), **learner.heard)
    for _ in range(2):
        learner.learn(exchange)
    told(weights=learner.weights.tolist(), env_steps=learner.env_steps, updates=learner.updates)
    if learner.rank == 0:
        learner.alive = lambda: False
    else:
        while not exchange.barrier.gone():  # learner 0 stops only while it waits, here for these two
            time.sleep(0.01)
    try:
        learner.learn(exchange)
    except (Stopped, PeerLost) as error:
        told(ended=type(error).__name__)
    exchange.close()


def differ(learner: SyncLearner) -> None:
    """Learner 1 changes a weight by itself."""
    exchange = learner.join(0)
    learner.learn(exchange)
    learner.weights[0] += 1e-6 * learner.rank
    try:
        learner.learn(exchange)
    except Disagreement as error:
        told(differ=str(error))
    exchange.close()


def differ_in_steps(learner: SyncLearner) -> None:
    """Learner 1 has two steps left, learner 0 one: learner 0 makes the first of learner 1 along with it."""
    exchange = learner.join(0)
    agreed = exchange.agree(10, 1 + learner.rank, learner.position)
    told(idle=agreed.idle)
    for step in range(2):
        mean = exchange.mean(torch.full((2,), 10.0 * step + learner.rank))
        told(mean=mean.tolist(), own_state=learner.state.tolist())
        exchange.step(torch.full((PARAMETERS,), float(learner.rank)), [RATE])
        told(weights=learner.weights.tolist(), state=exchange.state()["mean"].tolist())
    exchange.settle()
    told(positions=[learner.consumed.position(rank) for rank in range(2)])
    exchange.close()


if __name__ == "__main__":
    torch.set_num_threads(1)
    scenario, rank, learners, *paths = sys.argv[1:]
    scenarios = {"learn": learn, "lose": lose, "differ": differ, "differ_in_steps": differ_in_steps}
    scenarios[scenario](SyncLearner(int(rank), int(learners), paths))
