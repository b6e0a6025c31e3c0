"""A node at the head of its run: what has been sent to its agent and what lives there, in one epoch."""

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
    """Clock of the head at which something came from it last."""
    arriving: Arriving
    """Checkpoints that are being copied from it."""
    living: dict[Key, Start] = field(default_factory=dict)
    """Incarnations that were to be started there, and whose ends have not been heard of."""
    has: set[int] = field(default_factory=set)
    """Learners whose checkpoints are there."""
    leaving: bool = False
    """Whether its agent was told to stop."""
    ended: bool = False
    """Whether it has said that the run is over for it."""

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

    def ignores(self, told: NodeMessage) -> bool:
        """Whether this is not to be heard: how processes of a node that is leaving end, as all are lost together."""
        ends = isinstance(told, ev.Exited) or (isinstance(told, ev.Received) and isinstance(told.message, Finished))
        return self.leaving and ends

    def may_report(self, told: NodeMessage) -> bool:
        """Whether it may tell this: a node speaks of its own processes."""
        if isinstance(told, ev.Spawned | ev.NotSpawned | ev.Exited | ev.Received | ev.Silent | ev.Stalled):
            return (told.name, told.incarnation) in self.living
        return True

    def record(self, event: NodeMessage) -> None:
        """Record what lives there."""
        if isinstance(event, ev.Exited | ev.NotSpawned):
            self.living.pop((event.name, event.incarnation), None)

    def send(self, now_s: float, send: Callable[[bytes], bool]) -> None:
        """Send what is due."""

        def frame(numbered: Numbered) -> bool:
            return send(messages.encode(numbered))

        self.outbox.pump()
        self.stream.send(now_s, frame)
