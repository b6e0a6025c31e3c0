"""Closed-form predictions of the rate and of the staleness of gradients, to check the simulation.

The rate is the lowest of several bounds: learners that wait for the slowest, cores that are always busy, links that are
always busy, and others. Queues are ignored. Where messages overlap, only the slowest direction of one link counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, hypot, sqrt
from statistics import NormalDist

from launch.simulate.scenario import Scenario

_TOGETHER = ("lock-step", "hub", "quorum")
"""Ways of exchange in which learners wait for one another."""


@dataclass(frozen=True)
class Estimate:
    """The closed-form prediction for one case."""

    env_steps_per_s: float
    """Environment steps per second that all learners learn from."""
    staleness: float
    """Mean number of changes that other learners make between reading weights and applying their gradient."""
    bound: str
    """What bounds the rate, such as "cores"."""


def estimate(scenario: Scenario) -> Estimate:
    """Return the prediction: the rate is the lowest that learners, cores, links and servers allow."""
    rates = dict(_rates(scenario))
    bound = min(rates, key=lambda name: rates[name])
    return Estimate(rates[bound] * scenario.work.env_steps, staleness(scenario), bound)


def staleness(scenario: Scenario) -> float:
    """Return the mean staleness of gradients: n - 1 with n async learners, else 0.

    This holds for any speeds of the learners. Let t_i be the time between two changes of learner i, and R the sum of
    all rates 1 / t_j. Between two of its changes, the others make t_i (R - 1 / t_i) changes. The share of learner i in
    all changes is 1 / (t_i R). The mean weighted by these shares is n - 1.
    """
    return float(scenario.learners - 1) if scenario.exchanging in ("store", "servers") else 0.0


def update_s(scenario: Scenario) -> float:
    """Return the seconds for an update of one learner alone that has enough cores."""
    collect_s, learn_s = _collect_s(scenario), _learn_s(scenario)
    return max(collect_s, learn_s) if scenario.work.simulators.blocks > 1 else collect_s + learn_s


def processor_s(scenario: Scenario) -> float:
    """Return the processor seconds for an update, of all processes of one learner, without sending messages."""
    costs, work = scenario.costs, scenario.work
    passes = work.horizon * work.simulators.groups * (work.servers or work.simulators.count) * costs.pass_s
    gradients_s = work.optimizer_steps * work.threads * costs.gradient_s
    stepping_s = 0.0 if _central(scenario) else work.optimizer_steps * costs.optimizer_s
    return work.env_steps * costs.step_s + passes + costs.copy_s + gradients_s + stepping_s + costs.publish_s


def kth_of(rank: int, count: int) -> float:
    """Return the expected value of the rank-th smallest of ``count`` standard normal numbers (Blom 1958)."""
    return NormalDist().inv_cdf((rank - 0.375) / (count + 0.25)) if count > 1 else 0.0


def _rates(scenario: Scenario) -> Iterator[tuple[str, float]]:
    """Yield name and value of each bound on the rate, in updates/s of all learners together."""
    s, count = scenario, scenario.learners
    slow = [s.stragglers.factor_of(learner, count) for learner in range(count)]
    own_s, exchange_s = update_s(s), _exchange_s(s)
    if s.exchanging in _TOGETHER:
        needed = s.quorum if s.exchanging == "quorum" else count
        last_s = sorted(slow)[needed - 1] * (own_s + _late_s(s, needed))
        yield "the slowest learner", needed / (last_s + exchange_s)
    else:
        yield "learners", sum(1 / (factor * own_s + exchange_s) for factor in slow)
    busiest = max(sum(s.machine_of(learner) == machine for learner in range(count)) for machine in range(s.machines))
    if processing_s := processor_s(s):
        yield "cores", s.cores * count / (busiest * processing_s)
    yield from _saturation(s)


def _saturation(s: Scenario) -> Iterator[tuple[str, float]]:
    """Yield the bounds that parameter servers set: updates/s at which links, encryption or optimizer are full."""
    each = s.work.optimizer_steps / s.local_steps
    if s.exchanging in ("servers", "quorum"):
        part = s.header_bytes + s.weight_bytes * s.weights / s.parameter_servers
        if s.servers_apart or s.machines > 1:
            yield "links of servers", s.link_bytes_per_s / part / each
        if end_s := s.shards * s.costs.message_s + part * s.costs.byte_s:
            yield "encryption at servers", 1 / (2 * end_s) / each
        if s.exchanging == "servers" and s.costs.optimizer_s:
            yield "optimizer at servers", s.parameter_servers / s.costs.optimizer_s / each


def _late_s(s: Scenario, needed: int) -> float:
    """Return the mean seconds for which learners in an update wait for the last of them, as the times of stages vary.

    They wait at each exchange of gradients; on one machine, or with local steps, also after each rollout. ``needed``:
    number of learners that an exchange waits for.
    """
    work, deviation = s.work, s.costs.deviation
    collect_s, steps = _collect_s(s) - s.costs.wake_s, work.optimizer_steps
    if s.exchanging == "quorum":
        own_s = kth_of(work.simulators.count, work.simulators.count) * collect_s
        spread_s = sqrt(collect_s**2 + steps * s.costs.gradient_s**2)
        return deviation * (own_s + kth_of(needed, s.learners) * spread_s)
    simulators, threads = s.learners * work.simulators.count, s.learners * work.threads
    collected_s, gradient_s = kth_of(simulators, simulators) * collect_s, kth_of(threads, threads) * s.costs.gradient_s
    if s.exchanging == "hub" and not s.agrees_apart:
        return deviation * (hypot(collected_s, gradient_s) + (steps - 1) * gradient_s)
    return deviation * (collected_s + steps * gradient_s)


def _exchange_s(s: Scenario) -> float:
    """Return the seconds for the exchanges of an update, if no other messages use the links."""
    if s.exchanging in ("alone", "gossip", "store") or (s.learners == 1 and not _central(s)):
        return 0.0
    steps = s.work.optimizer_steps
    barriers = steps if s.local_steps == 1 else ceil(steps / s.local_steps)
    if s.exchanging == "lock-step":
        return barriers * (s.costs.hop_s + s.costs.add_s * s.learners) + s.costs.hop_s
    away = s.machines > 1 or s.servers_apart
    once_s = 2 * ((s.latency_s if away else 0.0) + s.costs.hop_s)
    if s.exchanging == "hub":
        others = s.learners * (1 - 1 / s.machines)
        wire_s = others * s.vector_bytes / s.link_bytes_per_s if away else 0.0
        end_s = s.costs.message_s + s.vector_bytes * s.costs.byte_s
        ways_s = 2 * (end_s + max(wire_s, s.learners * end_s)) + s.costs.add_s
        return barriers * (once_s + ways_s) + once_s * s.agrees_apart
    part = s.header_bytes + s.weight_bytes * s.weights / s.parameter_servers
    together = s.learners if s.exchanging == "quorum" else 1
    link_s = max(together * part, s.vector_bytes) / s.link_bytes_per_s if away else 0.0
    end_s = s.shards * s.costs.message_s + part * s.costs.byte_s
    # Gradients arrive while weights are sent, except for the first shard and the last.
    ways_s = (1 + 1 / s.shards) * (s.parameter_servers * end_s + max(link_s, together * end_s))
    sum_s = s.costs.add_s / s.parameter_servers if s.exchanging == "quorum" else 0.0
    optimizer_s = s.costs.optimizer_s / s.parameter_servers
    return s.work.optimizer_steps / s.local_steps * (once_s + ways_s + sum_s + optimizer_s)


def _central(s: Scenario) -> bool:
    return s.exchanging in ("servers", "quorum")


def _collect_s(s: Scenario) -> float:
    costs, work = s.costs, s.work
    simulate_s = work.horizon * work.simulators.envs * (costs.step_s + costs.step_wait_s)
    infer_s = work.horizon * work.simulators.groups * costs.pass_s
    turns = not work.servers or work.simulators.groups == 1
    return (simulate_s + infer_s if turns else max(simulate_s, infer_s)) + costs.wake_s


def _learn_s(s: Scenario) -> float:
    costs, work = s.costs, s.work
    step_s = costs.gradient_s + (0.0 if _central(s) else costs.optimizer_s)
    return costs.copy_s + work.optimizer_steps * step_s + costs.publish_s
