"""Gossiping learners for tests, and their shared memory segments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from actorlearn.address import ByLearner, Ipc, Shm
from actorlearn.memory.shared import Segment
from actorlearn.optim.outer import Outer
from actorlearn.optim.specs import OuterSettings
from actorlearn.parameters.consumed import Position
from actorlearn.parameters.gossip import Gossip
from actorlearn.parameters.interface import Learner, Present
from actorlearn.parameters.mixing import GraphSettings
from actorlearn.parameters.modes import make
from actorlearn.parameters.published import weights_fields
from actorlearn.parameters.settings import GossipExchangeSettings
from actorlearn.parameters.shared_counts import counts_fields
from tests import named

PARAMETERS, STATISTICS = 5, 2
SIZE = PARAMETERS + STATISTICS
RATE = 0.1
PAAC = named.optimizer(clip_norm=1.0)


def start() -> Tensor:
    """The weights with which all learners begin."""
    return torch.linspace(-1.0, 1.0, SIZE)


def never() -> bool:
    """Stand for ``alive`` in learners that must not wait: only a wait calls it."""
    raise AssertionError("it waits")


def segments(folder: Path, learners: int) -> Path:
    """Create the segments of a run with this number of learners."""
    folder.mkdir(parents=True, exist_ok=True)
    Segment.create(folder / "counts", counts_fields(64)).close()
    for learner in range(learners):
        Segment.create(folder / f"messages-{learner}", weights_fields(SIZE)).close()
        Segment.create(folder / f"gradients-{learner}", weights_fields(PARAMETERS)).close()
    return folder


def learner(
    folder: Path,
    rank: int,
    members: Sequence[int],
    graph: GraphSettings | None = None,
    alive: Callable[[], bool] = never,
    warn: Callable[[str], None] = print,
    **more: object,
) -> Gossip:
    """One of the learners whose segments lie in this folder."""
    shared, outer = not more.pop("by_sockets", False), more.pop("outer", None)
    settings = GossipExchangeSettings(
        rank=rank,
        counts=Shm(path=f"{folder}/counts"),
        messages=ByLearner(Shm(f"{folder}/messages") if shared else Ipc(f"{folder}/messages.sock")),
        graph=graph or GraphSettings(name="complete"),
        gradients=ByLearner(Shm(f"{folder}/gradients")) if "gradient_every" in more else None,
        log=f"{folder}/exchanges-{rank}.jsonl" if shared else "",
        **{"learners": len(members), **more},  # type: ignore[arg-type]
    )
    weights = start()
    own = Learner(
        *(PAAC, weights, torch.zeros(PARAMETERS), alive, lambda: Present(members), warn),
        outer=Outer(outer, weights[:PARAMETERS]) if isinstance(outer, OuterSettings) else None,
    )
    made = make(settings, own)
    assert isinstance(made, Gossip)
    return made


def position_of(exchange: Gossip) -> Position:
    """Position of a learner whose trainer commits what it has settled."""
    return Position(exchange.counts.rollouts_learned)


def learn(exchange: Gossip, gradient: Tensor | None = None) -> None:
    """Learn a batch of 10 steps with one update."""
    exchange.agree(10, 1, position_of(exchange))
    gradient = torch.ones(PARAMETERS) if gradient is None else gradient.clone()
    assert exchange.step(gradient, [RATE]).taken
    exchange.settle()
