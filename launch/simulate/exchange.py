"""The exchanges of learners: messages and waits after a gradient, for each way to exchange, in simulated time.

Each exchange is what ``actorlearn/parameters`` does in that mode, message by message. Where a learner waits for others
it says for how long, as ``waited_s``; the rest of its exchange is messages and the work on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import simpy

from actorlearn.parameters.meetings import HEADER
from actorlearn.parameters.mixing import in_peers, neighbours
from actorlearn.parameters.rendezvous import NUMBERS
from launch.simulate.network import Machine, Network, Port, Steps
from launch.simulate.scenario import Scenario

_NUMBERS_BYTES = 8.0 * NUMBERS
"""Numbers of a learner by which all agree on the next batch; a hub's header goes before them."""


@dataclass
class Peer:
    """One learner as the others meet it."""

    number: int
    port: Port
    waited_s: float = 0.0
    """Time spent waiting for other learners so far."""
    base: int = 0
    """Version of the shared weights by which it computes."""
    exchanges: int = 0
    """Exchanges so far, or mixes in gossip."""
    staleness: list[int] = field(default_factory=list)
    dropped: int = 0
    """Gradients that came too late to be used."""


class Exchange(Protocol):
    """A way to exchange; the weights' new version after each optimizer step."""

    def agree(self, peer: Peer) -> Steps:
        """Begin an update, with all others where learners are in lock-step."""

    def step(self, peer: Peer) -> Steps:
        """Turn a gradient into new weights."""


@dataclass
class _Place:
    """Base of all exchanges."""

    env: simpy.Environment
    scenario: Scenario
    network: Network

    def optimize(self, peer: Peer) -> simpy.Event:
        """Change all weights by the own optimizer."""
        return peer.port.machine.cores.work(self.scenario.costs.optimizer_s)

    def wait(self, peer: Peer, event: simpy.Event) -> Steps:
        """Wait for others, and count the time."""
        began_s = self.env.now
        yield event
        peer.waited_s += self.env.now - began_s


@dataclass
class Alone(_Place):
    """Learners that do not exchange."""

    def agree(self, peer: Peer) -> Steps:
        """Do nothing."""
        yield from ()

    def step(self, peer: Peer) -> Steps:
        """Take a step of the own optimizer."""
        yield self.optimize(peer)


@dataclass
class _Barrier:
    """A place where so many learners wait until all are there."""

    env: simpy.Environment
    learners: int
    here: int = 0

    def __post_init__(self) -> None:
        self.complete = self.env.event()

    def arrive(self) -> simpy.Event:
        """Return the event of the last one's arrival, and begin anew with that."""
        self.here += 1
        complete = self.complete
        if self.here == self.learners:
            self.here, self.complete = 0, self.env.event()
            complete.succeed()
        return complete


@dataclass
class LockStep(_Place):
    """Learners of one machine that add all gradients in shared memory (``parameters/allreduce.py``)."""

    def __post_init__(self) -> None:
        self._barrier = _Barrier(self.env, self.scenario.learners)

    def agree(self, peer: Peer) -> Steps:
        """Wait for all."""
        yield from self.wait(peer, self._barrier.arrive())
        yield self.env.timeout(self.scenario.costs.hop_s)

    def step(self, peer: Peer) -> Steps:
        """Show the gradient, wait for all, add them, and take the step that all take."""
        yield from self.agree(peer)
        yield peer.port.machine.cores.work(self.scenario.costs.add_s * self.scenario.learners)
        yield self.optimize(peer)


@dataclass
class Hub(_Place):
    """Learners of several machines that meet at a hub, a thread of the first one (``remote_rendezvous.py``)."""

    at: Machine

    def __post_init__(self) -> None:
        self._port, self._thread = Port(self.env, self.at), simpy.Resource(self.env, 1)
        self._barrier = _Barrier(self.env, self.scenario.learners)

    def agree(self, peer: Peer) -> Steps:
        """Meet with a few numbers; the hub answers with those of all."""
        own, learners = HEADER.size + _NUMBERS_BYTES, self.scenario.learners
        yield from self._meet(peer, own, own + (learners - 1) * _NUMBERS_BYTES, 0.0)

    def step(self, peer: Peer) -> Steps:
        """Meet with the gradient; the hub adds, and answers with the sum."""
        size = self.scenario.vector_bytes
        yield from self._meet(peer, size, size, self.scenario.costs.add_s)
        yield self.optimize(peer)

    def _meet(self, peer: Peer, said: float, answer: float, add_s: float) -> Steps:
        yield from self.network.send(peer.port, self._port, said)
        with self._thread.request() as turn:
            yield turn
            yield self.at.cores.work(add_s)
        yield from self.wait(peer, self._barrier.arrive())
        yield from self.network.send(self._port, peer.port, answer)
        self.env.process(self.network.send(peer.port, self._port, HEADER.size))  # it has the answer


@dataclass
class Store(_Place):
    """A store of one machine that each learner changes by itself (``asynchronous.py``)."""

    version: int = 0

    def agree(self, peer: Peer) -> Steps:
        """Do nothing."""
        yield from ()

    def step(self, peer: Peer) -> Steps:
        """Change the store, every ``local_steps`` steps, and take its weights; locks of chunks are seldom met."""
        yield self.optimize(peer)
        peer.exchanges += 1
        if peer.exchanges % self.scenario.local_steps == 0:
            peer.staleness.append(self.version - peer.base)
            self.version += 1
            peer.base = self.version


