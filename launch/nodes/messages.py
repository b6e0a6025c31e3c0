"""The messages between the head of a run and the agents of its nodes, and their encoding.

==========  ==========  ============================================================================================
from        to          messages
==========  ==========  ============================================================================================
agent       head        Join, NodeHeartbeat, NodeLeft; numbered (`stream.py`): events of its node (`ToHead`)
head        agent       Welcome, JoinRefused, NodeHeartbeatAck, Fenced; numbered: actions for its node (`ToNode`)
==========  ==========  ============================================================================================

An *epoch* of a node begins when the head admits its agent, and ends when the node leaves or is lost. Only messages of
these types are decoded. A numbered message arrives exactly once and in order within an epoch. The other messages may be
lost or repeated; Join and NodeHeartbeat are sent repeatedly.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from actorlearn.memory.account import LearnerSteps
from actorlearn.memory.progress import ROWS
from actorlearn.registry import decode_settings
from actorlearn.wire.identity import Count, Name
from actorlearn.wire.messages import Message, MessageError, Text, brief
from launch.nodes.stream import BODY_BYTES, Numbered
from launch.plan.nodes import NodeResources
from launch.plan.plan import NodeMessage, Start
from launch.plan.probe import Description
from launch.supervision import events as ev

PROTOCOL_VERSION = 7
"""Increased when a message below, or one between learners, changes; a head refuses an agent of another version."""

CHUNK_BYTES = 128 * 1024
"""Maximum bytes of a file in one message."""
_TOPOLOGY_CHARACTERS = 200_000

FilePath = Annotated[
    str, Meta(pattern=r"^(?:[A-Za-z0-9_-][A-Za-z0-9._-]*/)*[A-Za-z0-9_-][A-Za-z0-9._-]*$", max_length=255)
]
"""Path relative to the folder of a run, without hidden names."""


Accounts = Annotated[dict[Count, LearnerSteps], Meta(max_length=ROWS)]
"""Learner -> its steps on a node, when all its processes there have ended."""


class Join(Message, frozen=True):
    """Sent by an agent that wants to be a node of the run; repeated until it is answered."""

    protocol: int
    version: Name
    agent: Name
    """Random identifier of this agent."""
    session: Name
    """Random identifier of this attempt to join; the agent draws a new one after it has ended all its processes."""
    machine: NodeResources


class JoinOfAnyVersion(msgspec.Struct, frozen=True, kw_only=True, tag="Join"):
    """The fields of Join in all versions, used to refuse an agent of another version; other fields are ignored."""

    protocol: int
    version: Name
    session: Name = ""


class Welcome(Message, frozen=True):
    """Answer to a Join: the agent with this session is now a node of the run, in this epoch."""

    session: Name
    run_id: Name
    epoch: Count
    lease_s: float


class JoinRefused(Message, frozen=True):
    """Answer to a Join: the agent with this session is refused."""

    session: Name
    reason: Text
    final: bool
    """Whether the agent must not try again."""


class NodeHeartbeat(Message, frozen=True):
    """Sent by an agent while it is alive; renews its lease."""

    epoch: Count
    sent_s: float
    """Time of sending by the agent's clock; the answer repeats it."""
    sections: Annotated[list[tuple[Count, list[int]]], Meta(max_length=ROWS)] = msgspec.field(default_factory=list)
    """Row of each living process in the progress segment, and the nanoseconds that it has spent in each section."""


class NodeLeft(Message, frozen=True):
    """Sent by a stopped agent whose processes have ended. Without this message, the head waits for the lease's end."""

    epoch: Count
    accounts: Accounts = msgspec.field(default_factory=dict)


class NodeHeartbeatAck(Message, frozen=True):
    """Answer to a NodeHeartbeat; the lease counts from ``sent_s``."""

    epoch: Count
    sent_s: float


class Fenced(Message, frozen=True):
    """The head has ended the epoch: the agent must end its processes, and may join again."""

    epoch: Count


