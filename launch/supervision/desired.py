"""Tells the processes of a run what they should do, with the message `Order`, until each has confirmed it.

An order describes the wanted state of the whole run: its simulators and trainers, and whether to work, save or end.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from actorlearn.wire.messages import MOST_NAMES, Applied, Order
from launch.supervision import events as ev
from launch.supervision.child import Child
from launch.supervision.children import Children

RESEND_S = 0.5
"""Seconds after which the `Order` is sent again to a process that has not applied it."""
PHASES = {"draining": "drain", "scoring": "score"}
"""Phase of the run -> phase in its orders; for all other phases it is ``run``."""
AT_WORK = ("running", "draining")
"""Phases in which trainers learn."""


class Orders:
    """Makes and sends the `Order` of a run, and sends it again to each process that has not applied it."""

    def __init__(self, children: Children, do: Callable[[ev.Action], None]) -> None:
        self.newest = Order(version=1)
        self._children = children
        self._do = do

    def renew(self, phase: str, saves: int, best_steps: int | None = None) -> None:
        """Derive the wanted state; if it has changed, send it to all running processes as a new version.

        ``phase``: that of the run. ``saves``: number of checkpoints requested so far. ``best_steps``: environment steps
        at which the run had its best score.
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
        """Send the wanted state to one process."""
        child.sent_s = self._children.now_s
        self._do(ev.Send(child.name, child.incarnation, self.newest))

    def applied(self, child: Child, applied: Applied) -> None:
        """Record that a process has applied a version; raises ValueError for a version that was never sent."""
        if applied.order > self.newest.version:
            raise ValueError(
                f"order {applied.order} was reported as applied, but the newest order is {self.newest.version}"
            )
        child.applied = max(child.applied, applied.order)

    def tick(self) -> None:
        """Send the wanted state again to processes that have not applied it within RESEND_S."""
        for child in self._children.named.values():
            late = child.applied < self.newest.version and self._children.now_s - child.sent_s >= RESEND_S
            if child.admitted and late:
                self.send(child)
