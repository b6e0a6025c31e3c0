"""Limits on the connections to the desk's web server.

Any user of this machine can connect to its port, although only requests with the token are answered. The limits keep
such a user from exhausting the server's file descriptors.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import sys
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 128
"""Most connections at a time. A page uses at most six."""
HEADER_S = 10.0
"""Seconds within which a connection must send the header of a request, after it was opened or last answered."""
_BACKLOG = 32
"""Most connections that wait to be accepted, and most that are accepted at once."""
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""Values of errno if no connection can be accepted for lack of descriptors or memory."""
_REPORT_EVERY_S = 60.0
"""Least seconds between two messages about such an error."""


class LimitedProtocol(H11Protocol):
    """A connection that is closed if it does not send the whole header of a request in time.

    Of more than ``MOST`` connections, the one that has waited longest for a header is closed; if none waits, the new
    one.
    """

    _deadline: asyncio.TimerHandle | None = None
    """Timer that closes the connection when ``HEADER_S`` have passed without a whole header."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer of a new connection; close one if there are too many."""
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > MOST:
            others = [its for its in self.connections if isinstance(its, LimitedProtocol) and its is not self]
            waiting = (its for its in others if its.waits_for_header)
            closed = min(waiting, key=LimitedProtocol.deadline_s, default=self)
            self.connections.discard(closed)
            closed.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        super().connection_lost(exc)
        if self._deadline is not None:
            self._deadline.cancel()

    def on_response_complete(self) -> None:
        """Start the timer for the header of the next request."""
        super().on_response_complete()
        self._wait()

    @property
    def waits_for_header(self) -> bool:
        """Whether the connection waits for a header: no request on it is being answered."""
        cycle: Any = self.cycle  # may be None, before the first request
        return cycle is None or cycle.response_complete

    def deadline_s(self) -> float:
        """Return the time, by the event loop's clock, at which the connection is closed without a whole header."""
        return self._deadline.when() if self._deadline is not None else 0.0

    def _wait(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(HEADER_S, self._close_if_waiting)

    def _close_if_waiting(self) -> None:
        if self.waits_for_header:
            self.transport.abort()


class LimitedServer(uvicorn.Server):
    """Uvicorn with limited connections, which reports exhausted file descriptors at most once a minute."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",
                http=LimitedProtocol,
                ws="none",
                lifespan="off",
                log_level="error",  # any user can cause warnings
                backlog=_BACKLOG,
                timeout_graceful_shutdown=1,
            )
        )
        self._reported_s: float | None = None

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal, or until ``should_exit`` is set."""
        asyncio.get_running_loop().set_exception_handler(self._report)
        await super().serve(sockets)

    def _report(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Print an error of the event loop; the frequent error of exhausted descriptors at most once a minute."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in _EXHAUSTED:
            loop.default_exception_handler(context)
        elif self._reported_s is None or loop.time() - self._reported_s >= _REPORT_EVERY_S:
            self._reported_s = loop.time()
            print(f"desk: {error.strerror}: new connections wait until others close", file=sys.stderr, flush=True)