class Prepare(NodeMessage, frozen=True):
    """Create the folder, memory and sockets for the processes of this run; first message of an epoch."""

    topology: Annotated[str, Meta(max_length=_TOPOLOGY_CHARACTERS)]
    description: Description
    exact: bool
    elapsed_s: float
    """Seconds that the run has taken so far, including those before a resume."""
    resumed: bool = False
    env_steps: Count = 0
    goes_on_from: dict[int, FilePath] = msgspec.field(default_factory=dict)
    """Learner -> checkpoint from which its simulators continue exactly."""


class DropLearner(NodeMessage, frozen=True):
    """Remove the segments of a learner that has left for good."""

    learner: Count


class ReleaseLearner(NodeMessage, frozen=True):
    """A learner moves to another node: end its processes, remove its segments; answered by LearnerReleased."""

    learner: Count


class LearnerReleased(NodeMessage, frozen=True):
    """The processes of a learner have ended on this node, with these final steps."""

    learner: Count
    steps: LearnerSteps


class End(NodeMessage, frozen=True):
    """The run is over: end all processes and leave; answered by NodeEnded."""


class NodeLeaving(NodeMessage, frozen=True):
    """The agent was told to stop: its trainers save and end, then NodeLeft follows. Its node starts no process."""


class NodeEnded(NodeMessage, frozen=True):
    """All processes of the node have ended, and their logs have been sent."""

    accounts: Accounts = msgspec.field(default_factory=dict)


class FileChunk(NodeMessage, frozen=True):
    """Part of a file in a folder that is being copied."""

    folder: FilePath
    file: FilePath
    offset: Count
    data: Annotated[bytes, Meta(max_length=CHUNK_BYTES)]


class CopyDone(NodeMessage, frozen=True):
    """All files of a folder have been sent."""

    folder: FilePath
    present: Annotated[list[Name], Meta(max_length=100_001)] = msgspec.field(default_factory=list)
    """Names of the learner's checkpoint folders that the sender still has; the receiver removes older ones."""
    held_back: ev.Received | None = None
    """Message of the trainer that it has saved this checkpoint, held back until the folder was copied."""
    sizes: dict[FilePath, Count] = msgspec.field(default_factory=dict)
    """Bytes of each file in the folder."""


class LogChunk(NodeMessage, frozen=True):
    """New bytes of a log of a process."""

    file: FilePath
    data: Annotated[bytes, Meta(max_length=CHUNK_BYTES)]


class NodeWarning(NodeMessage, frozen=True):
    """A message could not be understood, carried out or sent; the receiver reports this."""

    text: Text
    folder: FilePath | None = None
    """Folder whose copy has failed; the receiver removes the parts that have arrived."""


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
    | LearnerReleased
    | NodeEnded
)
ToNode = (
    Prepare
    | Start
    | ev.Kill
    | ev.ShowStack
    | ev.Send
    | ev.DropMembers
    | DropLearner
    | ReleaseLearner
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
    """Encode a message; raises MessageError if it is the body of a numbered message and exceeds BODY_BYTES."""
    data = _encoder.encode(message)
    if isinstance(message, NodeMessage) and len(data) > BODY_BYTES:
        raise MessageError(f"{type(message).__name__} has {len(data)} bytes; at most {BODY_BYTES} are allowed")
    return data


def decode(data: bytes, receiver: str) -> Any:
    """Decode a message for ``receiver``: head or agent; reporter (head) or node for the body of a numbered message.

    Raises MessageError.
    """
    try:
        return _decoders[receiver].decode(data)
    except (ValueError, RecursionError) as error:
        raise MessageError(f"invalid message for the {receiver}: {brief(str(error), 500)}") from None


def decode_any_version(data: bytes) -> JoinOfAnyVersion | None:
    """Decode a Join of any version; returns None for other messages."""
    try:
        return _any_version.decode(data)
    except (ValueError, RecursionError):
        return None
