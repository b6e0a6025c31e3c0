"""The wanted state of a run (`Order`): derived from the run's phase and children, and sent until each has applied it.

The time is that of the children (``Children.now_s``). Actions are issued through ``do``.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from actorlearn.wire.messages import MOST_NAMES, Applied, Order
from launch.supervision import events as ev
from launch.supervision.child import Child
from launch.supervision.children import Children

RESEND_S = 0.5
"""Seconds after which an order is sent again to a child that has not applied it."""
PHASES = {"draining": "drain", "scoring": "score"}
"""Phase of the run -> phase in its orders; for all other phases it is ``run``."""
AT_WORK = ("running", "draining")
"""Phases in which trainers learn."""


class Orders:
    """The newest order of a run, which is sent again until every child has applied it."""

    def __init__(self, children: Children, do: Callable[[ev.Action], None]) -> None:
        self.newest = Order(version=1)
        self._children = children
        self._do = do

    def renew(self, phase: str, saves: int, best_steps: int | None = None) -> None:
        """Derive the wanted state; if it has changed, send it to all admitted children as a new version.

        ``saves``: number of requests for a checkpoint; ``best_steps``: steps of the checkpoint with the best score.
        """
        at_work = phase in AT_WORK
        newest, children = self.newest, self._children
        learners = children.learners() if at_work else children.finished_trainers() if phase == "scoring" else []
        wanted = Order(
            version=newest.version,
            phase=PHASES.get(phase, "run"),
            members=self._children.members() if at_work else [],
            gone=children.gone_members()[:MOST_NAMES] if at_work else [],  # the others follow when these are released
            leaving=self._children.leaving(),
            save=saves,
            best_steps=best_steps,
            learners=learners,
            endpoints=children.endpoints() if at_work else [],
            generation=newest.generation if learners == newest.learners else newest.version + 1,
        )
        if wanted == newest:
            return
        self.newest = msgspec.structs.replace(wanted, version=newest.version + 1)
        for child in self._children.named.values():
            if child.admitted:
                self.send(child)

    def send(self, child: Child) -> None:
        """Send the newest order to one child."""
        child.sent_s = self._children.now_s
        self._do(ev.Send(child.name, child.incarnation, self.newest))

    def applied(self, child: Child, applied: Applied) -> None:
        """Record that a child has applied an order; raises ValueError for an order that was never sent."""
        if applied.order > self.newest.version:
            raise ValueError(
                f"order {applied.order} was reported as applied, but the newest order is {self.newest.version}"
            )
        child.applied = max(child.applied, applied.order)

    def tick(self) -> None:
        """Send the order again to children that have not applied it within RESEND_S."""
        for child in self._children.named.values():
            late = child.applied < self.newest.version and self._children.now_s - child.sent_s >= RESEND_S
            if child.admitted and late:
                self.send(child)
