"""The suite ``dba3c-servers``: data points a second by number of parameter servers (Adamski et al. 2018, figure 7).

A data point is a step that is learned from. The paper has 32 workers with a network of 332 thousand parameters and
batches of 4, which exchange them with 1 to 8 servers. Here four learners have as many parameters and steps, of a
network and a game that cost little to compute, so that the links and not this machine's cores are measured.

For root, the four nodes are network namespaces, with links so slow that one server is the bottleneck. For other users
they are nodes of the engine ``local``, which share this machine's memory bandwidth. A node of the paper is a worker or
a server; here servers stand beside learners, so a node's link carries its server's traffic and its learner's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import Any, NamedTuple

from actorlearn.parameters.frame_headers import SHARD, SHARD_ROW_BYTES
from actorlearn.parameters.shard_layout import ROLE, Sharding
from benchmarks.namespaces import LinkBytes, Namespaces, linked, namespaces
from benchmarks.request import BenchmarkRequest, shipped
from launch.bench.interleaved import Spread, interleave
from launch.bench.report import SuiteReport, percent, rate
from launch.bench.running import Running, rates
from launch.errors import FailedError
from launch.plan.probe import describe
from launch.topology.load import Topology, load

TOPOLOGY = "catch-defaults.yaml"
PAPER_POINTS = "60 to 110"
"""Ends of the axis of figure 7, for 1 to 8 servers; the text has no other numbers of it."""
SERVERS = (1, 2, 4)
LEARNERS = 4
NODES = tuple(f"node-{number}" for number in range(1, LEARNERS + 1))
BATCH = 4
"""Rows in an update of a learner, one of each environment; in Catch, a tenth of the rows begin games: no steps."""
LINK_MBIT = 100
RATE_BYTES = 8
"""Bytes of a learning rate in a message."""
NUMBER_BYTES = {"float32": 4, "bfloat16": 2}
WARMUP_S = 4.0


class UpdateBytes(NamedTuple):
    """Bytes of the messages for one update of a learner, before encryption."""

    sent: int
    received: int

    def divides(self, sent: int, received: int) -> bool:
        """Whether a number of bytes is that of one or more whole updates."""
        updates, left = divmod(sent, self.sent)
        return updates > 0 and not left and received == updates * self.received


def update_bytes(parameters: int, servers: int, learners: int, number_bytes: int = 4) -> UpdateBytes:
    """Return the bytes of an update: gradients and weights of all shards, and counts of steps (docs/nodes.md)."""
    shards, row = Sharding(parameters, 0, servers).statistics_shard, SHARD_ROW_BYTES
    numbers = number_bytes * parameters
    told = servers * (SHARD.size + row)
    return UpdateBytes(
        numbers + shards * (SHARD.size + row + RATE_BYTES) + told,
        numbers + shards * (SHARD.size + learners * row),
    )


def keys(servers: int) -> tuple[str, ...]:
    """Overrides of topologies/catch-defaults.yaml: 332,282 parameters, local batches of 4, learners in step."""
    return (
        "mode=async",
        "model.hidden_sizes=[1613]",
        "optimizer.name=adam",
        f"learners.count={LEARNERS}",
        f"learners.quorum={LEARNERS}",
        f"parameter_servers.count={servers}",
        "algorithm.horizon=1",
        "simulators.count=1",
        f"simulators.envs={BATCH}",
        "simulators.pin=false",
        "inference.count=0",
        "trainer.threads=1",
        "checkpoint.every_steps=1_000_000_000",
        "checkpoint.every_s=null",
    )


class ServersReading(NamedTuple):
    """The result of one run."""

    rate: float
    busiest: float | None = None
    """Largest share of its rate that any link carried, in either direction."""
    added: float | None = None
    """Bytes that links carried beyond those of the messages, as a share of the latter."""


def dba3c_servers(request: BenchmarkRequest) -> SuiteReport:
    """Data points a second by number of parameter servers, beside figure 7 of DBA3C; as root over limited links."""
    topology = shipped(TOPOLOGY)
    overrides = {servers: (*keys(servers), *request.overrides) for servers in SERVERS}
    sizes = {servers: bytes_of(load(topology, overrides[servers])) for servers in SERVERS}
    found: dict[int, list[ServersReading]] = {servers: [] for servers in SERVERS}

    def rate_of(servers: int) -> float:
        with ExitStack() as run:
            if network is not None:
                running = run.enter_context(linked(topology, overrides[servers], network))
            else:
                local = (*overrides[servers], f"nodes.count={LEARNERS}", "nodes.listen=127.0.0.1:0")
                running = run.enter_context(Running(topology, local, engine="local"))
            found[servers].append(measure(running, sizes[servers], request.seconds, network))
        return found[servers][-1].rate

    with ExitStack() as machine:
        network: Namespaces | None = None
        where = (
            f"links of {LINK_MBIT} Mbit/s in each direction (tc-tbf(8)), each node in a network namespace of its own"
        )
        try:
            network = machine.enter_context(namespaces(NODES, f"{LINK_MBIT}mbit"))
        except FailedError as error:
            where = f"links: none are limited, as there are no network namespaces: {error}"
        rates_of = interleave({_case(servers): partial(rate_of, servers) for servers in SERVERS}, request.repetitions)
    return _report(rates_of, sizes, found, where)


def measure(run: Running, each: UpdateBytes, seconds: float, network: Namespaces | None) -> ServersReading:
    """Measure a run that has begun; raises FailedError if a learner counted other bytes than were computed."""
    run.rate(0.0, WARMUP_S)
    first, before, count = run.seen[-1], network.carried() if network else {}, len(run.seen)
    run.rate(seconds)
    last, after = run.seen[-1], network.carried() if network else {}
    for row in run.seen[count:]:
        _check(row, each)
    (points_per_s,) = rates([first, last])
    if network is None:
        return ServersReading(points_per_s)
    carried = {name: LinkBytes(*(b - a for a, b in zip(before[name], after[name], strict=True))) for name in after}
    most = max(max(link) for link in carried.values()) / (last["time_s"] - first["time_s"])
    messages = (last["updates"] - first["updates"]) * sum(each) * _away(run.events("spawned"))
    return ServersReading(
        points_per_s, most / (LINK_MBIT * 1e6 / 8), sum(link.out for link in carried.values()) / messages - 1
    )


def bytes_of(topology: Topology) -> UpdateBytes:
    """Return the bytes of an update of a topology; a child process builds its network to count its parameters."""
    servers, parameters = topology.parameter_servers, describe(topology).weights
    return update_bytes(parameters, servers.count, topology.learners.count, NUMBER_BYTES[servers.wire])


def _report(
    rates_of: Mapping[str, Spread],
    sizes: Mapping[int, UpdateBytes],
    found: Mapping[int, list[ServersReading]],
    where: str,
) -> SuiteReport:
    rows = [
        (
            _case(servers),
            rate(rates_of[_case(servers)]),
            f"{rates_of[_case(servers)].median / rates_of[_case(SERVERS[0])].median:.2f}",
            _shares(measured.busiest for measured in found[servers]),
            f"{sizes[servers].sent:,}",
            f"{sizes[servers].received:,}",
            _shares(measured.added for measured in found[servers]),
        )
        for servers in SERVERS
    ]
    return SuiteReport(
        suite="dba3c-servers",
        headings=(
            "parameter servers",
            "data points/s",
            "of one server's",
            "busiest link",
            "sent an update",
            "received",
            "headers add",
        ),
        rows=rows,
        bars=rates_of,
        unit="data points/s",
        notes=(
            where,
            f"reduced: {LEARNERS} learners on {LEARNERS} nodes with the servers beside them, not 32 workers; a network "
            "and a game that cost little",
            "bytes: computed; each report of each learner was a whole number of such updates, to the byte",
            "headers add: what links carried beyond these bytes: CURVE, TCP, IP, Ethernet, what nodes say",
            f"in the paper (figure 7) the rate grows less with each doubling, on an axis of {PAPER_POINTS}",
        ),
        figures={"runs": {_case(servers): [one._asdict() for one in found[servers]] for servers in SERVERS}},
    )


def _check(row: Mapping[str, Any], each: UpdateBytes) -> None:
    for name, own in row["learners"].items():
        sent, received = own["bytes_sent"], own["bytes_received"]
        if not each.divides(sent, received):
            raise FailedError(
                f"{name} sent {sent:,} bytes and received {received:,} in one report, which is no whole number "
                f"of updates of {each.sent:,} and {each.received:,} bytes; was a message sent again?"
            )


def _away(spawned: Sequence[Mapping[str, Any]]) -> float:
    """Return the share of the messages between learners and servers that go to another node."""
    at = {str(event["process"]): str(event["node"]) for event in spawned}
    learners, servers = (
        [node for process, node in at.items() if process.startswith(f"{role}-")] for role in ("trainer", ROLE)
    )
    return sum(one != other for one in learners for other in servers) / (len(learners) * len(servers))


def _shares(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{percent(median(known))} ({percent(min(known))}-{percent(max(known))})" if known else "-"


def _case(servers: int) -> str:
    return f"{servers} server{'s' * (servers > 1)}"
