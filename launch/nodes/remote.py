"""A node as the head of its run knows it: messages for its agent, and its living processes, in one epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from actorlearn.wire.messages import Finished
from launch.nodes import messages
from launch.nodes.copies import Arriving
from launch.nodes.messages import DropLearner, DropMembers, Join
from launch.nodes.outbox import Outbox
from launch.nodes.stream import Numbered, Stream
from launch.plan.nodes import NodeResources
from launch.plan.plan import NodeMessage, Start
from launch.spawning.spawner import Key
from launch.supervision import events as ev


@dataclass
class RemoteNode:
    """One node from its welcome until it leaves or is lost."""

    name: str
    """Name of its key."""
    join: Join
    epoch: int
    heard_s: float
    """Clock of the head at which its newest message came."""
    arriving: Arriving
    """Checkpoints that are being copied from it."""
    living: dict[Key, Start] = field(default_factory=dict)
    """Incarnations that were to be started there, and whose ends were not reported."""
    has: set[int] = field(default_factory=set)
    """Learners whose checkpoints are there."""
    leaving: bool = False
    """Whether its agent was told to stop."""
    ended: bool = False
    """Whether it has reported that all its processes have ended."""

    def __post_init__(self) -> None:
        """Begin its stream."""
        self.stream = Stream(self.epoch)
        self.outbox = Outbox(self.stream)

    @property
    def machine(self) -> NodeResources:
        """Resources of its machine."""
        return self.join.machine

    def put(self, message: NodeMessage | Iterator[NodeMessage], learner: int) -> None:
        """Send a message behind those about the same learner."""
        self.outbox.put(f"learner-{learner}", message)

    def do(self, action: Start | ev.Kill | ev.ShowStack | ev.Send | DropMembers | DropLearner, learner: int) -> None:
        """Have an action carried out."""
        if isinstance(action, Start):
            self.living[action.process.name, action.process.incarnation] = action
        self.put(action, learner)

    def ignores(self, event: NodeMessage) -> bool:
        """Whether an event has no effect: the end of a process of a node that is leaving."""
        ends = isinstance(event, ev.Exited) or (isinstance(event, ev.Received) and isinstance(event.message, Finished))
        return self.leaving and ends

    def may_report(self, event: NodeMessage) -> bool:
        """Whether the node may send this event: a node reports only its own processes."""
        if isinstance(event, ev.Spawned | ev.NotSpawned | ev.Exited | ev.Received | ev.Silent | ev.Stalled):
            return (event.name, event.incarnation) in self.living
        return True

    def record(self, event: NodeMessage) -> None:
        """Record which processes live there."""
        if isinstance(event, ev.Exited | ev.NotSpawned):
            self.living.pop((event.name, event.incarnation), None)

    def send(self, now_s: float, send: Callable[[bytes], bool]) -> None:
        """Send what is due."""

        def frame(numbered: Numbered) -> bool:
            return send(messages.encode(numbered))

        self.outbox.pump()
        self.stream.send(now_s, frame)
