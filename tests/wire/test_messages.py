"""Every message survives the trip; everything else is refused, quickly and with one kind of error."""

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorlearn.address import Shm
from actorlearn.wire import messages
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import (
    LIMIT_BYTES,
    Applied,
    Endpoint,
    Evaluated,
    Failed,
    Finished,
    Hello,
    Member,
    Message,
    MessageError,
    Order,
    Refused,
    Reply,
    Report,
    Request,
    Saved,
    Warned,
    brief,
    decode,
    encode,
)
from tests.identities import process

MEMBER = Member(id=process("simulator-0", 2), segment=Shm("/dev/shm/x/simulator-0.2"), server=1)
EXAMPLES: list[tuple[Message, str]] = [
    (Hello(id=process("a-0"), pid=1, run_id="r", protocol=1, version="0", shape={"k": "v"}), "supervisor"),
    (Applied(order=3), "supervisor"),
    (Report(row={"env_steps": 5, "episode_return_mean": None, "loss": 0.5}), "supervisor"),
    (Report(row={"env_steps": 5, "gradient_cosine": {"0-1": 0.5}}), "supervisor"),
    (Evaluated(policy_version=1, env_steps=2, returns=[1.0]), "supervisor"),
    (Saved(path="p", env_steps=1, order=0), "supervisor"),
    (Failed(error="e"), "supervisor"),
    (
        Finished(reason="drained", summary={"env_steps": 1, "weights_sha256": "y"}),
        "supervisor",
    ),
    (Warned(text="t"), "supervisor"),
    (Request(protocol=1, version="0", command="attach", simulators=2), "supervisor"),
    (Order(version=4, phase="drain", members=[MEMBER], leaving=["simulator-0"], save=1), "child"),
    (Refused(reason="why"), "child"),
    (Reply(ok=True, text="done", data={"names": ["a"]}), "command line"),
]


@pytest.mark.parametrize(("message", "receiver"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_round_trip(message: Message, receiver: str) -> None:
    assert decode(encode(message), receiver) == message


@pytest.mark.parametrize(("message", "receiver"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_no_one_accepts_what_is_meant_for_others(message: Message, receiver: str) -> None:
    for other in {"supervisor", "child", "command line"} - {receiver}:
        with pytest.raises(MessageError, match=f"invalid message for the {other}"):
            decode(encode(message), other)


@given(st.binary(max_size=300))
def test_bytes_are_a_message_or_a_message_error(data: bytes) -> None:
    with suppress(MessageError):
        decode(data, "supervisor")


@given(st.integers(0, 200), st.integers(0, 255))
def test_a_flipped_byte_never_escapes_as_another_error(position: int, value: int) -> None:
    data = bytearray(encode(EXAMPLES[9][0]))
    data[position % len(data)] = value
    with suppress(MessageError):
        decode(bytes(data), "child")


def test_unknown_fields_and_wrong_types_are_refused() -> None:
    for body in ({"type": "Applied", "order": 1, "extra": 1}, {"type": "Exec"}, [], 7):
        with pytest.raises(MessageError):
            decode(msgspec.msgpack.encode(body), "supervisor")


def test_sizes_are_bounded_both_ways() -> None:
    with pytest.raises(MessageError, match="the limit is"):
        encode(Failed(error="x" * LIMIT_BYTES))
    with pytest.raises(MessageError, match="the limit is"):
        decode(b"\x90" * (LIMIT_BYTES + 1), "supervisor")


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        (Applied(order=-1), ">= 0"),
        (Saved(path="p", env_steps=2**53 + 1, order=0), "<= 9007199254740992"),
        (Warned(text="x" * 8_001), "length <= 8000"),
        (Report(row={"x" * 256: 1}), "length <= 255"),
        (Request(protocol=1, version="0", command="detach", names=["a"] * 257), "length <= 256"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_are_bounded(message: Message, rule: str) -> None:
    with pytest.raises(MessageError, match=rule):
        decode(encode(message), "supervisor")


def test_a_long_text_keeps_its_two_ends() -> None:
    assert brief("x" * 8_000) == "x" * 8_000
    cut = brief("Traceback" + "x" * 10_000 + "the error")
    assert len(cut) <= 8_000
    assert (cut[:9], cut[-9:]) == ("Traceback", "the error")


def test_the_protocol_version_changes_with_the_messages() -> None:
    """A change of any struct must raise PROTOCOL_VERSION: update this fingerprint together with it."""
    fields = {
        name: [(f.name, str(f.type)) for f in msgspec.structs.fields(kind)]
        for name, kind in sorted(vars(messages).items())
        if isinstance(kind, type) and issubclass(kind, (Message, Member, Endpoint, ProcessId)) and kind is not Message
    }
    assert (messages.PROTOCOL_VERSION, sum(len(f) for f in fields.values()), len(fields)) == (15, 63, 19)
