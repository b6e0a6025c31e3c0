"""A line (connection) on which a learner sends requests to the hub of learners or to a parameter server.

Reads and writes one socket (``wire/endpoints.py``). A request is sent again until it is answered.
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
"""Seconds after which a request is sent again if the connection was not lost, in which case no message should be
lost."""
_LINGER_MS = 500
"""Longest time for which `close` waits for unsent messages."""


class RequestLine:
    """A line to one process, which is opened anew when the process has a new address."""

    def __init__(self, endpoints: Endpoints, limit_bytes: int, moved: MovedBytes) -> None:
        """Open nothing yet. ``limit_bytes``: largest size of an answer. ``moved`` counts the bytes of requests."""
        self._endpoints, self._limit_bytes, self._moved = endpoints, limit_bytes, moved
        self._to: Endpoint | None = None
        self._dealer: Dealer | None = None
        self._lost_s = -inf
        """Time at which the connection was last found to be lost."""

    def follow(self, to: Endpoint) -> bool:
        """Open the line to an address, unless it is open; returns whether it was opened, so that all is sent again."""
        if to == self._to:
            return False
        if self._dealer is not None:
            self._dealer.close()
        self._to, self._dealer = to, self._endpoints.dealer(to, self._limit_bytes)
        return True

    def is_due(self, sent_s: float) -> bool:
        """Whether to send a request that was sent last at this time: for the first time (-inf), or again."""
        if self._dealer is None:
            return False
        now_s = time.monotonic()
        if self._dealer.trouble is not None:
            self._lost_s = now_s
        return now_s - sent_s >= (BROKEN_S if sent_s <= self._lost_s else AGAIN_S)

    def send(self, body: bytes) -> bool:
        """Send without blocking; returns whether it was sent."""
        sent = self._dealer is not None and self._dealer.send(body)
        self._moved.sent += len(body) * sent
        return sent

    def recv(self, timeout_ms: int) -> bytes | None:
        """Return the next body, or None if none came in time."""
        if self._dealer is None:
            time.sleep(timeout_ms / 1000)
            return None
        return self._dealer.recv(timeout_ms)

    def close(self) -> None:
        """Close; a second call does nothing."""
        if self._dealer is not None:
            self._dealer.close(_LINGER_MS)
            self._dealer = None
