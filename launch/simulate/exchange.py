"""Simulates how learners exchange gradients or weights, with a class for each way to exchange.

Each class sends the messages that ``actorlearn/parameters`` sends in this mode. The methods are processes of SimPy:
they yield events, and take simulated time. ``agree`` simulates the messages of learners before they learn from a batch,
and ``step`` the use of a gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import simpy

from actorlearn.parameters.barrier import NUMBERS
from actorlearn.parameters.frame_headers import HUB
from actorlearn.parameters.mixing import in_peers, neighbours
from launch.simulate.network import Machine, Port, SimulatedNetwork, Steps
from launch.simulate.scenario import Exchanging, Scenario

_NUMBERS_BYTES = 8.0 * NUMBERS
"""Size of the numbers that a learner sends to a hub at each barrier."""


@dataclass
class Peer:
    """A learner's part in exchanges: its version of the weights, and what has been counted so far."""

    number: int
    port: Port
    waited_s: float = 0.0
    """Time spent waiting for other learners so far."""
    base: int = 0
    """Version of the shared weights with which the learner computes."""
    exchanges: int = 0
    """In gossip, the number of times that it has mixed weights; otherwise, the number of its optimizer steps."""
    staleness: list[int] = field(default_factory=list)
    """Staleness of each of its gradients; in gossip, of its weights at each exchange."""
    dropped: int = 0
    """Gradients that arrived too late to be used."""


@dataclass
class SimulatedExchange:
    """A way in which learners exchange; this base class is that of one learner, which exchanges nothing."""

    env: simpy.Environment
    scenario: Scenario
    network: SimulatedNetwork
    peers: Sequence[Peer]
    servers: Sequence[Machine]
    """Machine of each parameter server."""

    def agree(self, peer: Peer) -> Steps:
        """Agree with the other learners before the next batch; this class does nothing."""
        yield from ()

    def step(self, peer: Peer) -> Steps:
        """Make new weights from a gradient; this class uses only the learner's own optimizer."""
        yield self.optimize(peer)

    def exchanges_now(self, peer: Peer) -> bool:
        """Count an optimizer step; return whether the learners exchange gradients or weights after it.

        They do after every ``local_steps`` optimizer steps, and after the last optimizer step of an update.
        """
        batch = max(1, round(self.scenario.work.optimizer_steps))
        step = peer.exchanges % batch + 1
        peer.exchanges += 1
        return step % self.scenario.local_steps == 0 or step == batch

    def optimize(self, peer: Peer) -> simpy.Event:
        """Take a step of the learner's optimizer; return the event of its end."""
        return peer.port.machine.cores.work(self.scenario.costs.optimizer_s)

    def wait(self, peer: Peer, event: simpy.Event) -> Steps:
        """Wait for other learners, until an event; add the time to ``peer.waited_s``."""
        began_s = self.env.now
        yield event
        peer.waited_s += self.env.now - began_s


@dataclass
class _Barrier:
    env: simpy.Environment
    learners: int
    here: int = 0

    def __post_init__(self) -> None:
        self.complete = self.env.event()

    def arrive(self) -> simpy.Event:
        """Count a learner that arrives; return the event that the last one has arrived."""
        self.here += 1
        complete = self.complete
        if self.here == self.learners:
            self.here, self.complete = 0, self.env.event()
            complete.succeed()
        return complete


@dataclass
class LockStepExchange(SimulatedExchange):
    """Mode sync on one machine: learners add their gradients in shared memory (``parameters/allreduce.py``)."""

    def __post_init__(self) -> None:
        self._barrier = _Barrier(self.env, self.scenario.learners)

    def agree(self, peer: Peer) -> Steps:
        """Wait for all learners."""
        yield from self.wait(peer, self._barrier.arrive())
        yield self.env.timeout(self.scenario.costs.hop_s)

    def step(self, peer: Peer) -> Steps:
        """If an exchange is due, wait for all learners and add the gradients or weights; then take the step."""
        if self.exchanges_now(peer):
            yield from self.agree(peer)
            yield peer.port.machine.cores.work(self.scenario.costs.add_s * self.scenario.learners)
        yield self.optimize(peer)


@dataclass
class HubExchange(SimulatedExchange):
    """Mode sync on several machines (``parameters/hub_barrier.py``).

    The hub, a thread of the first learner's trainer, receives all gradients, adds them and sends the sum back.
    """

    def __post_init__(self) -> None:
        self._port, self._thread = Port(self.env, self.peers[0].port.machine), simpy.Resource(self.env, 1)
        self._barrier = _Barrier(self.env, self.scenario.learners)

    def agree(self, peer: Peer) -> Steps:
        """Agree through the hub, unless the agreement is sent together with the first gradient."""
        if self.scenario.agrees_apart:
            yield from self._exchange(peer, HUB.size, 0.0)

    def step(self, peer: Peer) -> Steps:
        """If an exchange is due, send the gradient or weights to the hub and receive the sum; then take the step."""
        if self.exchanges_now(peer):
            yield from self._exchange(peer, self.scenario.vector_bytes, self.scenario.costs.add_s)
        yield self.optimize(peer)

    def _exchange(self, peer: Peer, size: float, add_s: float) -> Steps:
        """Send ``size`` bytes to the hub, which adds them in ``add_s`` seconds; receive the sum of all learners."""
        yield from self.network.send(peer.port, self._port, size + _NUMBERS_BYTES)
        with self._thread.request() as turn:
            yield turn
            yield self._port.machine.cores.work(add_s)
        yield from self.wait(peer, self._barrier.arrive())
        yield from self.network.send(self._port, peer.port, size + self.scenario.learners * _NUMBERS_BYTES)
        self.env.process(self.network.send(peer.port, self._port, HUB.size))  # the learner confirms the answer


