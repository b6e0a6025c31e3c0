"""Every message between the head of a run and the agents of its nodes, and how it is put into bytes.

==========  ==========  ============================================================================================
from        to          messages
==========  ==========  ============================================================================================
agent       head        Join, NodeHeartbeat, NodeLeft; numbered (`stream.py`): events of its node (`ToHead`)
head        agent       Welcome, JoinRefused, NodeHeartbeatAck, Fenced; numbered: actions for its node (`ToNode`)
==========  ==========  ============================================================================================

Everything is decoded against closed unions. A numbered message arrives exactly once and in order within a node epoch;
the others may be lost or repeated, and are sent again until they are answered.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from actorlearn.memory.progress import ROWS
from actorlearn.registry import decode_settings
from actorlearn.wire.identity import Count, Name
from actorlearn.wire.messages import Message, MessageError, Text, brief
from launch.nodes.stream import BODY_BYTES, Numbered
from launch.plan.nodes import NodeResources
from launch.plan.plan import NodeMessage, Start
from launch.plan.probe import Description
from launch.supervision import events as ev

PROTOCOL_VERSION = 4
"""Raised whenever a struct below changes; an agent and a head of different versions refuse one another."""

CHUNK_BYTES = 128 * 1024
"""Most bytes of a file in one message."""
MOST_DROPPED = 256
_TOPOLOGY_CHARACTERS = 200_000

FilePath = Annotated[
    str, Meta(pattern=r"^(?:[A-Za-z0-9_-][A-Za-z0-9._-]*/)*[A-Za-z0-9_-][A-Za-z0-9._-]*$", max_length=255)
]
"""Path below the folder of a run, without hidden names."""


class Join(Message, frozen=True):
    """An agent wants to be a node of the run; repeated until it is answered."""

    protocol: int
    version: Name
    agent: Name
    """Random word of this agent."""
    session: Name
    """Random word of this attempt: another one than before when the agent has ended all processes."""
    machine: NodeResources


class JoinOfAnyVersion(msgspec.Struct, frozen=True, kw_only=True, tag="Join"):
    """The fields of a Join that every version has, by which an agent of another one is turned away; others are passed
    over."""

    protocol: int
    version: Name
    session: Name = ""


class Welcome(Message, frozen=True):
    """The agent of this session is a node of the run in this epoch."""

    session: Name
    run_id: Name
    epoch: Count
    lease_s: float


class JoinRefused(Message, frozen=True):
    """The agent of this session is refused."""

    session: Name
    reason: Text
    final: bool
    """Whether the agent must not try again."""


class NodeHeartbeat(Message, frozen=True):
    """An agent is alive."""

    epoch: Count
    sent_s: float
    """The agent's own clock, which the answer repeats."""
    sections: Annotated[list[tuple[Count, list[int]]], Meta(max_length=ROWS)] = msgspec.field(default_factory=list)
    """Rows of living processes, with the nanoseconds that each has spent in each section."""


class NodeLeft(Message, frozen=True):
    """An agent was stopped; all its processes have ended. If this is lost, its lease runs out."""

    epoch: Count


class NodeHeartbeatAck(Message, frozen=True):
    """Answer to a NodeHeartbeat: the lease counts from ``sent_s``."""

    epoch: Count
    sent_s: float


class Fenced(Message, frozen=True):
    """The epoch is over: the agent must end its processes, and may join anew."""

    epoch: Count


class Prepare(NodeMessage, frozen=True):
    """Make folder, memory and sockets for the processes of this run; first message of an epoch."""

    topology: Annotated[str, Meta(max_length=_TOPOLOGY_CHARACTERS)]
    description: Description
    exact: bool
    elapsed_s: float
    """Seconds since the run's time zero."""
    resumed: bool = False
    env_steps: Count = 0
    goes_on_from: dict[int, FilePath] = msgspec.field(default_factory=dict)
    """Learner -> checkpoint from which its simulators continue exactly."""


