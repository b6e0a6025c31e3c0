"""Turns `mode` into an exchange; knows no network and no process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from actorlearn.optim.interface import OptimizerSettings
from actorlearn.parameters.allreduce import Sync
from actorlearn.parameters.asynchronous import Async
from actorlearn.parameters.exchange import Alone
from actorlearn.parameters.gossip import Gossip
from actorlearn.parameters.interface import Exchange, ExchangeSettings


def make(
    settings: ExchangeSettings,
    optimizer: OptimizerSettings,
    weights: Tensor,
    gradients: Tensor,
    alive: Callable[[], bool],
    members: Callable[[], Sequence[int]] = tuple,
) -> Exchange:
    """Construct the exchange that the settings name.

    `weights` is the whole flat vector, parameters and then statistics; `gradients` is that of the parameters alone.
    While an exchange waits for others it calls `alive` at least every 50 ms. In mode gossip it asks `members` for the
    numbers of the learners that there are now.
    """
    if settings.mode == "sync":
        return Sync(settings, optimizer, weights, gradients, alive)
    if settings.mode == "async":
        return Async(settings, optimizer, weights, gradients, alive)
    if settings.mode == "gossip":
        return Gossip(settings, optimizer, weights, gradients, alive, members)
    return Alone(optimizer, weights, gradients)
