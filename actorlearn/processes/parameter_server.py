"""A parameter server: keeps shards (parts of the weights, with their optimizer state) in mode async.

Learners send it requests (``parameters/shard_frames.py``) over TCP, encrypted with CURVE. It applies their gradients
and answers with new weights. A change is written to shared memory before it is answered. If the server is killed, it
therefore restarts with every change that it has answered. It reports the rate of new versions, the staleness of
gradients and the straggler, and warns of refused connections.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress

import numpy as np
import torch

from actorlearn.address import Shm
from actorlearn.algorithms.make import extra_networks
from actorlearn.algorithms.make import make as make_algorithm
from actorlearn.failpoints import hit
from actorlearn.memory.fields import Field
from actorlearn.memory.record import CommittedRecord
from actorlearn.memory.shared import Segment, SegmentError
from actorlearn.metrics.registry import STALENESS_SHOWN
from actorlearn.models.make import flatten
from actorlearn.models.make import make as make_model
from actorlearn.models.normalize import merge_into
from actorlearn.models.several import spans
from actorlearn.optim.groups import GroupedOptimizer, groups_within, make_groups
from actorlearn.optim.interface import make as make_optimizer
from actorlearn.optim.schedules import for_batches
from actorlearn.parameters.shard import Answers, Content, OptimizerRule, Shard, StatisticsRule, UpdateRule
from actorlearn.parameters.shard_frames import decode, encode, most_bytes
from actorlearn.parameters.shard_layout import Sharding, shard_fields
from actorlearn.parameters.waits import StragglerWarnings
from actorlearn.wire.endpoints import Endpoints
from actorlearn.wire.identity import trainer_id
from actorlearn.wire.messages import Report
from actorlearn.worker.settings import ParameterServerSettings
from actorlearn.worker.worker import POLL_MS, Worker

_TRAINER = trainer_id(0).role
Metrics = dict[str, float]
"""Metrics of a report, by name."""


class ParameterServer:
    """Keeps some shards (parts of the weights) of mode async, and serves the requests of learners on a socket."""

    def __init__(
        self,
        settings: ParameterServerSettings,
        rules: Mapping[int, UpdateRule],
        endpoints: Endpoints,
        read_orders: Callable[[], None] = lambda: None,
    ) -> None:
        """Restore the shards that this server has left in shared memory before a restart, make the others, and listen.

        ``rules`` has the update rule of each of this server's shards, by number of the shard. ``read_orders`` reads the
        orders that have arrived, which list the learners in ``endpoints``. Raises ChannelError if the server cannot
        listen, and SharedMemoryFull.
        """
        self._endpoints, self._quorum, self._read_orders = endpoints, settings.quorum, read_orders
        self.shards: dict[int, Shard] = {}
        self._memory: dict[int, ShardMemory] = {}
        most = 0
        for number, rule in rules.items():
            vectors, scalars = rule.state()
            size, groups = rule.weights.numel(), max(rule.rates, 1)
            most = max(most, most_bytes(size, len(vectors), settings.learners, groups, len(scalars)))
            fields = shard_fields(size, len(vectors), settings.learners)
            memory = self._memory[number] = ShardMemory(settings.memory.numbered(number), fields)
            quorum = 0 if isinstance(rule, StatisticsRule) else settings.quorum  # moments are merged, not averaged
            shard = self.shards[number] = Shard(number, rule, settings.learners, quorum)
            if (kept := memory.load(len(scalars))) is not None:
                shard.restore(kept)
        self._router = endpoints.router(settings.host, most)
        self._warned_by = StragglerWarnings()
        self._reported = self.staleness()
        self._reported_s = self._looked_s = time.monotonic()
        self._made = 0

    def serve(self, timeout_ms: int) -> None:
        """Wait up to ``timeout_ms`` for a request, process it, and send the answers that are due.

        An answer is sent later than its request if it needs the gradients of other learners (``learners.quorum``).
        """
        received = self._router.recv(timeout_ms)
        if received is not None:
            self._read_orders()  # a learner sends its first request as soon as an order lists it
        now_s = time.monotonic()
        present = {number: each.id.socket_id for number, each in self._endpoints.find(_TRAINER).items()}
        if received is not None:
            peer, body = received
            frame = decode(self._endpoints.run, body)
            learner = next((number for number, socket_id in present.items() if socket_id == peer), None)
            if frame is not None and learner is not None and frame.shard in self.shards:
                shard = self.shards[frame.shard]
                self._send(frame.shard, shard.take(learner, frame, now_s), present)
        for number, shard in self.shards.items():
            self._send(number, shard.due(present, now_s), present)

    def staleness(self) -> list[int]:
        """Return how many gradients of each staleness 0, 1, … were applied; the last number includes greater ones."""
        found = [0] * (STALENESS_SHOWN + 1)
        for shard in self.shards.values():
            for stale, count in shard.staleness.items():
                found[min(stale, STALENESS_SHOWN)] += count
        return found

    def report(self, every_s: float) -> tuple[Metrics, str]:
        """Return metrics since the last report, and a warning of a straggler or an empty text.

        Both are empty if ``every_s`` seconds have not passed, or no gradient was applied. Servers receive gradients in
        different orders, so only the server of shard 0 warns of a straggler.
        """
        made, seconds = self._first.made - self._made, time.monotonic() - self._reported_s
        if not made or seconds < every_s:
            return {}, ""
        before, self._reported = self._reported, self.staleness()
        self._made, self._reported_s = self._first.made, time.monotonic()
        shares = _shares([now - then for now, then in zip(self._reported, before, strict=True)])
        row = {"versions_per_s": made / seconds, **shares}
        if not self._quorum:
            return row, ""
        row |= self._first.stragglers.metrics()
        return row, self._warned_by.read(row, seconds, lambda rank: trainer_id(rank).name) if 0 in self.shards else ""

    def refusals(self, every_s: float) -> list[str]:
        """Return a log line for each refused connection, at most once in ``every_s`` seconds.

        A refused connection may be accepted soon after, when the supervisor has announced its process.
        """
        if time.monotonic() - self._looked_s < every_s:
            return []
        self._looked_s = time.monotonic()
        return self._router.refusals()

    @property
    def _first(self) -> Shard:
        """The first shard of this server, whose rate of versions is reported."""
        return self.shards[min(self.shards)]

    def close(self) -> None:
        """Stop listening. The shards stay in shared memory."""
        self._router.close()
        for memory in self._memory.values():
            memory.close()

    def _send(self, number: int, answers: Answers, present: dict[int, str]) -> None:
        shard = self.shards[number]
        if shard.changed:
            hit("parameter_server.changed")
            self._memory[number].keep(shard.content())
            shard.changed = False
            hit("parameter_server.kept")
        for learner, answer in answers.items():
            if learner in present:
                self._router.send(present[learner], encode(self._endpoints.run, answer))
                hit("parameter_server.answered")


class ShardMemory:
    """The state of a shard in shared memory, where it survives the death of the server.

    The segment has two slots. One is written while the other stays valid, so a server that is killed during a write has
    changed nothing.
    """

    def __init__(self, address: Shm, fields: list[Field]) -> None:
        """Open the segment, or make it if it does not exist; raises SharedMemoryFull."""
        self._segment = segment = _segment_at(address, fields)
        self._record = CommittedRecord(segment["commits"], segment["words"], segment["scalars"], segment["vectors"])

    def load(self, scalars: int) -> Content | None:
        """Return the newest state, with ``scalars`` scalars of the optimizer; None if nothing was written yet."""
        if not self._record.commits:
            return None
        words, numbers, vectors = self._record.now
        return Content(words.copy(), numbers[:scalars].copy(), [torch.from_numpy(vector.copy()) for vector in vectors])

    def keep(self, content: Content) -> None:
        """Replace the state atomically."""
        _, _, spare = self._record.before
        for row, vector in zip(spare, content.vectors, strict=True):
            row[:] = vector.numpy()
        self._record.replace(content.words, content.scalars, np.empty((0, spare.shape[1]), np.float32))

    def close(self) -> None:
        """Close the segment, which stays in shared memory."""
        self._segment.close()


def rules_of(settings: ParameterServerSettings) -> dict[int, UpdateRule]:
    """Return the update rule of each of the server's shards, by number of the shard.

    The learners' network is made once, because initial weights and sizes are read from it.
    """
    policy = settings.policy
    algorithm = make_algorithm(policy.algorithm)
    heads, others = algorithm.heads(policy.actions), extra_networks(algorithm, policy.actions)
    shape, dtype = policy.observation_shape, policy.observation_dtype
    module = make_model(policy.model, shape, dtype, heads, settings.seed, others, policy.action_mask)
    weights, gradients = flatten(module)
    parameters = gradients.numel()
    optimizer = settings.optimizer
    if settings.replay is not None:
        optimizer = for_batches(optimizer, settings.replay.batches, settings.rate_scaling)
    groups = make_groups(optimizer, spans(module), parameters)
    rules: dict[int, UpdateRule] = {}
    sharding = Sharding(parameters, weights.numel() - parameters, settings.servers)
    for shard, span in enumerate(sharding.spans):
        if sharding.server_of(shard) != settings.id.number:
            continue
        own = weights[span].detach().clone()
        if shard < sharding.statistics_shard:
            rules[shard] = OptimizerRule(GroupedOptimizer(make_optimizer, groups_within(groups, span), own), own)
        else:
            rules[shard] = StatisticsRule(own, merge_into)
    return rules


def run(settings: ParameterServerSettings) -> None:
    """Run a parameter server until SIGTERM."""
    worker = Worker(settings)
    torch.set_flush_denormal(True)
    torch.set_num_threads(1)
    control = worker.control
    endpoints = Endpoints(settings.id, settings.run_id, lambda: control.order, control.send, control.folder)
    server = ParameterServer(settings, rules_of(settings), endpoints, control.poll)
    worker.hello()
    while worker.poll():
        if control.ordered:
            control.applied()
        server.serve(POLL_MS)
        row, slow = server.report(settings.report_every_s)
        if row:
            control.send(Report(row={**row}))
        for warning in (*filter(None, [slow]), *server.refusals(settings.report_every_s)):
            control.warned(warning)
    server.close()
    control.close()


def _shares(counted: list[int]) -> Metrics:
    """Return the share of gradients that have each staleness, as metrics; empty if there were none."""
    names = [*(f"staleness_{changes}" for changes in range(STALENESS_SHOWN)), f"staleness_{STALENESS_SHOWN}_or_more"]
    total = sum(counted)
    return {name: count / total for name, count in zip(names, counted, strict=True)} if total else {}


def _segment_at(address: Shm, fields: list[Field]) -> Segment:
    with suppress(FileNotFoundError):
        try:
            return Segment.open(address.file)
        except SegmentError:  # the process that made it was killed before it was complete, so it has no content
            address.file.unlink()
    return Segment.create(address.file, fields)