class DropMembers(NodeMessage, frozen=True):
    """Remove the segments of these ended simulators, which trainers no longer need."""

    ids: Annotated[list[Name], Meta(max_length=MOST_DROPPED)]
    """Ids on sockets, one for each incarnation."""


class DropLearner(NodeMessage, frozen=True):
    """Remove the segments of a learner that has left for good."""

    learner: Count


class End(NodeMessage, frozen=True):
    """End all processes and leave: the run is over; answered by NodeEnded."""


class NodeLeaving(NodeMessage, frozen=True):
    """The agent was told to stop: its trainers save and end, and NodeLeft follows. Nothing more is started there."""


class NodeEnded(NodeMessage, frozen=True):
    """All processes of the node have ended, and everything that they left has been sent."""


class FileChunk(NodeMessage, frozen=True):
    """Part of a file of a folder that is being copied."""

    folder: FilePath
    file: FilePath
    offset: Count
    data: Annotated[bytes, Meta(max_length=CHUNK_BYTES)]


class CopyDone(NodeMessage, frozen=True):
    """All files of a folder have been sent; of its neighbours these are still there."""

    folder: FilePath
    present: Annotated[list[Name], Meta(max_length=100_001)] = msgspec.field(default_factory=list)
    held_back: ev.Received | None = None
    """Message of a process that was held back until the folder was copied."""


class LogChunk(NodeMessage, frozen=True):
    """Lines that processes have written to a log."""

    file: FilePath
    data: Annotated[bytes, Meta(max_length=CHUNK_BYTES)]


class NodeWarning(NodeMessage, frozen=True):
    """A message that was not understood, or was too large to be sent; it is reported."""

    text: Text
    folder: FilePath | None = None
    """Folder whose copy has failed: what has arrived of it is removed."""


ToHead = (
    ev.Spawned
    | ev.NotSpawned
    | ev.Exited
    | ev.Received
    | ev.Silent
    | ev.Stalled
    | FileChunk
    | CopyDone
    | LogChunk
    | NodeWarning
    | NodeLeaving
    | NodeEnded
)
ToNode = (
    Prepare
    | Start
    | ev.Kill
    | ev.ShowStack
    | ev.Send
    | DropMembers
    | DropLearner
    | FileChunk
    | CopyDone
    | NodeWarning
    | End
)

_encoder = msgspec.msgpack.Encoder()
_any_version = msgspec.msgpack.Decoder(JoinOfAnyVersion)
_decoders: dict[str, msgspec.msgpack.Decoder[Any]] = {
    "head": msgspec.msgpack.Decoder(Join | NodeHeartbeat | NodeLeft | Numbered),
    "agent": msgspec.msgpack.Decoder(Welcome | JoinRefused | NodeHeartbeatAck | Fenced | Numbered),
    "reporter": msgspec.msgpack.Decoder(ToHead),
    "node": msgspec.msgpack.Decoder(ToNode, dec_hook=decode_settings),
}


def encode(message: Message | NodeMessage) -> bytes:
    """Encode a message; raises MessageError for the body of a numbered one when it exceeds BODY_BYTES."""
    data = _encoder.encode(message)
    if isinstance(message, NodeMessage) and len(data) > BODY_BYTES:
        raise MessageError(f"{type(message).__name__} of {len(data)} bytes: at most {BODY_BYTES}; send less at a time")
    return data


def decode(data: bytes, receiver: str) -> Any:
    """Decode a message for head or agent, or the body of a numbered one for reporter or node; raises MessageError."""
    try:
        return _decoders[receiver].decode(data)
    except (ValueError, RecursionError) as error:
        raise MessageError(f"no message for the {receiver}: {brief(str(error), 500)}") from None


def decode_any_version(data: bytes) -> JoinOfAnyVersion | None:
    """Decode a Join whose other fields may be unknown here; None for other messages."""
    try:
        return _any_version.decode(data)
    except (ValueError, RecursionError):
        return None
