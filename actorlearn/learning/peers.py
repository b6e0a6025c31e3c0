"""The learners this one exchanges with: joined when all have come, and joined anew when one comes or goes.

Reads: the order's list of learners. Writes: nothing; the exchange does (``parameters/interface.py``). With one learner,
or a store between them, nobody is waited for. Those that gossip join at once too, and are told who there is.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from math import inf
from typing import NamedTuple

from actorlearn.learning.update import Learning
from actorlearn.memory.shared import SegmentError, SharedMemoryFull
from actorlearn.parameters.interface import Joined, PeerLost, Present, Stopped
from actorlearn.parameters.modes import mode_of
from actorlearn.wire.identity import ProcessId
from actorlearn.worker.settings import TrainerSettings
from actorlearn.worker.worker import Worker

PATIENCE_S = 60.0
"""Longest that a new list of learners is awaited after one was lost; the supervisor sees a death within a second."""
STRAGGLING = 0.2
"""Share of time that others must wait for a learner before it is named."""
SURE_AFTER = 3
"""Reports in a row in which it must be the same one: anybody may be late once, and at the start all are."""
NAME_EVERY_S = 30.0


class Generation(NamedTuple):
    """Trainers that exchange with one another, having begun together."""

    trainers: tuple[ProcessId, ...] = ()
    number: int = 0
    """Another one when a trainer is listed anew under the same name: the one before has died."""


class Peers:
    """The other learners of this one, and whether it is joined with all of them."""

    def __init__(self, settings: TrainerSettings, worker: Worker, learning: Learning) -> None:
        """Begin joined with nobody."""
        self._settings = settings
        self._exchange, self._mode = settings.exchange, mode_of(settings.exchange)
        self._worker = worker
        self._learning = learning
        self._joined = self._lost = self._in_want = Generation()
        self._lost_s = 0.0
        self._named_s = -NAME_EVERY_S
        self._suspect, self._suspected = -1, 0
        self._leaving_s = inf
        """Time at which this one was first seen to leave in the middle of a pass."""
        self._order, self._listed = 0, Present()
        """Version of the newest order that was looked at, and the learners in it."""

    @property
    def joined(self) -> bool:
        """Whether this learner is joined with all that there are now."""
        return bool(self._joined.trainers) and self._joined == self._wanted()

    @property
    def in_step(self) -> bool:
        """Whether others wait for this one's update, so that it must make one of every batch."""
        return self._mode.in_step

    @property
    def leaving(self) -> bool:
        """Whether the order tells this learner to finish."""
        order = self._worker.control.order
        return order.phase == "drain" or self._settings.id.name in order.leaving

    def going_on(self) -> bool:
        """Whether a long pass goes on; asked once between two optimizer steps, as those in step ask together."""
        alive, now_s = self._worker.alive(), time.monotonic()
        self._leaving_s = min(self._leaving_s, now_s) if self.leaving else inf
        late = now_s - self._leaving_s >= self._learning.minibatches.finish_s
        return alive and not self._learning.exchange.ending(late)

    def join(self, env_steps: int, updates: int) -> Joined | None:
        """Join those there are now, with weights of so many steps and updates; None while they are not complete."""
        wanted = self._wanted()
        if self._mode.elastic and not self._worker.control.order.version:
            return None  # it says who else there is
        if self._settings.id not in wanted.trainers or wanted == self._lost:
            if self._lost.trainers and time.monotonic() - self._lost_s > PATIENCE_S:
                among = ", ".join(own.socket_id for own in wanted.trainers)
                raise PeerLost(f"no other list of learners came within {PATIENCE_S:g} s of losing one of {among}")
            return None

        def alive() -> bool:  # once joined, a newer list ends no wait: others still come, or are seen to have left
            return self._worker.alive() and wanted in (self._wanted(), self._joined)

        try:
            settings = self._mode.among(self._exchange, wanted.trainers, self._settings.id, wanted.number)
            self._learning.exchange_by(settings, alive, self._present, self._warn)
            joined = self._learning.exchange.join(env_steps, updates)
        except SharedMemoryFull as error:  # where they meet; when there is room again they do
            self._warn_of_want(wanted, f"cannot meet the other learners: {error}; it is tried until it can be")
            return None
        except (Stopped, SegmentError):  # we are to end, there is another list, or the place is still being made
            return None
        except PeerLost:
            self._joined = wanted
            self.part()
            return None
        self._joined = wanted
        self._mode.forget_before(self._exchange, wanted.number)
        return joined

    def part(self) -> None:
        """Leave a generation of which a learner is gone; join again when the order says with whom."""
        self._lost, self._lost_s, self._joined = self._joined, time.monotonic(), Generation()

    def straggler(self, metrics: Mapping[str, float], seconds: float) -> str:
        """Say who kept the others waiting for a good part of this time, now and then; mostly nothing.

        ``metrics`` are those of the exchange in the last so many seconds.
        """
        waited_s, rank = metrics.get("straggler_wait_s", 0.0), int(metrics.get("straggler", -1))
        slow = bool(self._joined.trainers) and waited_s >= STRAGGLING * seconds
        self._suspected = self._suspected + 1 if slow and rank == self._suspect else int(slow)
        self._suspect = rank
        now_s = time.monotonic()
        if self._suspected < SURE_AFTER or now_s - self._named_s < NAME_EVERY_S:
            return ""
        self._named_s = now_s
        name = self._joined.trainers[rank].name
        return f"{name} is slow: the other learners waited {waited_s:.1f} of the last {seconds:.1f} s for it"

    def _warn(self, text: str) -> None:
        self._worker.control.warned(text)

    def _present(self) -> Present:
        """The learners that the newest order lists."""
        order = self._worker.control.order
        if order.version != self._order:
            self._order = order.version
            listed = [own.learner for own in order.learners]
            self._listed = Present(listed, order.phase == "run")
        return self._listed

    def _warn_of_want(self, wanted: Generation, text: str) -> None:
        """Tell once of each list."""
        if wanted != self._in_want:
            self._in_want = wanted
            self._warn(text)

    def _wanted(self) -> Generation:
        if self._mode.in_step:
            order = self._worker.control.order
            return Generation(tuple(order.learners), order.generation)
        return Generation((self._settings.id,))
