"""Machines with cores and links, shared by the jobs on them, in simulated time (SimPy)."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Generator
from typing import Any

import simpy

Steps = Generator[simpy.Event, Any, None]
"""A process, or a part of one, of the simulation."""


class Shared:
    """A resource that its jobs share equally (processor sharing): cores, or one direction of a link.

    A job never uses more than one of the ``servers``, as a thread never uses more than one core. All jobs advance at
    the same speed min(1, servers / jobs), so that it is enough to keep the service which each has had so far.
    """

    def __init__(self, env: simpy.Environment, servers: float = 1.0) -> None:
        """Have no job."""
        self._env, self._servers = env, servers
        self._served_s, self._at_s = 0.0, env.now
        """Service that a job has had which was always there, at this time."""
        self._jobs: list[tuple[float, int, simpy.Event]] = []
        """Heap of: service at which a job is done, its number, the event."""
        self._numbers, self._planned = itertools.count(), 0
        self._busy_s = 0.0

    @property
    def busy_s(self) -> float:
        """Servers' time used so far."""
        self._advance()
        return self._busy_s

    def work(self, seconds: float) -> simpy.Event:
        """Begin a job that takes so long alone; returns the event of its end."""
        done = self._env.event()
        if seconds <= 0:
            return done.succeed()
        self._advance()
        heapq.heappush(self._jobs, (self._served_s + seconds, next(self._numbers), done))
        self._plan()
        return done

    @property
    def _speed(self) -> float:
        return min(1.0, self._servers / len(self._jobs))

    def _advance(self) -> None:
        elapsed_s, self._at_s = self._env.now - self._at_s, self._env.now
        if self._jobs:
            self._served_s += elapsed_s * self._speed
            self._busy_s += elapsed_s * min(self._servers, len(self._jobs))

    def _plan(self) -> None:
        """Wake at the end of the job that is done next, as things are; later arrivals make a new plan."""
        self._planned += 1
        plan, (served_s, _, _) = self._planned, self._jobs[0]
        wake = self._env.timeout(max(0.0, served_s - self._served_s) / self._speed)
        wake.callbacks.append(lambda _: self._finish(served_s) if plan == self._planned else None)

    def _finish(self, served_s: float) -> None:
        self._advance()
        self._served_s = served_s  # without the rounding of clocks
        while self._jobs and self._jobs[0][0] <= served_s:
            heapq.heappop(self._jobs)[2].succeed()
        if self._jobs:
            self._plan()


class Machine:
    """A machine: its cores, and its link in both directions."""

    def __init__(self, env: simpy.Environment, name: str, cores: float) -> None:
        """Have nothing to do."""
        self.name = name
        self.cores, self.out, self.into = Shared(env, cores), Shared(env), Shared(env)
        self.cores_count = cores


class Network:
    """The links between machines, and what a message costs at both ends."""

    def __init__(
        self, env: simpy.Environment, bytes_per_s: float, latency_s: float, hop_s: float, end_s: tuple[float, float]
    ) -> None:
        """``end_s``: processor time of a message at each end, for itself and for each byte."""
        self.env, self._bytes_per_s, self._latency_s, self._hop_s = env, bytes_per_s, latency_s, hop_s
        self._end_s = end_s
        self._connections: dict[tuple[Port, Port], simpy.Resource] = {}
        """From one process to another; its messages go through the link one after the other."""
        self.bytes = 0.0
        """Bytes sent so far, also to processes of the same machine."""

    def send(self, sender: Port, receiver: Port, size: float) -> Steps:
        """Carry a message from one process to another; ends when the receiver has it."""
        self.bytes += size
        yield from sender.handle(self._cost(size))
        if sender.machine is not receiver.machine:
            carried_s = size / self._bytes_per_s
            with self._connection(sender, receiver).request() as turn:
                yield turn
                yield sender.machine.out.work(carried_s) & receiver.machine.into.work(carried_s)
            yield self.env.timeout(self._latency_s)
        yield self.env.timeout(self._hop_s)
        yield from receiver.handle(self._cost(size))

    def _connection(self, sender: Port, receiver: Port) -> simpy.Resource:
        if (sender, receiver) not in self._connections:
            self._connections[sender, receiver] = simpy.Resource(self.env, 1)
        return self._connections[sender, receiver]

    def _cost(self, size: float) -> float:
        return self._end_s[0] + size * self._end_s[1]


class Port:
    """The messages of one process, which one thread encrypts and decrypts, one after the other."""

    def __init__(self, env: simpy.Environment, machine: Machine) -> None:
        """Have no message."""
        self.machine, self._thread = machine, simpy.Resource(env, 1)

    def handle(self, seconds: float) -> Steps:
        """Have the thread work so long, when it is free."""
        if seconds <= 0:
            return
        with self._thread.request() as turn:
            yield turn
            yield self.machine.cores.work(seconds)
