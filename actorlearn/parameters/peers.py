"""Connects a learner with its peers (the other learners): joins them, joins again when they change, and leaves them.

The supervisor's orders list the learners of the run. In mode sync, a learner joins when all listed learners are
present, and again after each change of the list. In other modes it joins at any time. The exchange
(``parameters/interface.py``) does the rest.
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
"""Longest wait, in seconds, for a new list of learners after one was lost. The supervisor usually needs a second: it
detects deaths, and is told by learners that leave."""


class Generation(NamedTuple):
    """A list of the trainers that exchange with each other; in modes other than sync, only this learner's trainer."""

    trainers: tuple[ProcessId, ...] = ()
    number: int = 0
    """Number of this list of trainers. A restarted trainer makes a new list too."""


class Peers:
    """Connects one learner with the others: joins them, leaves them, and joins again when learners come or go."""

    def __init__(
        self, settings: ExchangeSettings, learner: Learner, control: Control, poll: Callable[[], bool] = lambda: True
    ) -> None:
        """Start without other learners. ``poll`` reads the supervisor's messages; False: this process must end."""
        self._settings, self._mode = settings, mode_of(settings)
        self.learner, self._control, self._poll = learner, control, poll
        self._endpoints = (
            Endpoints(control.id, control.run_id, lambda: control.order, control.send, control.folder)
            if settings.host
            else None
        )
        self.exchange: Exchange = make(AloneExchangeSettings(), learner)
        """The exchange that turns gradients into new weights. Until `join` succeeds, it is that of a single learner."""
        self._joined = self._lost = self._warned = Generation()
        """The list of learners that this one exchanges with; the last list from which a learner was lost; and the last
        list that could not be joined for lack of shared memory."""
        self._lost_s = 0.0
        """Time at which a learner was last lost."""
        self._stragglers = StragglerWarnings()
        self._leaving_s = inf
        """Time at which `going_on` first saw that this learner has to finish; infinite before."""

    @property
    def joined(self) -> bool:
        """Whether this learner exchanges with all learners that the supervisor has listed last."""
        return bool(self._joined.trainers) and self._joined == self._wanted()

    @property
    def learners(self) -> list[int]:
        """Numbers of the learners that this one has joined last, its own included; empty before it has joined any."""
        return sorted(trainer.learner for trainer in self._joined.trainers or self._lost.trainers)

    @property
    def in_step(self) -> bool:
        """Whether learners are in mode sync. The others then wait for this learner at every update."""
        return self._mode.in_step

    @property
    def leaving(self) -> bool:
        """Whether the supervisor has told this learner to finish."""
        order = self._control.order
        return order.phase == "drain" or self._control.id.name in order.leaving

    def going_on(self, finish_s: float) -> bool:
        """Whether to continue an update; called exactly once between two optimizer steps.

        Learners in mode sync decide this together. After the supervisor has told this learner to finish, it continues
        for ``finish_s`` seconds.
        """
        alive, now_s = self._poll(), time.monotonic()
        self._leaving_s = min(self._leaving_s, now_s) if self.leaving else inf
        late = now_s - self._leaving_s >= finish_s
        return alive and not self.exchange.ending(late)

    def join(self, env_steps: int, updates: int, position: Position) -> Joined | None:
        """Join the learners that are in the run now. Returns None if that is not possible yet; call it again then.

        The arguments are the step counts and the next rollout that belong to this learner's weights. Raises PeerLost if
        a learner was lost and the supervisor has listed no others for PATIENCE_S seconds.
        """
        wanted = self._wanted()
        if self._mode.elastic and not self._control.order.version:
            return None  # the first order lists the learners
        if self._control.id not in wanted.trainers or wanted == self._lost:
            if self._lost.trainers and time.monotonic() - self._lost_s > PATIENCE_S:
                among = ", ".join(trainer.socket_id for trainer in wanted.trainers)
                raise PeerLost(
                    f"the supervisor sent no new list of learners within {PATIENCE_S:g} s after one of "
                    f"these was lost: {among}"
                )
            return None
        try:
            self._replace_exchange(wanted)
            joined = self.exchange.join(env_steps, updates, position)
        except SharedMemoryFull as error:  # for the segment of the barrier; there may be room later
            if wanted != self._warned:  # once for each generation
                self._warned = wanted
                self._control.warned(f"cannot join the other learners: {error}; retrying")
            return None
        except (Stopped, SegmentError):  # this process has to end, there is a newer list, or a segment is being made
            return None
        except PeerLost:
            self._joined = wanted
            self.part()
            return None
        self._joined = wanted
        self._mode.forget_before(self._settings, wanted.number)
        return joined

    def _replace_exchange(self, wanted: Generation) -> None:
        """Replace the exchange by one with these trainers, with the same optimizer state."""

        def alive() -> bool:  # once joined, a newer list ends no wait: others still come, or are found to have left
            return self._poll() and wanted in (self._wanted(), self._joined)

        settings = self._mode.among(self._settings, wanted.trainers, self._control.id, wanted.number)
        self.learner.carried.together = settings.together
        if not settings.together:
            self.learner.consumed.forget_others(self.learner.number)
        learner = replace(
            self.learner, alive=alive, present=self.present, warn=self._control.warned, endpoints=self._endpoints
        )
        before, self.exchange = self.exchange, make(settings, learner)
        self.exchange.restore(before.state())
        before.close()

    def part(self) -> None:
        """Leave the learners after one was lost; `join` succeeds once the supervisor has listed those that remain."""
        self._lost, self._lost_s, self._joined = self._joined, time.monotonic(), Generation()

    def leave(self) -> None:
        """Leave the other learners for good, and tell the supervisor, so that they do not wait while this one saves."""
        self.exchange.close()
        self._control.send(Left())

    def straggler(self, metrics: Mapping[str, float], seconds: float) -> str:
        """Return a warning if the other learners have repeatedly waited for the same one (a straggler); otherwise "".

        ``metrics`` are those of the exchange for the last ``seconds`` seconds.
        """
        if not self._joined.trainers or not self.in_step:
            return ""
        return self._stragglers.read(metrics, seconds, lambda rank: self._joined.trainers[rank].name)

    def present(self) -> Present:
        """Return the learners of the run, as the supervisor's newest message `Order` lists them."""
        order = self._control.order
        return Present([own.learner for own in order.learners], order.phase == "run")

    def _wanted(self) -> Generation:
        if self._mode.in_step:
            order = self._control.order
            return Generation(tuple(order.learners), order.generation)
        return Generation((self._control.id,))
