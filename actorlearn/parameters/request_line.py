"""A line: the connection of a learner to the hub of learners or to a parameter server, for requests and answers.

A request is sent again until it is answered, so that none is lost. ``wire/endpoints.py`` opens the socket.
"""

from __future__ import annotations

import time
from math import inf

from actorlearn.parameters.frame_headers import MovedBytes
from actorlearn.wire.channel import Dealer
from actorlearn.wire.endpoints import Endpoints
from actorlearn.wire.messages import Endpoint

BROKEN_S = 0.5
"""Seconds after which a request is sent again if the connection was lost."""
AGAIN_S = 10.0
"""Seconds after which a request is sent again if the connection was not lost. This should never be needed."""
_LINGER_MS = 500
"""Longest time, in milliseconds, for which `close` waits until messages are sent."""


class RequestLine:
    """A learner's connection to a server, which repeats each request until it is answered."""

    def __init__(self, endpoints: Endpoints, limit_bytes: int, moved: MovedBytes) -> None:
        """Do not connect yet; ``limit_bytes`` is the size of the largest answer, and ``moved`` counts sent bytes."""
        self._endpoints, self._limit_bytes, self._moved = endpoints, limit_bytes, moved
        self._to: Endpoint | None = None
        self._dealer: Dealer | None = None
        self._request = 0
        """Number of the newest request."""
        self._sent_s: dict[int, float] = {}
        """Time at which each part of this request was last sent on the open connection."""
        self._lost_s = -inf
        """Time at which the connection was last found to be lost."""

    def follow(self, to: Endpoint) -> None:
        """Connect to an address, unless there is a connection to it."""
        if to != self._to:
            if self._dealer is not None:
                self._dealer.close()
            self._to, self._dealer = to, self._endpoints.dealer(to, self._limit_bytes)
            self._sent_s = {}

    def send_due(self, request: int, body: bytes, part: int = 0) -> bool:
        """Send a request, unless it was sent a short time ago; returns whether it was sent.

        ``request`` is its number. A request of several messages has a number for each, ``part``.
        """
        if request != self._request:
            self._request, self._sent_s = request, {}
        if self._dealer is None:
            return False
        now_s, sent_s = time.monotonic(), self._sent_s.get(part, -inf)
        if self._dealer.trouble is not None:
            self._lost_s = now_s
        if now_s - sent_s < (BROKEN_S if sent_s <= self._lost_s else AGAIN_S) or not self.send(body):
            return False
        self._sent_s[part] = time.monotonic()
        return True

    def send(self, body: bytes) -> bool:
        """Send a message without waiting; returns whether it was sent."""
        sent = self._dealer is not None and self._dealer.send(body)
        self._moved.sent += len(body) * sent
        return sent

    def recv(self, timeout_ms: int) -> bytes | None:
        """Return the next answer, or None if none has come within ``timeout_ms`` milliseconds."""
        if self._dealer is None:
            time.sleep(timeout_ms / 1000)
            return None
        return self._dealer.recv(timeout_ms)

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        if self._dealer is not None:
            self._dealer.close(_LINGER_MS)
            self._dealer = None
