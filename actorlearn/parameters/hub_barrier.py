"""The barrier of learners in mode sync on several machines: its sockets; ``hub.py`` describes the protocol.

The first learner of a generation runs the hub in a thread, and all learners, including the first, connect to it
(``wire/endpoints.py``). If a connection is lost, contributions are sent again until they are answered. A learner stops
waiting when the supervisor's newest order shows that a learner it waits for, or the learner with the hub, is gone or
has begun a newer generation, or that the hub is closed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actorlearn.parameters.consumed import CONSUMED_WORDS
from actorlearn.parameters.frame_headers import HUB, MovedBytes
from actorlearn.parameters.hub import (
    ACKNOWLEDGED,
    CONTRIBUTION,
    LEFT,
    LOST,
    NUMBERS_BYTES,
    Hub,
    HubFrame,
    content_of,
    decode,
    encode,
    numbers_in,
    vectors_in,
)
from actorlearn.parameters.interface import PeerLost, Stopped
from actorlearn.parameters.request_line import RequestLine
from actorlearn.parameters.settings import MOST_LEARNERS
from actorlearn.parameters.waits import Waits
from actorlearn.wire.endpoints import Endpoints
from actorlearn.wire.identity import ProcessId

LINGER_S = 2.0
"""Longest time, in seconds, for which the hub of a leaving learner waits until the others have their last answer."""
_POLL_MS = 20
_HUB_RANK = 0
"""Rank of the learner in whose process the hub runs."""


def most_bytes(weights: int) -> int:
    """Return the size in bytes of the largest message of a learner with ``weights`` weights to the hub."""
    return NUMBERS_BYTES + max(4 * weights, 8 * CONSUMED_WORDS * (1 + MOST_LEARNERS))


class HubServer:
    """A thread that runs the hub (`Hub`) on a TCP port."""

    def __init__(
        self, endpoints: Endpoints, host: str, trainers: Sequence[ProcessId], generation: int, most: int
    ) -> None:
        """Listen on a free port of ``host``; ``most``: bytes of the largest message. Raises ChannelError."""
        self._endpoints, self._trainers = endpoints, trainers
        self._ranks = {trainer.socket_id: rank for rank, trainer in enumerate(trainers)}
        self._generation, self._hub = generation, Hub(len(trainers), generation)
        self._router = endpoints.router(host, HUB.size + most, generation)
        self._over = threading.Event()
        self._fault: BaseException | None = None
        """The error that has ended the thread; None if there was none."""
        self._thread = threading.Thread(target=self._run, name="hub", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise RuntimeError if the thread has failed, because learners would then wait for answers in vain."""
        if self._fault is not None:
            raise RuntimeError("the hub of the learners has failed") from self._fault

    def _run(self) -> None:
        try:
            self._serve()
        except Exception as error:
            self._fault = error
        finally:
            self._router.close()

    def _serve(self) -> None:
        end_s = np.inf
        while time.monotonic() < end_s:
            received = self._router.recv(_POLL_MS)
            gone = self._gone()
            if received is not None:
                self._take(*received)
            over = self._over.is_set()
            self._send(self._hub.miss([*gone, _HUB_RANK] if over else gone))
            if over:
                end_s = min(end_s, time.monotonic() + LINGER_S)
                if not self._hub.unacknowledged([*gone, _HUB_RANK]):
                    break

    def _take(self, peer: str, body: bytes) -> None:
        rank, frame = self._ranks.get(peer), decode(self._endpoints.run, body)
        if rank is not None and frame is not None:
            self._send(self._hub.take(rank, frame))

    def _send(self, frames: dict[int, HubFrame]) -> None:
        """Send messages by rank, the one to the learner in this process last.

        Once answered, this learner competes with this thread for the processor. When it was answered first, an update
        took 13 ms instead of 12 (two learners of Catch, on a core each).
        """
        bodies = {id(frame): encode(self._endpoints.run, frame) for frame in frames.values()}
        for rank in sorted(frames, key=lambda rank: rank == _HUB_RANK):
            self._router.send(self._trainers[rank].socket_id, bodies[id(frames[rank])])

    def _gone(self) -> list[int]:
        """Return the ranks of learners that have died, or that exchange with a newer list of learners.

        A learner that uses a newer list has left this hub, although its message LEFT may not have arrived.
        """
        found = [self._endpoints.endpoint(trainer) for trainer in self._trainers]
        return [rank for rank, each in enumerate(found) if each is None or each.generation > self._generation]

    def close(self) -> None:
        """Wait up to LINGER_S until the other learners have their last answer, and stop listening."""
        self._over.set()
        self._thread.join()
        self._endpoints.closed_hub(self._generation)


