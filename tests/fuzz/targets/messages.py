"""Messages: what a supervisor, a child and the command line decode."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from actorlearn.address import Shm
from actorlearn.wire import messages
from actorlearn.wire.messages import MessageError
from tests import odd_messages
from tests.fuzz.nearly import nearly
from tests.fuzz.targets.door import Target, refused
from tests.fuzz.watched import watched
from tests.identities import process, trainer


def _message(receiver: str) -> Callable[[bytes, Path], bool]:
    def read(data: bytes, _folder: Path) -> bool:
        try:
            with watched():
                message = messages.decode(data, receiver)
        except MessageError as error:
            return refused(error)
        assert messages.decode(messages.encode(message), receiver) is not None
        return True

    return read


def _messages() -> list[Any]:
    made = [msgspec.msgpack.decode(body) for body in itertools.islice(odd_messages.bodies(7), 60)]
    member = messages.Member(id=process("simulator-0", 2), segment=Shm("/dev/shm/x/simulator-0"))
    order = messages.Order(version=3, members=[member], learners=[trainer("trainer-0")], leaving=["simulator-0.2"])
    reply = messages.Reply(ok=True, text="done", data={"processes": [{"name": "trainer", "busy": 0.5}]})
    return [*made, *(msgspec.msgpack.decode(messages.encode(m)) for m in (order, messages.Refused(reason="x"), reply))]


def packed(tree: Any) -> bytes:
    """Return a tree in MessagePack, or invalid bytes if MessagePack cannot express it."""
    try:
        return msgspec.msgpack.encode(tree)
    except (OverflowError, UnicodeEncodeError):
        return b"\xc1"


_UNDERSTOOD: dict[str, messages.Message] = {
    "supervisor": messages.Applied(order=1),
    "child": messages.Order(version=1),
    "command line": messages.Reply(ok=True, text="done"),
}
_deep = 60_000 * b"\x91"
_pairs = b"".join(b"\xa3%03d\x01" % n for n in range(1000))
_HOSTILE_MESSAGES = (
    *(_deep, b"\xdd\x7f\xff\xff\xff", b"\xdf\x7f\xff\xff\xff", b"\x90" * messages.LIMIT_BYTES),
    b"\x82\xa4type\xa6Report\xa3row\xde\x03\xe8" + _pairs,
    b"\x82\xa4type\xa6Report\xa3row\xdf\x00\x01\x00\x00" + b"".join(b"\xa4%04x\x01" % n for n in range(0x9000)),
    b"\x82\xa4type\xdb\x00\x03\xff\x00" + b"x" * 0x3FF00,
    b"\xdb\x00\x03\xff\x00" + "\U0010ffff".encode() * 0xFFC0,
)


def targets() -> dict[str, Target]:
    """Return a target for each receiver."""
    return {
        f"message to the {receiver}": Target(
            _message(receiver),
            messages.encode(_UNDERSTOOD[receiver]),
            nearly(_messages(), packed),
            hostile=_HOSTILE_MESSAGES,
            peak_bound=lambda size: 12 << 20,  # at most 256 KiB in, each key of two bytes an object
        )
        for receiver in ("supervisor", "child", "command line")
    }
