"""A learner's lines to parameter servers: requests lost with a connection are sent again soon, for each shard."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from actorlearn.address import Tcp
from actorlearn.parameters.interface import Present
from actorlearn.parameters.server_lines import ServerLines
from actorlearn.parameters.shard_frames import PULL, WEIGHTS, ShardFrame, decode, encode
from actorlearn.parameters.shard_layout import ROLE
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import Endpoint

RUN = bytes(16)


class Broken:
    """A dealer that loses its first messages with the connection, and answers the later ones.

    It also stands for the endpoints of a run with one server.
    """

    run = RUN

    def __init__(self, lost: int) -> None:
        self.lost, self.sent = lost, list[int]()
        self.answers: list[bytes] = []

    def find(self, role: str) -> dict[int, Endpoint]:
        return {0: Endpoint(id=ProcessId(ROLE, 0), key="", address=Tcp("127.0.0.1", 1))} if role == ROLE else {}

    def dealer(self, *_: object) -> Broken:
        return self

    @property
    def trouble(self) -> str | None:
        """The connection is seen to be lost once: it is there again at the next look."""
        if len(self.sent) != self.lost:
            return None
        self.lost = 0
        return "the connection is lost"

    def send(self, body: bytes) -> bool:
        asked = cast(ShardFrame, decode(RUN, body))
        self.sent.append(asked.shard)
        if not self.lost:
            self.answers.append(encode(RUN, ShardFrame(WEIGHTS, asked.shard, asked.request)))
        return True

    def recv(self, timeout_ms: int = 0) -> bytes | None:
        time.sleep(timeout_ms / 1000)
        return self.answers.pop(0) if self.answers else None

    def close(self, *_: object) -> None: ...


def alive_for(seconds: float) -> Callable[[], bool]:
    until_s = time.monotonic() + seconds
    return lambda: time.monotonic() < until_s


def test_requests_about_all_shards_of_a_server_are_sent_again_after_a_broken_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("actorlearn.parameters.request_line.BROKEN_S", 0.05)
    line = Broken(lost=3)
    lines = ServerLines(cast(Any, line), lambda _: 0, 1000, alive_for(5.0), Present)
    answers = lines.ask({shard: ShardFrame(PULL, shard) for shard in range(3)})
    assert sorted(answers) == [0, 1, 2]
    assert line.sent == [0, 1, 2, 0, 1, 2], "each once more, and no sooner than needed"
    lines.close()
