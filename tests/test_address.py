"""Addresses: one for each learner, and as JSON that a person can read and edit."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from actorlearn.address import ByLearner, Folders, Ipc, Pipe, Shm


class Told(msgspec.Struct):
    weights: Shm | ByLearner[Shm]
    messages: ByLearner[Shm | Ipc]
    wakeup: Pipe | None = None


def test_each_learner_has_an_address_that_ends_in_its_number() -> None:
    folders = Folders(Path("/dev/shm/run.1"), Path("/tmp/run.1"), Path("runs/one"))
    assert ByLearner(folders.segment("weights")).of(12) == Shm("/dev/shm/run.1/weights-12")
    assert ByLearner(folders.socket("messages")).of(0).endpoint == "ipc:///tmp/run.1/messages-0.sock"
    assert folders.wakeup("trainer-0").file == Path("/tmp/run.1/trainer-0.wakeup")


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
