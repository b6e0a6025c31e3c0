"""Machines in simulated time (SimPy): their cores, and the links between them, which several jobs share."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Generator
from typing import Any

import simpy

from launch.simulate.scenario import Scenario

Steps = Generator[simpy.Event, Any, None]
"""A process of SimPy, or a part of one: a generator of the events for which it waits."""


class Shared:
    """A resource that its jobs share equally (processor sharing): the cores of a machine, or one direction of a link.

    ``servers``: number of cores; 1 for a link. A job uses at most one of them, as a thread uses at most one core. All
    jobs advance at the same speed, min(1, servers / jobs).
    """

    def __init__(self, env: simpy.Environment, servers: float = 1.0) -> None:
        self._env, self.servers = env, servers
        self._served_s, self._at_s = 0.0, env.now
        """Seconds of work that a job present from the start has received by the time ``_at_s``."""
        self._jobs: list[tuple[float, int, simpy.Event]] = []
        """Heap of (value of ``_served_s`` at which the job is done, its number, its event)."""
        self._numbers, self._planned = itertools.count(), 0
        self._busy_s = 0.0

    @property
    def busy_s(self) -> float:
        """Seconds for which the resource was busy so far, summed over its cores."""
        self._advance()
        return self._busy_s

    def work(self, seconds: float) -> simpy.Event:
        """Start a job that would take ``seconds`` alone; return the event of its end."""
        done = self._env.event()
        if seconds <= 0:
            return done.succeed()
        self._advance()
        heapq.heappush(self._jobs, (self._served_s + seconds, next(self._numbers), done))
        self._plan()
        return done

    @property
    def _speed(self) -> float:
        return min(1.0, self.servers / len(self._jobs))

    def _advance(self) -> None:
        elapsed_s, self._at_s = self._env.now - self._at_s, self._env.now
        if self._jobs:
            self._served_s += elapsed_s * self._speed
            self._busy_s += elapsed_s * min(self.servers, len(self._jobs))

    def _plan(self) -> None:
        """Schedule the end of the job that will be done first; called again when another job arrives."""
        self._planned += 1
        plan, (served_s, _, _) = self._planned, self._jobs[0]
        wake = self._env.timeout(max(0.0, served_s - self._served_s) / self._speed)
        wake.callbacks.append(lambda _: self._finish(served_s) if plan == self._planned else None)

    def _finish(self, served_s: float) -> None:
        self._advance()
        self._served_s = served_s  # corrects rounding errors of the simulated time
        while self._jobs and self._jobs[0][0] <= served_s:
            heapq.heappop(self._jobs)[2].succeed()
        if self._jobs:
            self._plan()


class Machine:
    """A machine: its cores, and its link in both directions."""

    def __init__(self, env: simpy.Environment, name: str, cores: float) -> None:
        self.name = name
        self.cores, self.out, self.into = Shared(env, cores), Shared(env), Shared(env)


class SimulatedNetwork:
    """Carries messages over the links between machines, and counts their bytes."""

    def __init__(self, env: simpy.Environment, scenario: Scenario) -> None:
        self.env, self._scenario = env, scenario
        self._connections: dict[tuple[Port, Port], simpy.Resource] = {}
        """(sender, receiver) -> their connection, whose messages use the link one after another."""
        self.bytes = 0.0
        """Bytes sent so far, including those between processes of one machine."""

    def send(self, sender: Port, receiver: Port, size: float) -> Steps:
        """Carry a message of ``size`` bytes from one process to another, until it is received and decrypted."""
        costs = self._scenario.costs
        end_s = costs.message_s + size * costs.byte_s
        self.bytes += size
        yield from sender.handle(end_s)
        if sender.machine is not receiver.machine:
            carried_s = size / self._scenario.link_bytes_per_s
            with self._connection(sender, receiver).request() as turn:
                yield turn
                yield sender.machine.out.work(carried_s) & receiver.machine.into.work(carried_s)
            yield self.env.timeout(self._scenario.latency_s)
        yield self.env.timeout(costs.hop_s)
        yield from receiver.handle(end_s)

    def _connection(self, sender: Port, receiver: Port) -> simpy.Resource:
        if (sender, receiver) not in self._connections:
            self._connections[sender, receiver] = simpy.Resource(self.env, 1)
        return self._connections[sender, receiver]


class Port:
    """The thread of a process that encrypts and decrypts its messages, one after another."""

    def __init__(self, env: simpy.Environment, machine: Machine) -> None:
        self.machine, self._thread = machine, simpy.Resource(env, 1)

    def handle(self, seconds: float) -> Steps:
        """Wait until the thread is free, and let it work for ``seconds``."""
        if seconds <= 0:
            return
        with self._thread.request() as turn:
            yield turn
            yield self.machine.cores.work(seconds)
