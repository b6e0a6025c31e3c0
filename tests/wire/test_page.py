"""The page of control messages: up to date, and enough for a program that knows neither msgspec nor us."""

from __future__ import annotations

from typing import get_args

import pytest

from actorlearn import __version__
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import PROTOCOL_VERSION, Order, Reply, Request, ToChild, ToSupervisor, decode, encode
from actorlearn.wire.page import page
from tests.sizes import ROOT


def test_the_reference_page_is_up_to_date() -> None:
    told = "docs/messages.md is old: python -m actorlearn.wire.page > docs/messages.md"
    assert (ROOT / "docs" / "messages.md").read_text() == page(), told


def test_every_message_is_on_the_page() -> None:
    for message in (*get_args(ToSupervisor), *get_args(ToChild), Reply):
        assert f"### {message.__name__}\n" in page()


def test_a_field_has_its_default_and_its_meaning() -> None:
    told = page()
    assert '| `phase` | text | `"run"` | run: work; drain: finish the current update' in told
    assert "| `command` | text | required | status, attach, detach, save, stop or kill. |" in told


def test_a_request_of_another_library_is_read_and_its_reply_too() -> None:
    msgpack = pytest.importorskip("msgpack")
    asked = {
        "type": "Request",
        "protocol": PROTOCOL_VERSION,
        "version": __version__,
        "command": "attach",
        "simulators": 2,
    }
    request = decode(msgpack.packb(asked), "supervisor")
    assert request == Request(protocol=PROTOCOL_VERSION, version=__version__, command="attach", simulators=2)
    reply = msgpack.unpackb(encode(Reply(ok=True, text="running", data={"names": ["simulator-2"]})))
    assert reply == {"type": "Reply", "ok": True, "text": "running", "data": {"names": ["simulator-2"]}}
    order = msgpack.unpackb(encode(Order(version=3, learners=[ProcessId("trainer", sole=True)])))
    assert (order["type"], order["version"], order["learners"][0]["role"]) == ("Order", 3, "trainer")
