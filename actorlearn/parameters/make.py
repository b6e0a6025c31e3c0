"""Turns `mode` into an exchange; knows no network and no process."""

from __future__ import annotations

from actorlearn.parameters.allreduce import Sync
from actorlearn.parameters.asynchronous import Async
from actorlearn.parameters.exchange import Alone
from actorlearn.parameters.gossip import Gossip
from actorlearn.parameters.interface import Exchange, ExchangeSettings, Learner


def make(settings: ExchangeSettings, learner: Learner) -> Exchange:
    """Construct the exchange that the settings name."""
    if settings.mode == "sync":
        return Sync(settings, learner)
    if settings.mode == "async":
        return Async(settings, learner)
    if settings.mode == "gossip":
        return Gossip(settings, learner)
    return Alone(learner)
