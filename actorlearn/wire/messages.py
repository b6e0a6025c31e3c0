"""Every message on one page: what may be said between processes, and how it is put into bytes.

Control messages are typed structs in MessagePack, decoded against the closed unions below: an unknown kind, a wrong
type, a count below zero or a size over its limit is a ``MessageError``, never a guess. Tensors never travel in these
messages: they lie in shared memory.

===================  ==========================  =============================================================
from                 to                          messages
===================  ==========================  =============================================================
any child            supervisor                  Hello, Listens, Applied, Report, Evaluated, Saved, Released, Warned,
                                                 Failed, Finished
supervisor           any child                   Order, Refused
command line         supervisor                  Request
supervisor           command line                Reply
===================  ==========================  =============================================================

A process that waits for a row, an action or a rollout is woken by a wakeup, which has no content (``wire/wakeup.py``).

Control is level-triggered: an ``Order`` is the whole wanted state with a version, repeated until the child answers
``Applied`` with that version. Losing, repeating or re-ordering one therefore changes nothing.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from actorlearn.address import Pipe, Shm, Tcp
from actorlearn.wire.identity import Count, Name, ProcessId

PROTOCOL_VERSION = 9
"""Raised whenever a struct below changes; processes of different versions refuse one another."""

LIMIT_BYTES = 256 * 1024
"""Largest control message. The biggest legitimate one (an Order with 256 members) is under 64 KiB."""

TEXT_CHARACTERS = 8000
"""Longest text in a message; ``brief`` cuts longer ones. Several texts of this length fit into one message."""

_WRONG_CHARACTERS = 500
"""Longest description of an error in decoding: msgspec's text may repeat the whole message."""

MOST_NAMES = 256
"""Most names in a request: a run never has more processes."""

Text = Annotated[str, Meta(max_length=TEXT_CHARACTERS)]
"""An error, warning, path or override, for people."""
Key = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
"""Public key (Curve25519), in hexadecimal digits."""


class MessageError(ValueError):
    """Bytes that are no message of the expected union."""


