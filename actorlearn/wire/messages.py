"""All control messages between the processes of a run, and their encoding.

Control messages are typed structs in MessagePack. A receiver decodes only the types that it expects: an unknown type, a
wrong value, a count below zero or a size over its limit raises ``MessageError``. The messages contain no tensors;
tensors are in shared memory. "Child" is any process that the supervisor starts.

===================  ==========================  =============================================================
from                 to                          messages
===================  ==========================  =============================================================
any child            supervisor                  Hello, Listens, Left, Applied, Report, Evaluated, Saved, Released,
                                                 Warned, Failed, Finished
supervisor           any child                   Order, Refused
command line         supervisor                  Request
supervisor           command line                Reply
===================  ==========================  =============================================================

A process that waits for observations, actions or a rollout is woken by another kind of signal, which has no content
(``wire/wakeup.py``).

An ``Order`` is the complete state that the supervisor wants from a child, with a version. The supervisor repeats it
until the child answers ``Applied`` with this version. So lost, repeated and reordered orders do no harm.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from actorlearn.address import Ipc, Pipe, Shm, Tcp
from actorlearn.wire.identity import Count, Name, ProcessId

PROTOCOL_VERSION = 15
"""Version of the structs below. It is increased whenever one changes, and the supervisor refuses other versions."""

LIMIT_BYTES = 256 * 1024
"""Limit on the size of a control message. The largest valid one (an Order with 256 members) has less than 64 KiB."""

TEXT_CHARACTERS = 8000
"""Limit on the length of a text in a message; ``brief`` cuts longer ones. A message can have several such texts."""

_WRONG_CHARACTERS = 500
"""Limit on the description of a decoding error, because msgspec's text may repeat the whole message."""

MOST_NAMES = 256
"""Limit on the number of names in a message: a run never has more processes."""

Text = Annotated[str, Meta(max_length=TEXT_CHARACTERS)]
"""An error, warning, path or override, for people."""
Key = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
"""Public key (Curve25519), in hexadecimal digits."""


class MessageError(ValueError):
    """Bytes are not a message that the receiver expects, or a message is too large."""


