"""Makes the cases to predict: the topology itself, and variants of its number of nodes, quorum or servers."""

from __future__ import annotations

from typing import Any

import msgspec

from actorlearn.algorithms.settings import OffPolicySettings
from actorlearn.parameters.frame_headers import HUB, MAILBOX, MAILBOX_ROW_BYTES, SHARD, SHARD_ROW_BYTES
from actorlearn.parameters.shard_layout import Sharding
from launch.simulate.keys import SimulateKeys
from launch.simulate.scenario import Costs, Exchanging, Scenario, SlowLearners, Work
from launch.topology.load import Topology
from launch.topology.modes import asked, mode

_BYTES = {"float32": 4.0, "bfloat16": 2.0}
_FRAME_SHARE = 1448 / 1514
"""Share of a full Ethernet frame that is data; the headers have 14 bytes (Ethernet), 20 (IP) and 32 (TCP)."""
_OPTIMIZER_STEPS = 2_000
"""Number of simulated optimizer steps of all learners by default; each takes the same time to simulate."""
_FEWEST_UPDATES = 20
"""Least number of simulated updates of a learner: enough that learners wait for one another."""


def work_of(topology: Topology) -> Work:
    """Return the amount of work of one learner for one update."""
    algorithm = topology.algorithm
    steps: float = algorithm.epochs * getattr(algorithm, "minibatches", 1)
    if topology.replay is not None and isinstance(algorithm, OffPolicySettings):
        items = topology.replay.batch_size * topology.replay.sequence_steps
        steps = algorithm.horizon * topology.simulators.environments * topology.replay.ratio / items
    return Work(
        horizon=algorithm.horizon,
        simulators=topology.simulators,
        servers=topology.inference.count,
        optimizer_steps=steps,
        threads=topology.trainer.threads,
        replay=topology.replay is not None,
        normalized=topology.model.normalize_observation,
    )


def scenario_of(
    topology: Topology, keys: SimulateKeys, costs: Costs, weights: int, cores: float, nodes: int
) -> Scenario:
    """Return the case to predict for a topology on ``nodes`` nodes.

    ``weights``: number of weights of the network. ``cores``: cores of a machine, unless ``keys`` gives them.
    """
    learners, servers = topology.learners, keys.servers or topology.parameter_servers.count or 1
    exchange: dict[str, Any] = {}
    if graph := mode(topology).graph(asked(topology)):
        exchange = {"graph": graph, "max_staleness": getattr(asked(topology).section, "max_staleness", None)}
    return _with_exchange(
        Scenario(
            costs=costs,
            work=work_of(topology),
            learners=learners.count,
            nodes=nodes,
            machines=keys.machines or nodes,
            cores=keys.cores or cores,
            parameter_servers=servers,
            shards=Sharding(weights, 0, servers).shards_of_each,
            servers_apart=keys.servers_apart,
            quorum=min(learners.quorum or learners.count, learners.count),
            weights=weights,
            weight_bytes=keys.weight_bytes or _BYTES[topology.parameter_servers.wire],
            local_steps=learners.local_steps,
            link_bytes_per_s=keys.link_mbit_per_s * 1e6 / 8 * _FRAME_SHARE,
            latency_s=keys.latency_ms / 1e3,
            stragglers=SlowLearners(count=keys.slow_learners, factor=keys.slow_factor),
            seed=topology.seed,
            **exchange,
        ),
        topology,
        keys,
    )


def curves(whole: Scenario, topology: Topology, keys: SimulateKeys) -> dict[str, dict[int, Scenario]]:
    """Return the varied number (one of ``AXES``, such as "nodes") -> its value -> the case with this value.

    ``whole``: the case of the topology itself, with all nodes.
    """
    each, replace = -(-whole.learners // whole.nodes), msgspec.structs.replace
    found: dict[str, dict[int, Scenario]] = {"nodes": {}}
    for nodes in _doubling(whole.nodes):
        learners = min(whole.learners, nodes * each)
        late = whole.learners - whole.quorum
        machines = min(nodes, whole.machines)
        fewer = replace(whole, nodes=nodes, machines=machines, learners=learners, quorum=max(1, learners - late))
        found["nodes"][nodes] = _with_exchange(fewer, topology, keys)
    if whole.exchanging in ("quorum", "hub") and whole.learners > 1:
        count = whole.learners
        found["quorum"] = {
            needed: replace(whole, exchanging="quorum", quorum=needed)
            for needed in sorted({max(1, count - late) for late in (0, 1, *_doubling(max(1, count // 2)))})
        }
    if whole.exchanging in ("quorum", "servers", "hub"):
        by_servers = "servers" if whole.exchanging == "servers" else "quorum"
        found["servers"] = {
            servers: replace(
                whole,
                exchanging=by_servers,
                parameter_servers=servers,
                shards=Sharding(whole.weights, 0, servers).shards_of_each,
            )
            for servers in _doubling(max(8, whole.parameter_servers))
        }
    return found


def _with_exchange(scenario: Scenario, topology: Topology, keys: SimulateKeys) -> Scenario:
    served = bool(keys.servers or topology.parameter_servers.count)
    across, name = scenario.nodes > 1, topology.mode
    way: Exchanging = "alone"
    if (name == "sync" and served) or (name == "async" and topology.learners.quorum):
        way = "quorum"
    elif name == "async" and (scenario.learners > 1 or served):
        way = "servers" if served or across else "store"
    elif name == "gossip" and scenario.learners > 1:
        way = "gossip"
    elif name == "sync" and scenario.learners > 1:
        way = "hub" if across else "lock-step"
    count = scenario.learners
    header = float(HUB.size)
    if way == "gossip":
        header = float(MAILBOX.size + MAILBOX_ROW_BYTES * count)
    elif way in ("servers", "quorum"):  # mean of a gradient (one row, one rate) and its answer (all rows)
        header = SHARD.size + (SHARD_ROW_BYTES * (1 + count) + 8) / 2
    updates = keys.updates or round(_OPTIMIZER_STEPS / max(1.0, scenario.work.optimizer_steps))
    updates = max(_FEWEST_UPDATES, updates // scenario.learners)
    return msgspec.structs.replace(scenario, exchanging=way, header_bytes=header, updates=updates)


def _doubling(most: int) -> list[int]:
    """Return the powers of 2 below ``most``, and then ``most``."""
    return [*(1 << power for power in range((most - 1).bit_length())), most]
