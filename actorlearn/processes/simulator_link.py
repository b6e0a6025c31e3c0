"""A trainer's link to its simulators: follows orders about them, wakes them when they may continue, waits for them.

Reads: orders. Writes: through ``processes/members.py`` the words of membership; wakes members; reports to the
supervisor the segments that may be removed.
"""

from __future__ import annotations

from actorlearn.processes.members import RolloutMembers
from actorlearn.wire.channel import Waiter
from actorlearn.wire.messages import MOST_NAMES, Order, Released
from actorlearn.wire.wakeup import Wakeup, Wakeups
from actorlearn.worker.settings import TrainerSettings
from actorlearn.worker.worker import POLL_MS, Worker


class SimulatorLink:
    """Orders, wakeups and messages about the members of one learner."""

    def __init__(self, settings: TrainerSettings, worker: Worker, members: RolloutMembers) -> None:
        """Listen on the trainer's own wakeup and its control socket."""
        self._learner, self._worker, self._members = settings.learner, worker, members
        self._waiter = Waiter(Wakeup(settings.wakeup.file), worker.control.dealer)
        self._wakeups = Wakeups()

    def follow(self, order: Order) -> None:
        """Follow the members that an order lists for this learner, and those that have gone."""
        own = [member for member in order.members if member.id.learner == self._learner]
        gone = [member for member in order.gone if member.id.learner == self._learner]
        self._members.follow(own, order.leaving, gone)
        self._say_released()
        self._wakeups.follow({member.id.socket_id: member.wakeup.file for member in own if member.wakeup})

    def open_next(self) -> None:
        """Commit what was learned, and let members begin the rollouts whose blocks that frees."""
        self._members.open_next()
        self._wakeups.wake_all()
        self._say_released()

    def unblock(self) -> None:
        """Call ``RolloutMembers.unblock``, and report members that it released."""
        self._members.unblock()
        self._say_released()

    def wake_all(self) -> None:
        """Wake all members."""
        self._wakeups.wake_all()

    def wait(self) -> None:
        """Sleep until a member wakes this process or an order comes, POLL_MS at most."""
        self._waiter.wait(POLL_MS)

    def wait_following(self) -> bool:
        """Sleep as ``wait`` does and follow the newest order, not reported as applied; False when it is time to end.

        For waits in the middle of something, after which the order is looked at once more.
        """
        self.wait()
        if self._worker.control.ordered:
            self.follow(self._worker.control.order)
        return self._worker.alive()

    def _say_released(self) -> None:
        if released := self._members.released[:MOST_NAMES]:
            self._worker.control.send(Released(peers=released))
            del self._members.released[: len(released)]
