"""The model of a run in simulated time (SimPy): learners on machines, each with simulators, servers and a trainer.

The work of a simulator for all steps of a rollout is one job, and so is that of an inference server. The jobs on a
machine share its cores equally, as Linux schedules processes of equal priority. The result depends only on the scenario
and its seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import simpy

from launch.simulate.exchange import EXCHANGES, Peer, SimulatedExchange
from launch.simulate.network import Machine, Port, SimulatedNetwork, Steps
from launch.simulate.scenario import Scenario

WARMUP = 0.1
"""Updates that are simulated before counting begins, as a share of those that are counted."""
_STEADY = 1e-3
"""Up to this deviation, times are simulated as constant."""
BUSY = 0.9
"""A resource that is busy for at least this share of the time counts as the bottleneck."""


@dataclass(frozen=True)
class Prediction:
    """What was counted in the simulation of one case, after a warm-up."""

    seconds: float
    """Simulated seconds."""
    env_steps_per_s: float
    """Environment steps per second that all learners learn from, without those of dropped gradients."""
    updates_per_s: float
    """Updates of all learners."""
    shares: Mapping[str, float]
    """Stage -> share of a trainer's time, mean over learners.

    collect: it waits for a rollout; learn; exchange: it sends and receives messages; wait: it waits for other learners.
    """
    staleness_mean: float
    """Mean staleness.

    In async, the changes by other learners since the weights were read; in gossip, the exchanges since weights were
    mixed; in sync 0.
    """
    staleness_max: int
    dropped_share: float
    """Share of gradients that arrived too late."""
    bytes_per_s: float
    """Bytes per second in messages of all processes."""
    busy: Mapping[str, float]
    """Resource of a machine, such as "cores of machine 0" -> share of the time in which it is busy."""

    @property
    def bottleneck(self) -> str:
        """What limits the rate: the busiest resource, a stage, or "the slowest learner".

        The busiest resource limits the rate if it is busy for BUSY of the time or more, or if learners spend the most
        time on exchanges. Otherwise the stage does on which learners spend the most time.
        """
        name, share = max(self.busy.items(), key=lambda item: item[1])
        if share >= BUSY:
            return name
        stage = max(self.shares, key=lambda stage: self.shares[stage])
        return {"exchange": name, "wait": "the slowest learner"}.get(stage, stage)


class SimulatedLearner:
    """Simulates a learner: simulators and servers, which collect rollouts, and a trainer."""

    def __init__(
        self,
        env: simpy.Environment,
        scenario: Scenario,
        number: int,
        machine: Machine,
        updated: Callable[[], None],
    ) -> None:
        """``updated``: called after each update."""
        self.env, self.scenario, self.machine, self._updated = env, scenario, machine, updated
        self.peer = Peer(number, Port(env, machine))
        self.stage_s = {"collect": 0.0, "learn": 0.0, "exchange": 0.0}
        self._factor = scenario.stragglers.factor_of(number, scenario.learners)
        self._random = random.Random(f"{scenario.seed} {number}")
        blocks = scenario.work.simulators.blocks
        self._free = simpy.Container(env, blocks, blocks)
        self._ready = simpy.Container(env, init=0)

    def simulate(self) -> Steps:
        """Collect rollouts, as long as there is memory for another one (a free block)."""
        costs, work = self.scenario.costs, self.scenario.work
        simulators = work.simulators
        passes = work.horizon * simulators.groups
        own_s = work.horizon * simulators.envs * costs.step_s + (0 if work.servers else passes * costs.pass_s)
        idle_s = work.horizon * simulators.envs * costs.step_wait_s
        while True:
            yield self._free.get(1)
            playing = [self.env.process(self._work(own_s, idle_s)) for _ in range(simulators.count)]
            if work.servers and simulators.groups == 1:  # simulators and servers take turns
                yield self.env.all_of(playing)
                playing = []
            playing += [self.env.process(self._work(passes * costs.pass_s)) for _ in range(work.servers)]
            yield self.env.all_of(playing)
            yield self.env.timeout(costs.wake_s)
            yield self._ready.put(1)

    def learn(self, exchange: SimulatedExchange) -> Steps:
        """Learn from one rollout after another."""
        costs, due = self.scenario.costs, 0.0
        while True:
            yield from self._timed("collect", self._rollout())
            yield from self._timed("learn", self._work(costs.copy_s))
            yield from self._timed("exchange", exchange.agree(self.peer))
            due += self.scenario.work.optimizer_steps
            while due >= 1:
                due -= 1
                yield from self._timed("learn", self._gradient())
                yield from self._timed("exchange", exchange.step(self.peer))
            yield from self._timed("learn", self._work(costs.publish_s))
            yield self._free.put(1)
            self._updated()

    def _rollout(self) -> Steps:
        yield self._ready.get(1)

    def _gradient(self) -> Steps:
        threads = range(self.scenario.work.threads)
        yield self.env.all_of([self.env.process(self._work(self.scenario.costs.gradient_s)) for _ in threads])

    def _work(self, mean_s: float, idle_s: float = 0.0) -> Steps:
        """Work on a core for ``mean_s`` seconds, then wait for ``idle_s`` seconds, both varied by a random factor.

        A slow learner then waits longer, in proportion.
        """
        began_s, deviation = self.env.now, self.scenario.costs.deviation
        varied = deviation > _STEADY
        drawn = self._random.gammavariate(deviation**-2, deviation**2) if varied else 1.0
        yield self.machine.cores.work(drawn * mean_s)
        if idle_s:
            yield self.env.timeout(drawn * idle_s)
        if self._factor > 1:
            yield self.env.timeout((self._factor - 1) * (self.env.now - began_s))

    def _timed(self, stage: str, steps: Steps) -> Steps:
        began_s = self.env.now
        yield from steps
        self.stage_s[stage] += self.env.now - began_s


@dataclass(frozen=True)
class _Reading:
    now_s: float
    updates: int
    dropped: int
    stages: Mapping[str, float]
    bytes: float
    busy: Mapping[str, float]


class _Run:
    def __init__(self, scenario: Scenario) -> None:
        self.scenario, self.env, self.updates = scenario, simpy.Environment(), 0
        self.network = SimulatedNetwork(self.env, scenario)
        self.machines = [Machine(self.env, f"machine {n}", scenario.cores) for n in range(scenario.machines)]
        self.server_machines = self._server_machines()
        self.learners = [
            SimulatedLearner(self.env, scenario, number, self.machines[scenario.machine_of(number)], self._updated)
            for number in range(scenario.learners)
        ]
        peers = [learner.peer for learner in self.learners]
        exchange = EXCHANGES[scenario.exchanging](self.env, scenario, self.network, peers, self.server_machines)
        for learner in self.learners:
            self.env.process(learner.simulate())
            self.env.process(learner.learn(exchange))

    def _updated(self) -> None:
        self.updates += 1

    def _server_machines(self) -> list[Machine]:
        """Return the machine of each parameter server: separate machines, or those of the nodes in turn."""
        scenario = self.scenario
        if scenario.exchanging not in ("servers", "quorum"):
            return []
        if scenario.servers_apart:
            return [Machine(self.env, f"server {n}", scenario.cores) for n in range(scenario.parameter_servers)]
        return [self.machines[n % scenario.nodes % scenario.machines] for n in range(scenario.parameter_servers)]

    def until(self, updates: int) -> _Reading:
        while self.updates < updates:
            self.env.step()
        peers = [learner.peer for learner in self.learners]
        stages = {stage: sum(learner.stage_s[stage] for learner in self.learners) for stage in self.learners[0].stage_s}
        waited_s = sum(peer.waited_s for peer in peers)
        return _Reading(
            now_s=self.env.now,
            updates=self.updates,
            dropped=sum(peer.dropped for peer in peers),
            stages={**stages, "exchange": stages["exchange"] - waited_s, "wait": waited_s},
            bytes=self.network.bytes,
            busy=self._busy(),
        )

    def _busy(self) -> dict[str, float]:
        """Return resource -> seconds for which it was busy so far; for cores, the mean over a machine's cores."""
        found = {}
        for machine in dict.fromkeys([*self.machines, *self.server_machines]):
            found[f"cores of {machine.name}"] = machine.cores.busy_s / machine.cores.servers
            found[f"link out of {machine.name}"] = machine.out.busy_s
            found[f"link into {machine.name}"] = machine.into.busy_s
        return found


