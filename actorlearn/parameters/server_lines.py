"""A learner's lines (connections) to the parameter servers.

A request is sent again until it is answered. The servers and their addresses are listed by the supervisor's newest
order. ``wire/endpoints.py`` opens the sockets.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from math import inf

from actorlearn.failpoints import hit
from actorlearn.parameters.frame_headers import MovedBytes
from actorlearn.parameters.interface import Present, Stopped
from actorlearn.parameters.request_line import RequestLine
from actorlearn.parameters.shard_frames import ShardFrame, decode, encode
from actorlearn.parameters.shard_layout import ROLE
from actorlearn.wire.endpoints import Endpoints

MISSED_S = 3.0
"""Longest wait, in seconds, for a server that has no address while the run ends; servers are then not restarted."""
_POLL_MS = 20


class ServerLines:
    """The connections of one learner to all parameter servers."""

    def __init__(
        self,
        endpoints: Endpoints,
        server_of: Callable[[int], int],
        limit_bytes: int,
        alive: Callable[[], bool],
        present: Callable[[], Present],
    ) -> None:
        """Do not connect yet.

        ``server_of`` returns the server that keeps a shard. ``limit_bytes`` is the size of the largest answer.
        ``alive`` is called at least every 50 ms during a wait; it returns False if the wait must end.
        """
        self._endpoints, self._server_of = endpoints, server_of
        self._alive, self._present = alive, present
        self.moved = moved = MovedBytes()
        """Bytes of requests and answers."""
        self._lines = defaultdict[int, RequestLine](lambda: RequestLine(endpoints, limit_bytes, moved))
        self._requests = 0
        """Number of calls of `ask`, which numbers the requests."""
        self._missed_s: dict[int, float] = {}
        """Time since which each server without an address has had none."""
        self.waited_s = 0.0
        """Seconds spent waiting for answers."""

    def ask(self, requests: Mapping[int, ShardFrame], patience_s: float = inf) -> dict[int, ShardFrame]:
        """Send a request to each of several shards at the same time; returns the answers, by shard.

        Raises Stopped after ``patience_s`` seconds or, if that is infinite, when this process is told to end. Also
        raises Stopped if a server is gone and will not be restarted.
        """
        began_s = time.monotonic()
        self._requests += 1
        run = self._endpoints.run
        bodies = {shard: encode(run, request._replace(request=self._requests)) for shard, request in requests.items()}
        answers: dict[int, ShardFrame] = {}
        while bodies:
            for server in sorted({self._server_of(shard) for shard in bodies}):
                self._send(server, {shard: body for shard, body in bodies.items() if self._server_of(shard) == server})
            first = self._server_of(min(bodies))
            for answer in self._receive(first):
                if bodies.pop(answer.shard, None) is not None:
                    answers[answer.shard] = answer
                    hit("server_lines.answered")
            if bodies:
                self._check_waiting(patience_s, time.monotonic() - began_s)
        self.waited_s += time.monotonic() - began_s
        return answers

    def post(self, frame: ShardFrame) -> None:
        """Send a message that needs no answer, if there is a connection to its server."""
        self._lines[self._server_of(frame.shard)].send(encode(self._endpoints.run, frame))

    def close(self) -> None:
        """Close all connections."""
        for line in self._lines.values():
            line.close()

    def _send(self, server: int, bodies: Mapping[int, bytes]) -> None:
        """Send those requests to a server that are due, if its address is known."""
        found = self._endpoints.find(ROLE).get(server)
        if found is None or found.address is None:
            self._missed_s.setdefault(server, time.monotonic())
            return
        self._missed_s.pop(server, None)
        line = self._lines[server]
        line.follow(found)
        for shard, body in bodies.items():
            if line.send_due(self._requests, body, shard):
                hit("server_lines.sent")

    def _receive(self, first: int) -> list[ShardFrame]:
        """Return the answers that have come from all servers; wait up to _POLL_MS for one from server ``first``."""
        found: list[ShardFrame] = []
        for server in sorted({first, *self._lines}, key=lambda each: each != first):
            wait_ms = _POLL_MS if server == first else 0
            while (body := self._lines[server].recv(wait_ms)) is not None:
                wait_ms = 0
                answer = decode(self._endpoints.run, body)
                if answer is not None and answer.request == self._requests and self._server_of(answer.shard) == server:
                    self.moved.received += len(body)
                    found.append(answer)
        return found

    def _check_waiting(self, patience_s: float, waited_s: float) -> None:
        """Raise Stopped if the wait for answers, which has taken ``waited_s`` seconds, must end."""
        alive = self._alive()
        if waited_s >= patience_s or (not alive and patience_s == inf):
            raise Stopped(f"parameter servers did not answer within {waited_s:.1f} s, or this process was told to end")
        if not self._present().stays and self._missed_s and time.monotonic() - min(self._missed_s.values()) > MISSED_S:
            raise Stopped(f"{ROLE}-{min(self._missed_s)} is gone, and no server is restarted while the run ends")
