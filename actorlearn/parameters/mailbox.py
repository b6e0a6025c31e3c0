"""Messages between learners: each learner's newest weights, complete, without waiting on either side.

Reads and writes one segment of shared memory per learner, with versioned slots (``parameters/published.py``). Does not
know the graph. ``parameters/socket_mailbox.py`` does the same through sockets.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from actorlearn.address import ByLearner, Ipc, Shm
from actorlearn.memory.shared import Segment, SegmentError
from actorlearn.parameters.published import Published
from actorlearn.parameters.socket_mailbox import SocketMailbox, Ways
from actorlearn.wire.channel import Pull, Push
from actorlearn.wire.endpoints import Endpoints
from actorlearn.wire.messages import Endpoint


def ipc_ways(sockets: ByLearner[Ipc], learner: int) -> Ways:
    """Return the connections between a learner and others on its machine."""

    def dial(to: Ipc | Endpoint) -> Push:
        assert isinstance(to, Ipc)
        return Push(to)

    return Ways(lambda limit_bytes: Pull(sockets.of(learner), limit_bytes), sockets.of, dial)


def tcp_ways(endpoints: Endpoints, host: str) -> Ways:
    """Return the connections between a learner and those on other machines; ``host``: this machine's address."""

    def find(peer: int) -> Endpoint | None:
        found = endpoints.find(endpoints.own.role).get(peer)
        return found if found is not None and found.address is not None else None

    def dial(to: Ipc | Endpoint) -> Push:
        assert isinstance(to, Endpoint)
        return endpoints.push(to)

    return Ways(lambda limit_bytes: endpoints.pull(host, limit_bytes), find, dial, endpoints.run)


class SharedMailbox:
    """Messages in one segment per learner, opened at first use, as learners may be attached later."""

    def __init__(self, messages: ByLearner[Shm], learner: int) -> None:
        """Open nothing yet. Gradients that learners compare also use this class, with other segments."""
        self._messages, self._learner = messages, learner
        self._segments: dict[int, Segment] = {}
        self._posted_ns: dict[int, int] = {}

    def post(self, weights: NDArray[np.float32]) -> int:
        """Make ``weights`` [size] this learner's newest message; returns its version, which never decreases."""
        return self._of(self._learner).publish(weights, time.monotonic_ns())  # the time instead of environment steps

    def version(self, peer: int) -> int:
        """Return the newest version of a learner's message, -1 = none; ``peer`` may be this learner."""
        try:
            return self._of(peer).version
        except (FileNotFoundError, SegmentError):  # not made yet, or not finished
            return -1

    def take(self, peer: int, out: NDArray[np.float32]) -> int:
        """Copy a peer's newest message to ``out`` [size]; returns its version, or -1 (``out`` unchanged) if none."""
        found = self._of(peer).fetch(out) if self.version(peer) >= 0 else None
        if found is None:
            return -1
        version, self._posted_ns[peer] = found
        return version

    def posted_ns(self, peer: int) -> int | None:
        """Return when the peer's message taken last was posted, by the monotonic clock; None before the first."""
        return self._posted_ns.get(peer)

    def close(self) -> None:
        """Unmap the segments; posted messages stay."""
        for segment in self._segments.values():
            segment.close()
        self._segments = {}

    def _of(self, learner: int) -> Published:
        if learner not in self._segments:
            self._segments[learner] = Segment.open(self._messages.of(learner).file)
        return Published(self._segments[learner])


Mailbox = SharedMailbox | SocketMailbox
"""The messages of one learner and of its peers, by learner number; neither side waits."""
