"""The head's record of a node in one epoch: the messages for its agent, and its living processes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from launch.nodes.copies import Arriving
from launch.nodes.messages import DropLearner, Join
from launch.nodes.outbox import Outbox
from launch.nodes.stream import Stream
from launch.plan.nodes import NodeResources
from launch.plan.plan import NodeMessage, Start
from launch.spawning.spawner import Key
from launch.supervision import events as ev


@dataclass
class RemoteNode:
    """The head's record of a node, from its admission until it leaves or is lost."""

    name: str
    """Name of the node, given by its key."""
    join: Join
    epoch: int
    joined_s: float
    """Time by the head's clock at which the node joined, in seconds."""
    heard_s: float
    """Time by the head's clock at which the node's newest message arrived, in seconds."""
    arriving: Arriving
    """Checkpoints that are being copied from the node."""
    living: dict[Key, Start] = field(default_factory=dict)
    """Processes of the node, with the actions that started them, until the node reports their ends."""
    has: set[int] = field(default_factory=set)
    """Learners that have processes on the node, or whose final step counts the node has not sent yet."""
    brought: set[int] = field(default_factory=set)
    """Learners whose checkpoints are on the node, because they were copied to it or made on it."""
    following: set[int] = field(default_factory=set)
    """Learners without checkpoints of their own, which begin from those of learner 0.

    Their messages are queued behind the copies of these checkpoints, in the lane of learner 0 (``outbox.py``).
    """
    leaving: bool = False
    """Whether the node's agent was told to stop."""
    ended: bool = False
    """Whether the node has reported that all its processes have ended."""

    def __post_init__(self) -> None:
        self.stream = Stream(self.epoch)
        self.outbox = Outbox(self.stream)

    @property
    def prepared(self) -> bool:
        """Whether the agent has carried out Prepare, the first message; until then, the node has no processes."""
        return self.stream.acknowledged > 0

    @property
    def machine(self) -> NodeResources:
        """Resources of the node's machine."""
        return self.join.machine

    def put(self, message: NodeMessage | Iterator[NodeMessage], learner: int) -> None:
        """Queue a message behind earlier messages about the same learner."""
        self.outbox.put(f"learner-{0 if learner in self.following else learner}", message)

    def do(self, action: Start | ev.Kill | ev.ShowStack | ev.Send | ev.DropMembers | DropLearner, learner: int) -> None:
        """Queue an action for the node's agent."""
        if isinstance(action, Start):
            self.living[action.process.name, action.process.incarnation] = action
        self.put(action, learner)
