"""Messages to a supervisor that are right in structure and odd in value, of every kind there is, from any peer.

What a field may be is read from ``wire/messages.py``, so a kind or a field that is added there is sent from here too.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import zmq
from msgspec import inspect

from actorlearn import __version__
from actorlearn.wire.channel import Dealer
from actorlearn.wire.messages import LIMIT_BYTES, PROTOCOL_VERSION, Report, Request, ToSupervisor

KINDS = ToSupervisor.__args__
WORDS = (
    *("", "a", "é" * 200, "\x1b[2J\x00\n", "x" * 8_000, "x" * 100_000, "\U0010ffff" * 9_000, "9" * 5_000, "-1", "nan"),
    *(
        "trainer",
        "simulator-0",
        "simulator-1",
        "evaluator-0",
        "env_steps",
        "frames",
        "loss",
        "share_infer",
        "episode_return_mean",
        "env_steps_per_s",
        "wall_time_s",
        "../..",
        "{}",
    ),
    *(
        "env.id=Nothing-v0",
        "env.frame_skip=[[[[",
        "env.id=",
        "=",
        "total_steps=1",
        "\n",
        "&a [*a]",
        "@/dev/zero",
        "drained",
    ),
)
WHOLE = (0, 1, -1, 2, 7, 2**31, 2**53, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), 2**64 - 1)
REAL = (0.0, -0.0, 1.5, -1e308, 1e308, 5e-324, float("nan"), float("inf"), float("-inf"))
COMMANDS = ("status", "attach", "detach", "save", "Status", "", "x" * 100_000, "stop ", "kill\x00")
"""All but those that end a run, which they should."""


def bodies(seed: int) -> Iterator[bytes]:
    """Messages in bytes, without end, none over the limit; the same for the same seed.

    Three of four keep to the limits of each field, so that they are read, and odd in what they mean.
    """
    chance = random.Random(seed)
    while True:
        kind, tame = chance.choice(KINDS), chance.random() < 0.75
        body = {"type": kind.__name__} | _struct(inspect.type_info(kind), chance, tame)
        if kind is Request:
            body |= {"protocol": PROTOCOL_VERSION, "version": __version__, "command": chance.choice(COMMANDS)}
        if tame and kind is Report:
            body["row"] |= {"env_steps": chance.choice((0, 5, 2**53))}
        data = msgspec.msgpack.encode(body)
        if len(data) <= LIMIT_BYTES:
            yield data


def send(dealers: Sequence[Dealer], count: int, seed: int) -> None:
    """Send so many by these in turn, every tenth in three frames; waits where the listener is behind."""
    chance, made = random.Random(seed), bodies(seed)
    for number in range(count):
        body, dealer = next(made), chance.choice(dealers)
        frames = [b"", body[: len(body) // 2], body[len(body) // 2 :]] if number % 10 == 0 else [body]
        assert dealer.socket.poll(20_000, zmq.POLLOUT), f"{dealer.socket.identity!r} is not listened to"
        dealer.socket.send_multipart(frames)
        while dealer.socket.poll(0):
            dealer.socket.recv_multipart()


def _struct(kind: Any, chance: random.Random, tame: bool) -> dict[str, Any]:
    return {
        field.encode_name: _value(field.type, chance, tame)
        for field in kind.fields
        if field.required or chance.random() < 0.8
    }


def _value(kind: inspect.Type, chance: random.Random, tame: bool) -> Any:
    if isinstance(kind, inspect.UnionType):
        return _value(chance.choice(kind.types), chance, tame)
    if isinstance(kind, inspect.DictType):
        made = (kind.key_type, kind.value_type)
        pairs = [[_value(part, chance, tame) for part in made] for _ in range(chance.choice((0, 1, 3, 20)))]
        return dict(pairs)
    if isinstance(kind, inspect.ListType):
        return [_value(kind.item_type, chance, tame) for _ in range(chance.choice((0, 1, 2, 20)))]
    if isinstance(kind, inspect.StructType):
        return _struct(kind, chance, tame)
    if isinstance(kind, inspect.AnyType):
        return _anything(chance)
    values: dict[type, Sequence[Any]] = {
        inspect.StrType: [
            word for word in WORDS if not tame or len(word) <= (getattr(kind, "max_length", None) or 1e9)
        ],
        inspect.IntType: [number for number in WHOLE if not tame or 0 <= number <= 2**53],
        inspect.FloatType: REAL,
        inspect.NoneType: (None,),
        inspect.BoolType: (True, False),
    }
    return chance.choice(values[type(kind)])


def _anything(chance: random.Random) -> Any:
    nested: Any = 1
    for _ in range(chance.choice((0, 1, 50))):
        nested = [nested] if chance.random() < 0.5 else {"a": nested}
    extension = msgspec.msgpack.Ext(5, b"x")
    return chance.choice((*WORDS[:5], *WHOLE, *REAL, None, True, b"\xff", [], {}, {"env_steps": {}}, nested, extension))