@dataclass
class Servers(_Place):
    """Parameter servers, each with its part of the weights; learners change them each by itself."""

    machines: Sequence[Machine]
    version: int = 0
    """Changes of all weights so far."""

    def __post_init__(self) -> None:
        self._ports = [Port(self.env, machine) for machine in self.machines]
        self._threads = [simpy.Resource(self.env, 1) for _ in self.machines]

    def agree(self, peer: Peer) -> Steps:
        """Tell each server what was learned from; nobody answers."""
        yield from ()
        for port in self._ports:
            self.env.process(self.network.send(peer.port, port, self.scenario.header_bytes))

    def step(self, peer: Peer) -> Steps:
        """Push each server its part, every ``local_steps`` steps; it changes it, and answers with the new weights."""
        peer.exchanges += 1
        if peer.exchanges % self.scenario.local_steps:
            return
        yield self.push(peer)
        yield self.apply()
        peer.staleness.append(self.version - peer.base)
        self.version += 1
        version = self.version
        yield self.pull(peer)
        peer.base = version

    def push(self, peer: Peer) -> simpy.Event:
        """Send each server its part of a gradient."""
        return self._all(self.network.send(peer.port, port, self._part_bytes) for port in self._ports)

    def pull(self, peer: Peer) -> simpy.Event:
        """Have each server send its part of the weights."""
        return self._all(self.network.send(port, peer.port, self._part_bytes) for port in self._ports)

    def apply(self, seconds: float | None = None) -> simpy.Event:
        """Have each server work on its part: an optimizer step, or so many seconds for the whole."""
        whole_s = self.scenario.costs.optimizer_s if seconds is None else seconds
        return self._all(self._work(at, whole_s / len(self.machines)) for at in range(len(self.machines)))

    def _work(self, server: int, seconds: float) -> Steps:
        with self._threads[server].request() as turn:
            yield turn
            yield self.machines[server].cores.work(seconds)

    def _all(self, parts: Iterator[Steps]) -> simpy.Event:
        return self.env.all_of([self.env.process(part) for part in parts])

    @property
    def _part_bytes(self) -> float:
        s = self.scenario
        return s.header_bytes + s.weight_bytes * s.weights / len(self.machines)


@dataclass
class Quorum(Servers):
    """Parameter servers that make a new version of the first K gradients of the last; later ones are dropped."""

    fresh: int = 0
    """Gradients of the present version that have come."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._made = self.env.event()

    def step(self, peer: Peer) -> Steps:
        """Push a gradient; wait for the version that it makes, unless it is too late, and pull the newest."""
        yield self.push(peer)
        yield self.apply(self.scenario.costs.add_s)
        if peer.base < self.version:
            peer.dropped += 1
        else:
            self.fresh += 1
            peer.staleness.append(0)
            if self.fresh == self.scenario.quorum:
                self.fresh, made, self._made = 0, self._made, self.env.event()
                yield self.apply()
                self.version += 1
                made.succeed()
            else:
                yield from self.wait(peer, self._made)
        version = self.version
        yield self.pull(peer)
        peer.base = version


@dataclass
class _Edge:
    """Messages from one learner to another; only the newest waits while one is on its way."""

    sent: int = 0
    """Number of the newest message that was given to it."""
    arrived: int = 0
    used: int = 0
    busy: bool = False


@dataclass
class Gossip(_Place):
    """Learners with weights of their own, which they mix with those of their in-peers (``gossip.py``)."""

    peers: Sequence[Peer]

    def __post_init__(self) -> None:
        numbers, graph = range(self.scenario.learners), self.scenario.graph
        sources = {number: neighbours(graph, numbers, number) for number in numbers}
        self._edges = {(source, to): _Edge() for to, found in sources.items() for source in found}
        self._readers = {number: [to for to, found in sources.items() if number in found] for number in numbers}
        self._news = [self.env.event() for _ in numbers]
        self._unmixed = [0 for _ in numbers]
        self._steps = [0 for _ in numbers]

    def agree(self, peer: Peer) -> Steps:
        """Do nothing."""
        yield from ()

    def step(self, peer: Peer) -> Steps:
        """Take a step of the own optimizer; every ``local_steps`` post the weights, and mix if in-peers' are there."""
        yield self.optimize(peer)
        self._steps[peer.number] += 1
        if self._steps[peer.number] % self.scenario.local_steps:
            return
        for reader in self._readers[peer.number]:
            self._post(peer, self.peers[reader])
        sources = in_peers(self.scenario.graph, range(self.scenario.learners), peer.number, peer.exchanges)
        edges = [self._edges[source, peer.number] for source in sources]
        most = self.scenario.max_staleness
        if most is not None and self._unmixed[peer.number] >= most:
            while not all(edge.arrived > edge.used for edge in edges):
                yield from self.wait(peer, self._news[peer.number])
        if edges and all(edge.arrived > edge.used for edge in edges):
            yield peer.port.machine.cores.work(self.scenario.costs.add_s * len(edges))
            for edge in edges:
                edge.used = edge.arrived
            self._unmixed[peer.number] = 0
            peer.exchanges += 1
        else:
            self._unmixed[peer.number] += 1
        peer.staleness.append(self._unmixed[peer.number])

    def _post(self, peer: Peer, to: Peer) -> None:
        edge = self._edges[peer.number, to.number]
        edge.sent += 1
        if not edge.busy:
            self.env.process(self._carry(edge, peer, to))

    def _carry(self, edge: _Edge, peer: Peer, to: Peer) -> Steps:
        edge.busy = True
        while edge.arrived < edge.sent:
            sent = edge.sent
            if self.scenario.machines > 1 or self.scenario.nodes > 1:
                yield from self.network.send(peer.port, to.port, self.scenario.vector_bytes)
            edge.arrived = sent
            news, self._news[to.number] = self._news[to.number], self.env.event()
            news.succeed()
        edge.busy = False
