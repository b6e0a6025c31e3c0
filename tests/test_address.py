"""Addresses: one for each learner, and as JSON that a person can read and edit."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorlearn.address import AddressError, ByLearner, Folders, Ipc, Pipe, Shm, Tcp


class Told(msgspec.Struct):
    weights: Shm | ByLearner[Shm]
    messages: ByLearner[Shm | Ipc]
    wakeup: Pipe | None = None


def test_each_learner_has_an_address_that_ends_in_its_number() -> None:
    folders = Folders(Path("/dev/shm/run.1"), Path("/tmp/run.1"), Path("runs/one"))
    assert ByLearner(folders.segment("weights")).of(12) == Shm("/dev/shm/run.1/weights-12")
    assert ByLearner(folders.socket("messages")).of(0).endpoint == "ipc:///tmp/run.1/messages-0.sock"


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (
            Told(Shm("/w-0"), ByLearner(Ipc("/m.sock")), Pipe("/p")),
            '{"weights":{"by":"shm","path":"/w-0"},"messages":{"by":"learner","each":{"by":"ipc","path":"/m.sock"}},'
            '"wakeup":{"by":"pipe","path":"/p"}}',
        ),
        (
            Told(ByLearner(Shm("/w")), ByLearner(Shm("/m"))),
            '{"weights":{"by":"learner","each":{"by":"shm","path":"/w"}},'
            '"messages":{"by":"learner","each":{"by":"shm","path":"/m"}},"wakeup":null}',
        ),
    ],
)
def test_json_says_how_something_is_reached_and_where_it_is(told: Told, text: str) -> None:
    assert msgspec.json.encode(told).decode() == text
    assert msgspec.json.decode(text, type=Told) == told


def test_an_address_of_another_kind_is_refused_where_it_stands() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"'tcp' - at `\$\.weights\.by`"):
        msgspec.json.decode('{"weights":{"by":"tcp","path":"/w"},"messages":{}}', type=Told)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.1:5555", Tcp("10.0.0.1", 5555)),
        ("[fd00::1]:80", Tcp("fd00::1", 80)),
        ("head-1.cluster:65535", Tcp("head-1.cluster", 65535)),
        ("0.0.0.0:0", Tcp("0.0.0.0", 0)),
    ],
)
def test_a_port_of_a_machine_is_read_as_it_is_written(text: str, address: Tcp) -> None:
    assert Tcp.read(text) == address and str(address) == text and address.endpoint == f"tcp://{text}"
    assert msgspec.json.decode(msgspec.json.encode(address), type=Tcp | Ipc) == address


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", "5555", "head", "head:", ":80", "10.0.0.1:65536", "10.0.0.1:-1", "10.0.0.1:x", "*:80", "[]:80"),
        *(
            "fd00::1:80",
            "[head:80",
            "tcp://head:80",
            "a b:80",
            "a;b:80",
            "a/b:80",
            "head:80\n",
            "é:80",
            "x" * 300 + ":80",
        ),
    ],
)
def test_what_is_no_port_of_a_machine_is_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(AddressError, match="write 10.0.0.1"):
        Tcp.read(text)


@given(st.text(max_size=30))
def test_any_text_is_an_address_or_refused(text: str) -> None:
    with suppress(AddressError):
        assert Tcp.read(text).endpoint.isprintable()
    with suppress(msgspec.ValidationError):
        msgspec.json.decode(msgspec.json.encode({"by": "tcp", "host": text, "port": 1}), type=Tcp)
