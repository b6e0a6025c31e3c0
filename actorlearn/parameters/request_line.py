"""A line: the connection of a learner to the hub of learners or to a parameter server, for requests and answers.

The line says when to send a request again, so that none is lost. ``wire/endpoints.py`` opens the socket.
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
    """A line to one process. It is opened anew when the process gets a new address."""

    def __init__(self, endpoints: Endpoints, limit_bytes: int, moved: MovedBytes) -> None:
        """Do not connect yet; ``limit_bytes`` is the size of the largest answer, and ``moved`` counts sent bytes."""
        self._endpoints, self._limit_bytes, self._moved = endpoints, limit_bytes, moved
        self._to: Endpoint | None = None
        self._dealer: Dealer | None = None
        self._lost_s = -inf
        """Time at which the connection was last found to be lost."""

    def follow(self, to: Endpoint) -> bool:
        """Open the line to an address unless it is open; returns True if it was opened: requests must be sent again."""
        if to == self._to:
            return False
        if self._dealer is not None:
            self._dealer.close()
        self._to, self._dealer = to, self._endpoints.dealer(to, self._limit_bytes)
        return True

    def is_due(self, sent_s: float) -> bool:
        """Whether to send a request now; ``sent_s`` is the time at which it was sent last, -inf if it was not sent."""
        if self._dealer is None:
            return False
        now_s = time.monotonic()
        if self._dealer.trouble is not None:
            self._lost_s = now_s
        return now_s - sent_s >= (BROKEN_S if sent_s <= self._lost_s else AGAIN_S)

    def send(self, body: bytes) -> bool:
        """Send a request without waiting; returns whether it was sent."""
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
        """Close the line; a second call does nothing."""
        if self._dealer is not None:
            self._dealer.close(_LINGER_MS)
            self._dealer = None
