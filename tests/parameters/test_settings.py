"""Settings of exchanges: which are refused, and reading them back from JSON."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from actorlearn.address import ByLearner, Ipc, Shm
from actorlearn.parameters.mixing import GraphSettings
from actorlearn.parameters.modes import MODES
from actorlearn.parameters.settings import AsyncExchangeSettings, GossipExchangeSettings

SYNC = {"mode": "sync", "rendezvous": {"by": "shm", "path": "r"}, "gradients": {"by": "shm", "path": "g"}}
ASYNC = {"mode": "async", "store": {"by": "shm", "path": "s"}}
GOSSIP = {
    **{"mode": "gossip", "rank": 0, "learners": 2, "counts": {"by": "shm", "path": "c"}},
    "messages": {"by": "learner", "each": {"by": "ipc", "path": "m"}},
}


@pytest.mark.parametrize(
    ("rule", "given"),
    [
        (r"mode\.name: 'both' must be alone, async, gossip, served, sync", {"mode": "both"}),
        (r"exchange\.rank: 2 must be from 0 to 1", {**SYNC, "rank": 2, "learners": 2}),
        (r">= 0 - at `\$\.rank`", {**SYNC, "rank": -1}),
        (r"<= 63 - at `\$\.rank`", {**GOSSIP, "rank": 64}),
        (r">= 0 - at `\$\.max_staleness`", {**GOSSIP, "max_staleness": -1}),
        (r"Invalid value 'nccl' - at `\$\.messages\.by`", {**GOSSIP, "messages": {"by": "nccl", "path": "m"}}),
        (r"'nccl' - at `\$\.messages\.each\.by`", {**GOSSIP, "messages": {"by": "learner", "each": {"by": "nccl"}}}),
        (r">= 1 - at `\$\.gradient_every`", {**GOSSIP, "gradient_every": 0}),
        (r">= 1 - at `\$\.local_steps`", {**ASYNC, "local_steps": 0}),
        (r"unknown field `max_staleness`", {**SYNC, "max_staleness": 1}),
        (r"unknown field `learners`", {"mode": "alone", "learners": 2}),
    ],
)
def test_wrong_settings_of_an_exchange_are_refused_by_name(rule: str, given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=rule):
        MODES.read(given)


@pytest.mark.parametrize("given", [{"mode": "alone"}, SYNC, ASYNC, GOSSIP])
def test_settings_are_read_back_from_json(given: dict[str, Any]) -> None:
    settings = MODES.read(given)
    assert MODES.read(msgspec.json.decode(msgspec.json.encode(settings))) == settings
    assert settings.mode == given["mode"]


def test_only_an_exchange_through_sockets_listens_at_an_endpoint() -> None:
    messages = {"shm": ByLearner(Shm("/dev/shm/messages")), "ipc": ByLearner(Ipc("/tmp/messages.sock"))}
    told = {"rank": 3, "learners": 2, "counts": Shm(path="counts"), "graph": GraphSettings()}
    assert GossipExchangeSettings(messages=messages["shm"], **told).listens is None  # type: ignore[arg-type]
    listens = GossipExchangeSettings(messages=messages["ipc"], **told).listens  # type: ignore[arg-type]
    assert listens and listens.endpoint == "ipc:///tmp/messages-3.sock"
    assert AsyncExchangeSettings(store=Shm(path="store")).listens is None