class Message(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """Base of all control messages; the class name travels as the tag."""


class Hello(Message, frozen=True):
    """First message of a child: its identity and versions, which the supervisor checks before it admits the child."""

    id: ProcessId
    """Identity, as its settings say it."""
    pid: Count
    """Process id on this machine."""
    run_id: Name
    """The run's, by which a process of another run is refused."""
    protocol: int
    """Version of this protocol."""
    version: Name
    """Version of the package."""
    shape: dict[Name, Text] = {}
    """Values that must equal the run's: environment, observation, actions, rows (simulators only)."""


class Listens(Message, frozen=True):
    """A process on a network has made itself a pair of keys, and perhaps opened a port; replaces an earlier one."""

    key: Key
    address: Tcp | None = None
    """Address at which it is reached; None: it only dials others."""


class Applied(Message, frozen=True):
    """A child has put the Order of this version into effect."""

    order: Count
    """Version of the Order."""


class Report(Message, frozen=True):
    """One row for metrics.jsonl from a trainer, or, from another process, metrics to be added to the following rows."""

    row: dict[Name, float | int | dict[Name, float] | None]
    """Metrics by name; None: not finite, or nothing to count."""


class Evaluated(Message, frozen=True):
    """One evaluation of one policy version: whole games, raw scores."""

    policy_version: int
    """Version of the weights that played."""
    env_steps: Count
    """Environment steps that these had learned from."""
    returns: list[float]
    """Scores of the sole policy, or of the average of all learners' weights."""
    learners: dict[Name, float] = {}
    """Mean score of each learner's own weights in the same games; empty where there is one policy."""
    secondary: float | None = None
    """Mean score of a secondary learner's weights, where there is one."""


class Saved(Message, frozen=True):
    """A checkpoint is complete on disk."""

    path: Text
    """Folder of the checkpoint."""
    env_steps: Count
    """Environment steps learned from until then."""
    order: Count
    """Number of checkpoints requested when it was begun (`save` of an Order): these requests are met."""


class Released(Message, frozen=True):
    """A trainer no longer needs the segments of these ended simulators: all steps in them are learned or counted.

    Sent again whenever an order still lists one of them.
    """

    peers: Annotated[list[Name], Meta(max_length=MOST_NAMES)]
    """Incarnations of simulators, as name.incarnation."""


class Failed(Message, frozen=True):
    """The error that a child is about to exit with."""

    error: Text
    """Text of the error; its last line says what it was."""


class Finished(Message, frozen=True):
    """A child has completed its work and is about to exit 0."""

    reason: Name
    """total_steps, drained, stopped or scored."""
    summary: dict[Name, float | int | str | None] = {}
    """A trainer's last counts and the hash of its weights, for summary.json."""


class Warned(Message, frozen=True):
    """A problem that the user should see and that stops nothing (for example a skipped non-finite update)."""

    text: Text
    """One line for the screen and events.jsonl."""


class Member(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One simulator that takes part: its identity and the addresses of its blocks and wakeup."""

    id: ProcessId
    """The simulator."""
    segment: Shm
    """The segment with its blocks."""
    wakeup: Pipe | None = None
    """Its wakeup; None: it polls."""
    server: int = 0
    """Number of the inference server that chooses its actions."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One process on the network of a run; it may speak to the others for as long as orders list it."""

    id: ProcessId
    key: Key
    address: Tcp | None = None
    """Address at which it is reached; None: it only dials others."""


class Order(Message, frozen=True):
    """The whole state the supervisor wants of a child."""

    version: int
    """Rises with every change of what follows."""
    phase: str = "run"
    """run; drain: finish the current update, save, and exit; score: all trainers have ended, and evaluators exit after
    scoring the last published weights."""
    members: list[Member] = []
    """Simulators that take part, in the order in which their rows stand in a batch."""
    gone: list[Member] = []
    """Simulators that have ended and whose trainers have not released them yet."""
    leaving: list[str] = []
    """Simulators that must leave at the next rollout boundary, and trainers that must leave after their update."""
    save: int = 0
    """Number of checkpoints requested so far."""
    learners: list[ProcessId] = []
    """Trainers that exchange weights or gradients, in order, without those that are leaving. Empty until all have
    connected, and always for a sole trainer. In phase score: the trainers that have finished."""
    generation: Count = 0
    """Version of the order in which ``learners`` last changed; the same list may occur again with another one."""
    endpoints: list[Endpoint] = []
    """Processes that speak to one another from machine to machine; none in a run on one."""


class Refused(Message, frozen=True):
    """The supervisor refuses a child; the reason names both values that differ."""

    reason: str
    """One line: value, rule, way out."""


class Request(Message, frozen=True):
    """A command line's request to a running supervisor."""

    protocol: int
    """Version of this protocol that the command line speaks."""
    version: Name
    """Version of its package."""
    command: Name
    """status, attach, detach, save, stop or kill."""
    simulators: int = 0
    """attach: simulators to add."""
    learners: int = 0
    """attach: learners to add, in mode gossip."""
    names: Annotated[list[Name], Meta(max_length=MOST_NAMES)] = []
    """detach: names of the processes that are to leave."""
    overrides: Annotated[list[Text], Meta(max_length=MOST_NAMES)] = []
    """attach: keys of the new simulators, as env.key=value."""


class Reply(Message, frozen=True):
    """The supervisor's answer to a Request."""

    ok: bool
    """Whether it has been done."""
    text: str
    """One line for people: what was done, or value, rule and way out."""
    data: dict[str, Any] = {}
    """The same for programs, as the table of commands says."""


ToSupervisor = Hello | Listens | Applied | Report | Evaluated | Saved | Released | Failed | Finished | Warned | Request
ToChild = Order | Refused
ToCommandLine = Reply

_encoder = msgspec.msgpack.Encoder()
_decoders = {
    "supervisor": msgspec.msgpack.Decoder(ToSupervisor),
    "child": msgspec.msgpack.Decoder(ToChild),
    "command line": msgspec.msgpack.Decoder(ToCommandLine),
}


def brief(text: str, most: int = TEXT_CHARACTERS) -> str:
    """Cut a text to ``most`` characters: its beginning, and its end, where a traceback names the error."""
    half = most // 2 - 8
    return text if len(text) <= most else f"{text[:half]} […] {text[-half:]}"


def encode(message: Message) -> bytes:
    """Encode a message; raises MessageError when it exceeds LIMIT_BYTES."""
    data = _encoder.encode(message)
    if len(data) > LIMIT_BYTES:
        raise MessageError(f"{type(message).__name__} of {len(data)} bytes: at most {LIMIT_BYTES}; send less at a time")
    return data


def decode(data: bytes, receiver: str) -> Message:
    """Decode a message for a receiver (supervisor, child, command line); raises MessageError for any other bytes."""
    if len(data) > LIMIT_BYTES:
        raise MessageError(f"message of {len(data)} bytes to the {receiver}: at most {LIMIT_BYTES} are read")
    try:
        message: Message = _decoders[receiver].decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MessageError(f"no message for the {receiver}: {brief(str(error), _WRONG_CHARACTERS)}") from None
    return message
