"""The exchange of one learner with its peers, which it joins at the start and, in mode sync, after each change of them.

Reads: the order's list of learners. Writes nothing; the exchange does (``parameters/interface.py``). Learners in
lock-step join when all listed ones are present. Others join by themselves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf
from typing import NamedTuple

from actorlearn.memory.shared import SegmentError, SharedMemoryFull
from actorlearn.parameters.consumed import Position
from actorlearn.parameters.interface import Exchange, Joined, Learner, PeerLost, Present, Stopped
from actorlearn.parameters.modes import make, mode_of
from actorlearn.parameters.settings import AloneExchangeSettings, ExchangeSettings
from actorlearn.parameters.waits import StragglerWarnings
from actorlearn.wire.control import Control
from actorlearn.wire.endpoints import Endpoints
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import Left

PATIENCE_S = 60.0
"""Seconds to wait for a new list of learners after one was lost; the supervisor detects a death within a second, and a
learner that leaves tells it."""


class Generation(NamedTuple):
    """Trainers that began together and exchange with each other."""

    trainers: tuple[ProcessId, ...] = ()
    number: int = 0
    """Number of the list of trainers; it also changes when a trainer is listed again under its name after a death."""


class Peers:
    """The exchange of one learner, and the learners that it has joined."""

    def __init__(
        self, settings: ExchangeSettings, learner: Learner, control: Control, poll: Callable[[], bool] = lambda: True
    ) -> None:
        """Begin without other learners. ``poll`` reads orders, and returns False if this process is to end."""
        self._settings, self._mode = settings, mode_of(settings)
        self.learner, self._control, self._poll = learner, control, poll
        self._endpoints = (
            Endpoints(control.id, control.run_id, lambda: control.order, control.send, control.folder)
            if settings.host
            else None
        )
        self.exchange: Exchange = make(AloneExchangeSettings(), learner)
        """The exchange that turns gradients into new weights; that of a sole learner until `join` succeeds."""
        self._joined = self._lost = self._warned = Generation()
        self._lost_s = 0.0
        self._stragglers = StragglerWarnings()
        self._leaving_s = inf
        """Time at which `going_on` first saw the order to leave; infinite if there is none."""

    @property
    def joined(self) -> bool:
        """Whether this learner has joined all present learners."""
        return bool(self._joined.trainers) and self._joined == self._wanted()

    @property
    def in_step(self) -> bool:
        """Whether other learners wait for this one's updates, so that it must make an update of every batch."""
        return self._mode.in_step

    @property
    def leaving(self) -> bool:
        """Whether the order tells this learner to finish."""
        order = self._control.order
        return order.phase == "drain" or self._control.id.name in order.leaving

    def going_on(self, finish_s: float) -> bool:
        """Whether a pass continues; called once between two optimizer steps, as learners in lock-step decide together.

        ``finish_s``: seconds for which this learner continues after the order to leave.
        """
        alive, now_s = self._poll(), time.monotonic()
        self._leaving_s = min(self._leaving_s, now_s) if self.leaving else inf
        late = now_s - self._leaving_s >= finish_s
        return alive and not self.exchange.ending(late)

    def join(self, env_steps: int, updates: int, position: Position) -> Joined | None:
        """Join the present learners; returns None if this is not possible yet, and is then called again.

        ``env_steps``, ``updates`` and ``position`` belong to this learner's weights. Raises PeerLost if no new list of
        learners comes within PATIENCE_S of losing one.
        """
        wanted = self._wanted()
        if self._mode.elastic and not self._control.order.version:
            return None  # the first order lists the learners
        if self._control.id not in wanted.trainers or wanted == self._lost:
            if self._lost.trainers and time.monotonic() - self._lost_s > PATIENCE_S:
                among = ", ".join(own.socket_id for own in wanted.trainers)
                raise PeerLost(
                    f"no new list of learners came within {PATIENCE_S:g} s after one of these was lost: {among}"
                )
            return None
        try:
            self._replace_exchange(wanted)
            joined = self.exchange.join(env_steps, updates, position)
        except SharedMemoryFull as error:  # no room for the segment of the meeting; there may be later
            if wanted != self._warned:  # once for each generation
                self._warned = wanted
                self._control.warned(f"cannot join the other learners: {error}; retrying")
            return None
        except (Stopped, SegmentError):  # this process is to end, there is a newer list, or a segment is not finished
            return None
        except PeerLost:
            self._joined = wanted
            self.part()
            return None
        self._joined = wanted
        self._mode.forget_before(self._settings, wanted.number)
        return joined

    def _replace_exchange(self, wanted: Generation) -> None:
        """Replace the exchange by one for this generation, with the same optimizer state."""

        def alive() -> bool:  # after joining, a newer list ends no wait: others still come, or are found to have left
            return self._poll() and wanted in (self._wanted(), self._joined)

        settings = self._mode.among(self._settings, wanted.trainers, self._control.id, wanted.number)
        own = self.learner
        own.carried.together = settings.together
        if not settings.together and own.consumed is not None:
            own.consumed.forget_others(own.number)
        learner = replace(own, alive=alive, present=self.present, warn=self._control.warned, endpoints=self._endpoints)
        before, self.exchange = self.exchange, make(settings, learner)
        self.exchange.restore(before.state())
        before.close()

    def part(self) -> None:
        """Leave a generation that has lost a learner; ``join`` succeeds when a new order lists the present learners."""
        self._lost, self._lost_s, self._joined = self._joined, time.monotonic(), Generation()

    def leave(self) -> None:
        """Leave the others for good; tell the supervisor, so that they go on without this learner while it saves."""
        self.exchange.close()
        self._control.send(Left())

    def straggler(self, metrics: Mapping[str, float], seconds: float) -> str:
        """Return a warning if the others have waited for a straggler repeatedly; otherwise an empty string.

        ``metrics``: those of the exchange for the last ``seconds``.
        """
        if not self._joined.trainers or not self.in_step:
            return ""
        return self._stragglers.read(metrics, seconds, lambda rank: self._joined.trainers[rank].name)

    def present(self) -> Present:
        """Return the learners that the newest order lists."""
        order = self._control.order
        return Present([own.learner for own in order.learners], order.phase == "run")

    def _wanted(self) -> Generation:
        if self._mode.in_step:
            order = self._control.order
            return Generation(tuple(order.learners), order.generation)
        return Generation((self._control.id,))