def simulate(scenario: Scenario) -> Prediction:
    """Simulate one case, and return the prediction."""
    run, total = _Run(scenario), scenario.learners * scenario.updates
    before = run.until(max(1, round(WARMUP * total)))
    ages_before = [len(learner.peer.staleness) for learner in run.learners]
    after = run.until(before.updates + total)
    seconds, updates = after.now_s - before.now_s, after.updates - before.updates
    ages = [
        age for learner, begin in zip(run.learners, ages_before, strict=True) for age in learner.peer.staleness[begin:]
    ]
    dropped = after.dropped - before.dropped
    lost = dropped / (dropped + len(ages)) if dropped else 0.0  # each gradient that is used has an age
    stages = {stage: after.stages[stage] - before.stages[stage] for stage in after.stages}
    return Prediction(
        seconds=seconds,
        env_steps_per_s=(1 - lost) * updates * scenario.work.env_steps / seconds,
        updates_per_s=updates / seconds,
        shares={stage: spent_s / sum(stages.values()) for stage, spent_s in stages.items()},
        staleness_mean=sum(ages) / len(ages) if ages else 0.0,
        staleness_max=max(ages, default=0),
        dropped_share=lost,
        bytes_per_s=(after.bytes - before.bytes) / seconds,
        busy={name: (after.busy[name] - before.busy[name]) / seconds for name in after.busy},
    )