class HubBarrier:
    """A barrier as `SharedBarrier`, for learners on several machines, which exchange through a hub."""

    def __init__(
        self,
        endpoints: Endpoints,
        host: str,
        trainers: Sequence[ProcessId],
        generation: int,
        weights: int,
        alive: Callable[[], bool],
    ) -> None:
        """Connect to the hub of these trainers. It runs in the process of the first of them. Raises ChannelError.

        ``generation`` is the number of this list of trainers, and ``weights`` the length of the weight vector.
        ``alive`` returns False if this process must stop waiting.
        """
        self._endpoints, self._generation, self._alive = endpoints, generation, alive
        self._hub_id = trainers[_HUB_RANK]
        self.rank, self.learners = list(trainers).index(endpoints.own), len(trainers)
        self.arrivals = 0
        """Number of barriers at which this learner has arrived."""
        self.moved = MovedBytes()
        """Bytes that were sent to the hub, and bytes of its answers."""
        self.waits = Waits(self.learners)
        self._most = most = most_bytes(weights)
        self._server: HubServer | None = None
        if self.rank == _HUB_RANK:
            self._server = HubServer(endpoints, host, trainers, generation, most)
        else:
            endpoints.begin(generation)
        self._line = RequestLine(endpoints, HUB.size + self.learners * most, self.moved)
        """The connection to the hub."""

    def gather_numbers(self, numbers: Sequence[int], stay: bool = False) -> NDArray[np.int64]:
        """Send integers to all learners, and return those of all, [learners, NUMBERS]."""
        return numbers_in(self._ask(content_of(numbers), 0, stay), self.learners)

    def gather(self, own: NDArray[Any]) -> NDArray[Any]:
        """Send a vector [n] to all learners, and return those of all, [learners, n]."""
        if not own.size:  # RMSProp without centring has an empty vector of means
            return np.empty((self.learners, 0), own.dtype)
        return self._all_brought(self.exchange((), own, ())[1])

    def add(
        self, own: NDArray[np.float32], among: Sequence[int], numbers: Sequence[int] = ()
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Send integers and a vector; returns all learners' integers, and the sum of the vectors of ranks ``among``."""
        all_numbers, total = self.exchange(numbers, own, among)
        return all_numbers, self._all_brought(total)

    def exchange(
        self, numbers: Sequence[int], vector: NDArray[Any], among: Sequence[int]
    ) -> tuple[NDArray[np.int64], NDArray[Any] | None]:
        """Send integers and a vector to all learners; returns all integers, and the sum of the vectors of ``among``.

        ``among`` has ranks. If it is empty, all vectors are returned instead of the sum; None if a learner has sent no
        vector. A learner that is told to end still waits for the others, because they may use its vector. Raises
        ValueError for a vector that is too long.
        """
        answer = self._ask(content_of(numbers, vector), sum(1 << rank for rank in among), stay=True)
        return numbers_in(answer, self.learners), vectors_in(answer, self.learners, vector.dtype)

    def metrics(self) -> dict[str, float]:
        """Return metrics of the straggler, of this learner's waiting time, and of bytes, since the last call."""
        return self.waits.metrics() | self.moved.metrics()

    def close(self) -> None:
        """Leave the other learners for good; a second call does nothing."""
        self._line.send(self._frame(LEFT))
        self._line.close()
        if self._server is not None:
            self._server.close()
            self._server = None

    def _all_brought(self, vectors: NDArray[Any] | None) -> NDArray[Any]:
        if vectors is None:
            raise RuntimeError(
                f"a learner sent no vector to barrier {self.arrivals}, though all must; this is a defect of actorlearn"
            )
        return vectors

    def _frame(self, kind: int, among: int = 0, content: bytes = b"") -> bytes:
        return encode(self._endpoints.run, HubFrame(kind, self._generation, self.arrivals, among, content))

    def _ask(self, content: bytes, among: int, stay: bool) -> HubFrame:
        """Send this learner's content for the next barrier to the hub, and wait for the answer.

        Raises PeerLost, Stopped (unless ``stay``), ValueError for content that is too long, and RuntimeError if the hub
        in this process has failed.
        """
        if len(content) > self._most:  # the hub would close the connection before it reads the message
            longest = self._most - NUMBERS_BYTES
            given = len(content) - NUMBERS_BYTES
            raise ValueError(f"a vector of {given} bytes is too long: the hub takes at most {longest}")
        self.arrivals += 1
        with self.waits.waiting():
            return self._wait(self._frame(CONTRIBUTION, among, content), stay)

    def _wait(self, body: bytes, stay: bool) -> HubFrame:
        """Send a message to the hub until it is answered, and return the answer."""
        while True:
            if self._server is not None:
                self._server.check()
            hub = self._endpoints.endpoint(self._hub_id)
            is_open = hub is not None and hub.generation == self._generation and hub.address is not None
            if hub is not None and is_open:
                self._line.follow(hub)
            self._line.send_due(self.arrivals, body)
            if (answer := self._receive()) is not None:
                return answer
            if not self._alive() and not stay:
                raise Stopped(
                    f"this process was told to end before all learners had arrived at barrier {self.arrivals}"
                )
            if hub is None:
                raise PeerLost(f"{self._hub_id.socket_id}, which ran the hub of the learners, is gone")
            if hub.generation >= self._generation and not is_open:
                raise PeerLost(f"{self._hub_id.socket_id} has closed the hub of the learners")

    def _receive(self) -> HubFrame | None:
        """Return the answer of this barrier; None if it has not come within _POLL_MS. Raises PeerLost."""
        body = self._line.recv(_POLL_MS)
        answer = None if body is None else decode(self._endpoints.run, body)
        if body is None or answer is None or (answer.generation, answer.barrier) != (self._generation, self.arrivals):
            return None
        if answer.kind == LOST:
            raise PeerLost(answer.content.decode("utf-8", "replace"))
        self.moved.received += len(body)
        self._line.send(self._frame(ACKNOWLEDGED))
        return answer
