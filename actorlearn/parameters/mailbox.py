"""Messages between learners in mode gossip: each learner posts its newest weights, and others read them at any time.

`SharedMailbox` keeps each learner's message in shared memory. A reader always gets a complete message, and neither side
waits (``parameters/published.py``). ``parameters/socket_mailbox.py`` sends messages through sockets instead.
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
    """Return the functions that connect a learner with others on its machine, through Unix sockets."""

    def dial(to: Ipc | Endpoint) -> Push:
        assert isinstance(to, Ipc)
        return Push(to)

    return Ways(lambda limit_bytes: Pull(sockets.of(learner), limit_bytes), sockets.of, dial)


def tcp_ways(endpoints: Endpoints, host: str) -> Ways:
    """Return the functions that connect a learner with others on other machines; ``host``: this machine's address."""

    def find(peer: int) -> Endpoint | None:
        found = endpoints.find(endpoints.own.role).get(peer)
        return found if found is not None and found.address is not None else None

    def dial(to: Ipc | Endpoint) -> Push:
        assert isinstance(to, Endpoint)
        return endpoints.push(to)

    return Ways(lambda limit_bytes: endpoints.pull(host, limit_bytes), find, dial, endpoints.run)


class SharedMailbox:
    """Messages in shared memory, in a segment for each learner; also used for gradients, in other segments."""

    def __init__(self, messages: ByLearner[Shm], learner: int) -> None:
        """Keep the addresses; segments are opened at first use, because learners may be attached later."""
        self._messages, self._learner = messages, learner
        self._segments: dict[int, Segment] = {}
        self._posted_ns: dict[int, int] = {}
        """Time at which the newest message that was read from each learner was posted."""

    def post(self, weights: NDArray[np.float32]) -> int:
        """Make ``weights`` [size] this learner's newest message; returns its version, which never decreases."""
        return self._of(self._learner).publish(weights, time.monotonic_ns())  # the time instead of environment steps

    def version(self, peer: int) -> int:
        """Return the version of a learner's newest message, -1 = none; ``peer`` may be this learner."""
        try:
            return self._of(peer).version
        except (FileNotFoundError, SegmentError):  # the segment is not made yet, or is being made
            return -1

    def take(self, peer: int, out: NDArray[np.float32]) -> int:
        """Copy a peer's newest message to ``out`` [size]; returns its version, or -1 if there is no message."""
        found = self._of(peer).fetch(out) if self.version(peer) >= 0 else None
        if found is None:
            return -1
        version, self._posted_ns[peer] = found
        return version

    def posted_ns(self, peer: int) -> int | None:
        """Return the time at which the peer's message that was taken last was posted; None before the first.

        It is a time of the monotonic clock, in nanoseconds.
        """
        return self._posted_ns.get(peer)

    def close(self) -> None:
        """Close the segments; messages stay in shared memory."""
        for segment in self._segments.values():
            segment.close()
        self._segments = {}

    def _of(self, learner: int) -> Published:
        if learner not in self._segments:
            self._segments[learner] = Segment.open(self._messages.of(learner).file)
        return Published(self._segments[learner])


Mailbox = SharedMailbox | SocketMailbox
"""A mailbox through shared memory or through sockets; both have the same methods."""