class Message(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """Base of all control messages; the name of the class is sent as the message's type."""


class Hello(Message, frozen=True):
    """First message of a process: identity and versions. The supervisor checks them before it admits the process."""

    id: ProcessId
    """Identity of the process, as in its settings."""
    pid: Count
    """Process id on this machine."""
    run_id: Name
    """Id of the run. The supervisor refuses processes of other runs."""
    protocol: int
    """Version of the protocol."""
    version: Name
    """Version of the package actorlearn."""
    shape: dict[Name, Text] = {}
    """Simulators only: environment, observations, actions and rows. They must equal those of the run."""


class LocalSocket(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A socket on which a process listens for processes of its own machine."""

    machine: Name
    """Identifier of the machine and of its network (``wire/endpoints.py``)."""
    address: Ipc
    """Address of the socket."""


class Networked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Public key and addresses of a process on a network."""

    key: Key
    """Public key of the process, in hexadecimal digits."""
    address: Tcp | None = None
    """Address at which the process listens. None: it only connects to others."""
    local: LocalSocket | None = None
    """Address for processes of the same machine. None: they use ``address``, too."""
    generation: Count = 0
    """Trainers in mode sync: newest generation of `learners` (see Order) in which this trainer takes part. It has an
    address only while it runs the hub, through which these trainers exchange.
    """


class Listens(Message, Networked, frozen=True):
    """Public key and addresses of a process on a network. They replace those that the process sent before."""


class Left(Message, frozen=True):
    """A trainer in mode sync no longer exchanges with the others. It may save for minutes before it exits."""


class Applied(Message, frozen=True):
    """The process has applied the Order of this version."""

    order: Count
    """Version of the Order."""


class Report(Message, frozen=True):
    """From a trainer: one row for metrics.jsonl. From another process: metrics that are added to the following rows."""

    row: dict[Name, float | int | dict[Name, float] | None]
    """Metrics by name. None: the number is not finite, or there was nothing to count."""


class Evaluated(Message, frozen=True):
    """Raw scores of one evaluation."""

    policy_version: int
    """Version of the evaluated weights."""
    env_steps: Count
    """Environment steps that these weights had learned from."""
    returns: list[float]
    """Score of each game with the policy, or with the average of all learners' weights."""
    learners: dict[Name, float] = {}
    """Mean score of each learner's weights in the same games; empty if there is only one policy."""
    secondary: float | None = None
    """Mean score of the secondary learner's weights, if there is one."""


class Saved(Message, frozen=True):
    """A checkpoint is complete on disk."""

    path: Text
    """Folder of the checkpoint."""
    env_steps: Count
    """Environment steps learned from so far."""
    order: Count
    """Value of `save` in the newest Order when the save started. All requests up to this number are answered by it."""


class Released(Message, frozen=True):
    """A trainer no longer needs the segments of these ended simulators: all steps in them are learned or counted.

    Sent again whenever an order still lists one of them.
    """

    peers: Annotated[list[Name], Meta(max_length=MOST_NAMES)]
    """Simulators, as name.incarnation."""


class Failed(Message, frozen=True):
    """The process is about to exit with this error."""

    error: Text
    """Text of the error. The last line names it."""


class Finished(Message, frozen=True):
    """The process has completed its work and is about to exit with status 0."""

    reason: Name
    """Why it has ended: total_steps (all steps are learned), drained, stopped, or scored (evaluator: it has played the
    final weights).
    """
    summary: dict[Name, float | int | str | None] = {}
    """Final counts of a trainer and the hash of its weights, for summary.json."""


class Warned(Message, frozen=True):
    """A problem that the user should see and that does not stop the run, for example a skipped update."""

    text: Text
    """One line for the screen and events.jsonl."""


class Member(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A simulator that takes part in rollouts."""

    id: ProcessId
    """Identity of the simulator."""
    segment: Shm
    """Shared memory with the simulator's blocks."""
    wakeup: Pipe | None = None
    """Pipe that wakes the simulator. None: the simulator polls."""
    server: int = 0
    """Number of the inference server that chooses the simulator's actions."""


class Endpoint(Networked, frozen=True):
    """A process that communicates between machines. Others accept its messages while the newest Order lists it."""

    id: ProcessId
    """Identity of the process."""


class Order(Message, frozen=True):
    """The complete state that the supervisor wants from a process."""

    version: int
    """Version of this order. It increases with every change of the other fields."""
    phase: str = "run"
    """run: work. drain: finish the current update, save, and exit. score: all trainers have ended; evaluators play the
    final weights and exit.
    """
    members: list[Member] = []
    """Simulators that take part, in the order of their rows in a batch."""
    gone: list[Member] = []
    """Simulators that have ended, but whose shared memory their trainers still need (until Released)."""
    leaving: list[str] = []
    """Simulators that must end at the next rollout, and trainers that must end after their update."""
    save: int = 0
    """Number of checkpoints requested so far."""
    best_steps: Count | None = None
    """Environment steps of the weights with the best score so far; None before the first score. A trainer keeps the
    checkpoint that it saved soonest after these weights, and saves one if there is none.
    """
    learners: list[ProcessId] = []
    """Trainers that exchange weights or gradients, in the order of their ranks. Trainers that must end are left out.
    Empty until all have connected, and if there is only one. In phase score: the trainers that have finished.
    """
    generation: Count = 0
    """Version of the order in which `learners` last changed."""
    endpoints: list[Endpoint] = []
    """Processes that communicate between machines; empty if the run is on one machine."""


class Refused(Message, frozen=True):
    """The supervisor refuses a process."""

    reason: str
    """One line with the values that differ, the rule and a remedy."""


class Request(Message, frozen=True):
    """A request to the supervisor of a running run."""

    protocol: int
    """Version of the protocol that the sender uses."""
    version: Name
    """Version of actorlearn that the sender expects."""
    command: Name
    """status, attach, detach, save, stop or kill."""
    simulators: int = 0
    """attach: number of simulators to add."""
    learners: int = 0
    """attach: number of learners to add, in mode gossip."""
    names: Annotated[list[Name], Meta(max_length=MOST_NAMES)] = []
    """detach: names of the processes to remove."""
    overrides: Annotated[list[Text], Meta(max_length=MOST_NAMES)] = []
    """attach: changed keys of the environments of the new simulators, as env.key=value."""


class Reply(Message, frozen=True):
    """The supervisor's answer to a Request."""

    ok: bool
    """Whether the request was carried out."""
    text: str
    """One line for people: the result, or the wrong value, the rule and a remedy."""
    data: dict[str, Any] = {}
    """The result for programs; the table of commands lists its keys."""


ToSupervisor = (
    Hello | Listens | Left | Applied | Report | Evaluated | Saved | Released | Failed | Finished | Warned | Request
)
ToChild = Order | Refused
ToCommandLine = Reply

_encoder = msgspec.msgpack.Encoder()
_decoders = {
    "supervisor": msgspec.msgpack.Decoder(ToSupervisor),
    "child": msgspec.msgpack.Decoder(ToChild),
    "command line": msgspec.msgpack.Decoder(ToCommandLine),
}


def brief(text: str, most: int = TEXT_CHARACTERS) -> str:
    """Shorten a text to ``most`` characters: keep its beginning, and its end, where a traceback names the error."""
    half = most // 2 - 8
    return text if len(text) <= most else f"{text[:half]} […] {text[-half:]}"


def encode(message: Message) -> bytes:
    """Encode a message; raises MessageError when it exceeds LIMIT_BYTES."""
    data = _encoder.encode(message)
    if len(data) > LIMIT_BYTES:
        raise MessageError(
            f"{type(message).__name__} has {len(data)} bytes, and the limit is {LIMIT_BYTES}; send less at a time"
        )
    return data


def decode(data: bytes, receiver: str) -> Message:
    """Decode a message for a receiver, which is "supervisor", "child" or "command line".

    Raises MessageError for bytes that are no message for this receiver.
    """
    if len(data) > LIMIT_BYTES:
        raise MessageError(f"a message to the {receiver} has {len(data)} bytes, and the limit is {LIMIT_BYTES}")
    try:
        message: Message = _decoders[receiver].decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MessageError(f"invalid message for the {receiver}: {brief(str(error), _WRONG_CHARACTERS)}") from None
    return message