@dataclass
class StoreExchange(SimulatedExchange):
    """Mode async on one machine: learners change a store of weights in shared memory (``asynchronous.py``)."""

    version: int = 0
    """Number of changes of the store so far."""

    def step(self, peer: Peer) -> Steps:
        """Take the step; every ``local_steps`` steps, change the store and read it; waiting for locks is ignored."""
        yield self.optimize(peer)
        peer.exchanges += 1
        if peer.exchanges % self.scenario.local_steps == 0:
            peer.staleness.append(self.version - peer.base)
            self.version += 1
            peer.base = self.version


@dataclass
class _Shard:
    """A part of the weights on a parameter server, which is changed independently of the other parts."""

    server: int
    """Number of its server."""
    made: simpy.Event
    """Event that the next version is made."""
    version: int = 0
    """Number of changes so far."""
    fresh: int = 0
    """With a quorum: number of gradients for the present version that have arrived."""
    bases: dict[int, int] = field(default_factory=dict)
    """Number of a learner -> the version with which it computes."""


@dataclass
class ServersExchange(SimulatedExchange):
    """Mode async with parameter servers: learners push gradients to shards of the weights, and pull new weights."""

    def __post_init__(self) -> None:
        self._ports = [Port(self.env, machine) for machine in self.servers]
        self._threads = [simpy.Resource(self.env, 1) for _ in self.servers]
        numbers = range(len(self.servers) * self.scenario.shards)
        self._shards = [_Shard(number // self.scenario.shards, self.env.event()) for number in numbers]

    def agree(self, peer: Peer) -> Steps:
        """Send each server the counts of the batch; servers do not answer."""
        yield from ()
        for port in self._ports:
            self.env.process(self.network.send(peer.port, port, self.scenario.header_bytes))

    def step(self, peer: Peer) -> Steps:
        """Every ``local_steps`` steps, push the gradient to all shards, and pull their new weights."""
        peer.exchanges += 1
        if peer.exchanges % self.scenario.local_steps:
            return
        yield self.env.all_of([self.env.process(self._exchange(peer, shard)) for shard in self._shards])

    def _exchange(self, peer: Peer, shard: _Shard) -> Steps:
        s, port = self.scenario, self._ports[shard.server]
        size = s.header_bytes + s.weight_bytes * s.weights / len(self._shards)
        yield from self.network.send(peer.port, port, size)
        yield from self.take(peer, shard)
        version = shard.version
        yield from self.network.send(port, peer.port, size)
        shard.bases[peer.number] = version

    def take(self, peer: Peer, shard: _Shard) -> Steps:
        """Apply a gradient that has arrived at a shard, with the server's optimizer."""
        yield from self.work(shard, self.scenario.costs.optimizer_s)
        if shard is self._shards[0]:
            peer.staleness.append(shard.version - shard.bases.get(peer.number, 0))
        shard.version += 1

    def work(self, shard: _Shard, seconds: float) -> Steps:
        """Let the server of a shard work for this shard's part of ``seconds``, the time for all shards together."""
        with self._threads[shard.server].request() as turn:
            yield turn
            yield self.servers[shard.server].cores.work(seconds / len(self._shards))


@dataclass
class QuorumExchange(ServersExchange):
    """Parameter servers with ``learners.quorum`` K: the first K gradients of a version make the next version.

    Later gradients of this version are dropped.
    """

    def take(self, peer: Peer, shard: _Shard) -> Steps:
        """Add a gradient that has arrived at a shard, and wait for the next version; drop it if it is too late."""
        first = shard is self._shards[0]
        yield from self.work(shard, self.scenario.costs.add_s)
        if shard.bases.get(peer.number, 0) < shard.version:
            peer.dropped += first
            return
        shard.fresh += 1
        if first:
            peer.staleness.append(0)
        if shard.fresh == self.scenario.quorum:
            shard.fresh, shard.version, made, shard.made = 0, shard.version + 1, shard.made, self.env.event()
            yield from self.work(shard, self.scenario.costs.optimizer_s)
            made.succeed()
        elif first:
            yield from self.wait(peer, shard.made)
        else:
            yield shard.made


@dataclass
class _Edge:
    """The messages from one learner to another. While one is in transit, only the newest of the others is kept."""

    sent: int = 0
    """Number of the newest message that was handed over for sending."""
    arrived: int = 0
    """Number of the newest message that has arrived."""
    used: int = 0
    """Number of the newest message that was mixed."""
    busy: bool = False
    """Whether a message is on its way."""


@dataclass
class GossipExchange(SimulatedExchange):
    """Mode gossip: each learner mixes its weights with those of its neighbours in the graph (``gossip.py``)."""

    def __post_init__(self) -> None:
        numbers, graph = range(self.scenario.learners), self.scenario.graph
        sources = {number: neighbours(graph, numbers, number) for number in numbers}
        self._edges = {(source, to): _Edge() for to, found in sources.items() for source in found}
        self._readers = {number: [to for to, found in sources.items() if number in found] for number in numbers}
        self._news = [self.env.event() for _ in numbers]
        self._unmixed = [0 for _ in numbers]
        self._steps = [0 for _ in numbers]

    def step(self, peer: Peer) -> Steps:
        """Take the step; every ``local_steps`` steps, send the weights, and mix if those of all in-peers have come."""
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


EXCHANGES: dict[Exchanging, type[SimulatedExchange]] = {
    "alone": SimulatedExchange,
    "lock-step": LockStepExchange,
    "hub": HubExchange,
    "store": StoreExchange,
    "servers": ServersExchange,
    "quorum": QuorumExchange,
    "gossip": GossipExchange,
}
