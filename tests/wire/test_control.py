"""A child's line to the supervisor: the newest order is kept and acknowledged, once more where that was lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actorlearn.address import Ipc
from actorlearn.wire.channel import Router
from actorlearn.wire.control import Control, TurnedAwayError
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import (
    TEXT_CHARACTERS,
    Applied,
    Failed,
    Finished,
    Hello,
    Message,
    Order,
    Refused,
    Warned,
    decode,
    encode,
)

WHO = ProcessId("simulator", 0)


class Line:
    """Both ends."""

    def __init__(self, folder: Path) -> None:
        self.router = Router(Ipc(f"{folder}/control"))
        self.control = Control(Ipc(f"{folder}/control"), WHO, "run")
        self.control.hello(7)
        assert isinstance(self.heard(), Hello)

    def heard(self) -> Message:
        said = self.router.recv(2000)
        assert said is not None, "nothing was said"
        return decode(said[1], "supervisor")

    def order(self, version: int) -> None:
        self.send(Order(version=version))

    def send(self, message: Message) -> None:
        assert self.router.send(WHO.socket_id, encode(message))

    def poll_until(self, holds: Callable[[], bool]) -> None:
        for _ in range(100_000):
            self.control.poll()
            if holds():
                return
        raise AssertionError("it has not come")

    def close(self) -> None:
        self.control.close()
        self.router.close()


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    made = Line(tmp_path)
    yield made
    made.close()


def test_the_newest_order_is_in_effect_once_it_is_said_to_be(line: Line) -> None:
    assert not line.control.ordered
    line.order(2), line.order(3)
    line.poll_until(lambda: line.control.order.version == 3)
    assert line.control.ordered
    line.control.applied()
    assert not line.control.ordered
    said = line.heard()
    assert isinstance(said, Applied) and said.order == 3


def test_while_one_is_put_into_effect_a_newer_may_come(line: Line) -> None:
    line.order(1)
    line.poll_until(lambda: line.control.ordered)
    first = line.control.order
    line.order(2)
    line.poll_until(lambda: line.control.order.version == 2)
    line.control.applied(first)
    assert line.control.ordered
    said = line.heard()
    assert isinstance(said, Applied) and said.order == 1


def test_an_older_order_changes_nothing_and_a_repeated_one_is_acknowledged_again(line: Line) -> None:
    line.order(5)
    line.poll_until(lambda: line.control.ordered)
    line.control.applied()
    line.heard()
    line.order(4), line.order(5)
    again: list[Message] = []

    def acknowledged() -> bool:
        again.extend(decode(said[1], "supervisor") for said in [line.router.recv()] if said)
        return bool(again)

    line.poll_until(acknowledged)
    assert [message.order for message in again if isinstance(message, Applied)] == [5]
    assert line.control.order.version == 5


def test_turned_away_it_says_why(line: Line) -> None:
    line.send(Refused(reason="protocol 6, not 5"))
    with pytest.raises(TurnedAwayError, match="protocol 6, not 5"):
        line.poll_until(lambda: False)


def test_long_words_are_cut_and_last_ones_arrive(line: Line) -> None:
    line.control.warned("w" * 10**6)
    line.control.failed("why")
    line.control.finished("drained", {"env_steps": 3})
    line.control.close()
    warned, failed, finished = line.heard(), line.heard(), line.heard()
    assert isinstance(warned, Warned) and len(warned.text) <= TEXT_CHARACTERS
    assert isinstance(failed, Failed) and failed.error == "why"
    assert isinstance(finished, Finished) and (finished.reason, finished.summary) == ("drained", {"env_steps": 3})


def test_started_by_hand_it_says_nothing_and_hears_nothing() -> None:
    alone = Control(None, WHO, "run")
    alone.hello(1), alone.poll(), alone.warned("nobody hears"), alone.close()
    assert not alone.ordered and alone.order.version == 0
