"""The learners that this one exchanges with: joined once all are present, and again after each change of the list.

Reads: the order's list of learners. Writes: nothing; the exchange does (``parameters/interface.py``). A sole learner
and learners with a central store join without waiting, and so do learners that gossip, which get the present list.
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
from actorlearn.parameters.waits import StragglerWarnings
from actorlearn.wire.endpoints import Endpoints
from actorlearn.wire.identity import ProcessId
from actorlearn.worker.settings import TrainerSettings
from actorlearn.worker.worker import Worker

PATIENCE_S = 60.0
"""Seconds to wait for a new list of learners after one was lost; the supervisor sees a death within a second."""


class Generation(NamedTuple):
    """Trainers that exchange with one another, having begun together."""

    trainers: tuple[ProcessId, ...] = ()
    number: int = 0
    """Number of the list; it also changes when a trainer is listed again under its name after a death."""


class Peers:
    """The other learners of this one, and whether it is joined with all of them."""

    def __init__(self, settings: TrainerSettings, worker: Worker, learning: Learning) -> None:
        """Begin without having joined."""
        self._settings = settings
        self._exchange, self._mode = settings.exchange, mode_of(settings.exchange)
        self._worker = worker
        control = worker.control
        self._endpoints = (
            Endpoints(settings.id, settings.run_id, lambda: control.order, control.listens)
            if self._exchange.host
            else None
        )
        self._learning = learning
        self._joined = self._lost = self._in_want = Generation()
        self._lost_s = 0.0
        self._stragglers = StragglerWarnings()
        self._leaving_s = inf
        """Time at which this one was first seen to leave in the middle of a pass."""
        self._order, self._listed = 0, Present()
        """Version of the newest order that was looked at, and the learners in it."""

    @property
    def joined(self) -> bool:
        """Whether this learner is joined with all present learners."""
        return bool(self._joined.trainers) and self._joined == self._wanted()

    @property
    def in_step(self) -> bool:
        """Whether other learners wait for this one's updates, so that it must make one of every batch."""
        return self._mode.in_step

    @property
    def leaving(self) -> bool:
        """Whether the order tells this learner to finish."""
        order = self._worker.control.order
        return order.phase == "drain" or self._settings.id.name in order.leaving

    def going_on(self) -> bool:
        """Whether a pass continues; called once between two optimizer steps, as learners in step decide together."""
        alive, now_s = self._worker.alive(), time.monotonic()
        self._leaving_s = min(self._leaving_s, now_s) if self.leaving else inf
        late = now_s - self._leaving_s >= self._learning.minibatches.finish_s
        return alive and not self._learning.exchange.ending(late)

    def join(self, env_steps: int, updates: int) -> Joined | None:
        """Join the present learners, with weights of so many steps and updates; None while some are missing."""
        wanted = self._wanted()
        if self._mode.elastic and not self._worker.control.order.version:
            return None  # the first order lists the learners
        if self._settings.id not in wanted.trainers or wanted == self._lost:
            if self._lost.trainers and time.monotonic() - self._lost_s > PATIENCE_S:
                among = ", ".join(own.socket_id for own in wanted.trainers)
                raise PeerLost(f"no other list of learners came within {PATIENCE_S:g} s of losing one of {among}")
            return None

        def alive() -> bool:  # once joined, a newer list ends no wait: others still come, or are seen to have left
            return self._worker.alive() and wanted in (self._wanted(), self._joined)

        try:
            settings = self._mode.among(self._exchange, wanted.trainers, self._settings.id, wanted.number)
            self._learning.exchange_by(settings, alive, self.present, self._warn, self._endpoints)
            joined = self._learning.exchange.join(env_steps, updates)
        except SharedMemoryFull as error:  # where they meet; when there is room again they do
            self._warn_of_want(wanted, f"cannot join the other learners: {error}; retrying")
            return None
        except (Stopped, SegmentError):  # told to end, a newer list, or a segment still being made
            return None
        except PeerLost:
            self._joined = wanted
            self.part()
            return None
        self._joined = wanted
        self._mode.forget_before(self._exchange, wanted.number)
        return joined

    def part(self) -> None:
        """Leave a generation that has lost a learner; ``join`` follows when a new order lists the present ones."""
        self._lost, self._lost_s, self._joined = self._joined, time.monotonic(), Generation()

    def straggler(self, metrics: Mapping[str, float], seconds: float) -> str:
        """Return a warning about a learner that keeps the others waiting, at times; mostly empty.

        ``metrics``: the exchange's of the last ``seconds``.
        """
        if not self._joined.trainers or not self.in_step:
            return ""
        return self._stragglers.read(metrics, seconds, lambda rank: self._joined.trainers[rank].name)

    def _warn(self, text: str) -> None:
        self._worker.control.warned(text)

    def present(self) -> Present:
        """Return the learners that the newest order lists."""
        order = self._worker.control.order
        if order.version != self._order:
            self._order = order.version
            listed = [own.learner for own in order.learners]
            self._listed = Present(listed, order.phase == "run")
        return self._listed

    def _warn_of_want(self, wanted: Generation, text: str) -> None:
        """Warn once per list."""
        if wanted != self._in_want:
            self._in_want = wanted
            self._warn(text)

    def _wanted(self) -> Generation:
        if self._mode.in_step:
            order = self._worker.control.order
            return Generation(tuple(order.learners), order.generation)
        return Generation((self._settings.id,))
