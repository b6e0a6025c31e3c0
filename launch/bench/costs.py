"""Measures the costs with which ``actorlearn simulate`` predicts rates (``Costs`` in ``launch/simulate/scenario.py``).

A cost is the time of a stage for one unit of work, such as one step of one environment. Costs come from a short run of
one learner on this machine, or from the reports of an earlier run.
"""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Mapping, Sequence
from itertools import dropwhile

import msgspec
import numpy as np

from actorlearn.address import Tcp
from actorlearn.metrics.registry import SIMULATION_LIMIT_SHARE
from actorlearn.metrics.timings import SECTIONS
from actorlearn.wire.channel import Dealer, Router, new_pair
from actorlearn.wire.door import ClientKeys, ServerKeys
from launch.bench.parts import Parts
from launch.bench.running import POLL_S, Reading, Running, learning_soon
from launch.errors import RunError
from launch.reports.checks import number, section_of
from launch.runs.find import RunFolder
from launch.simulate.estimate import update_s
from launch.simulate.scenario import Costs, Scenario, Work

_ALONE = (
    *("mode=sync", "learners={count: 1}", "nodes={count: 1}", "parameter_servers={count: 0}", "evaluator.count=0"),
    "simulators.blocks=1",
)
_TOGETHER = ("mode=", "learners.", "nodes.", "parameter_servers.", "gossip.")
"""Beginnings of overrides that are used only with several learners."""
WARMUP_S = 3.0
"""Seconds of the run that are left out before the measurement."""
_OPTIMIZE_S = 1.0
"""Seconds for which optimizer steps are measured."""
_TURNS = 200
"""Number of messages, each with an answer, for the measurement of messages."""
_LARGE_BYTES = 1 << 20
_ADDITIONS = 21
"""Number of additions of vectors that are timed."""
_TIMEOUT_MS = 5000
_IDLE = "idle"
"""Section of simulators in which an environment waits for another program; computed here, not reported by processes."""
_TOGETHER_S = 0.02
"""Least time of updates that are timed together for the deviation, because single short updates cannot be timed."""
_FEWEST = 10
"""Least number of updates for an estimate of the deviation."""


def alone(overrides: Sequence[str]) -> list[str]:
    """Add overrides with which a run has one learner and its stages take turns, so that no stage slows another."""
    return [*(word for word in overrides if not word.startswith(_TOGETHER)), *_ALONE]


def measure(path: str, overrides: Sequence[str], work: Work, weights: int, cores: float, seconds: float) -> Costs:
    """Measure all costs on this machine, mostly in a run of one learner for ``seconds``; raises FailedError.

    ``path``: file of the topology. ``work``: work of an update. ``weights``: number of weights of the network.
    ``cores``: number of cores of this machine.
    """
    with Running(path, learning_soon(path, alone(overrides))) as run:
        reading = run.read(seconds, WARMUP_S)
        times = run.publications(seconds)
    costs = costs_of(reading, work, cores, measure_rest(path, overrides, weights))
    return msgspec.structs.replace(costs, deviation=deviation_of(times, costs, work))


def costs_of(reading: Reading, work: Work, cores: float, rest: Mapping[str, float]) -> Costs:
    """Compute the costs from a measurement of a run of one learner.

    ``work``: the work of an update. ``rest``: costs that such a run does not show, from `measure_rest`.
    """
    spent = {role: dict.fromkeys(SECTIONS, 0.0) for role in set(reading.roles.values())}
    for process, shares in reading.wall.items():
        for section, share in shares.items():
            spent[reading.roles[process]][section] += share * reading.seconds
    if idle_s := _idle_s(reading):
        spent["simulator"]["simulate"] -= idle_s
        spent["simulator"][_IDLE] = idle_s
    updates = reading.env_steps / work.env_steps
    return _costs(spent, updates, reading.seconds, work, cores, rest)


def _idle_s(reading: Reading) -> float:
    """Return the seconds, summed over simulators, in which environments waited for another program, such as a game."""
    shares = [
        own["simulate"] + own.get("infer", 0.0) - reading.cpu[name] - reading.queued.get(name, 0.0)
        for name, own in reading.wall.items()
        if reading.roles[name] == "simulator" and name in reading.cpu
    ]
    return sum(max(0.0, share) for share in shares) * reading.seconds


def deviation_of(times: Sequence[float], costs: Costs, work: Work) -> float:
    """Return the standard deviation of the times of a stage, divided by their mean (``Costs.deviation``).

    The quotient is assumed to be equal for all stages, and is computed from the deviation of whole updates; it is 0.0
    for fewer than ``_FEWEST`` updates. ``times``: when updates ended, in seconds, accurate to POLL_S. Because of this
    accuracy, short updates are timed in groups.

    The deviation of updates is estimated from the mean difference of two of their times, which is 2 / sqrt(pi) standard
    deviations of normal samples. A prediction needs this difference: it is how long learners wait for one another.
    """
    if len(times) < _FEWEST:
        return 0.0
    together = math.ceil(_TOGETHER_S * (len(times) - 1) / (times[-1] - times[0]))
    spans = np.diff(np.array(times)[::together])
    apart_s = float(np.abs(spans[:, None] - spans).mean()) * len(spans) / (len(spans) - 1)
    variance = max(0.0, math.pi / 4 * apart_s**2 - POLL_S**2 / 6) / together
    one = work.with_simulators(blocks=1)
    steps_s = work.optimizer_steps * (costs.gradient_s + costs.optimizer_s)
    learning_s = costs.copy_s + steps_s + costs.publish_s
    collect_s = update_s(Scenario(costs=costs, work=one)) - costs.wake_s - learning_s
    gradients = work.optimizer_steps * costs.gradient_s**2
    return float(np.sqrt(variance / (collect_s**2 + gradients + costs.copy_s**2 + costs.publish_s**2)))


def costs_of_run(run: RunFolder, work: Work, cores: float, rest: Mapping[str, float]) -> Costs:
    """Compute the costs from the reports of a run on one machine; raises RunError if none is of learning.

    ``work``: the work of an update. ``rest``: costs that reports do not show, from `measure_rest`. If processes of the
    run had to wait for a core, this time is counted as work, so the costs are too high.
    """
    rows = [row for row in run.metrics().new() if "share_learn" in row and row.get("env_steps_per_s")]
    if section_of(run.topology(), "algorithm").get("epochs") != 0:  # leave out the time in which the replay is filled
        rows = [*dropwhile(lambda row: row.get("minibatches") == 0, rows)]
    if not rows:
        raise RunError(
            f"{run.name} has no report with share_learn since learning began; let it run longer, or omit --from"
        )
    rows = rows[len(rows) // 2 :]
    roles = ("learners", "evaluator", "simulators", "inference")
    counts = {name: int(number(section_of(run.topology(), name), "count") or 0) for name in roles}
    learners = max(1, counts["learners"])
    processes = learners * (1 + counts["simulators"] + counts["inference"]) + counts["evaluator"]
    share = {section: statistics.fmean(row[f"share_{section}"] for row in rows) for section in SECTIONS}
    own = {section: share[section] * processes / learners for section in SECTIONS}  # per second and learner
    shares = [found for row in rows if (found := number(row, SIMULATION_LIMIT_SHARE)) is not None]
    if shares:  # without the time of evaluators; earlier versions did not report this
        own["simulate"] = statistics.fmean(shares) * counts["simulators"]
    simulating = ("simulate", "infer")
    spent = {
        "simulator": {section: own[section] if section in simulating else 0.0 for section in SECTIONS},
        "trainer": {section: 0.0 if section in simulating else own[section] for section in SECTIONS},
    }
    rate = statistics.fmean(row["env_steps_per_s"] for row in rows) / learners
    return _costs(spent, rate / work.env_steps, 1.0, work, cores, rest)


def _costs(
    spent: Mapping[str, Mapping[str, float]],
    updates: float,
    seconds: float,
    work: Work,
    cores: float,
    rest: Mapping[str, float],
) -> Costs:
    """Divide the time that processes spent in each section by the work that was done in it.

    ``spent``: role -> section -> seconds in all processes of the role. ``updates``: number of updates in ``seconds``.
    """
    if updates <= 0:
        raise RunError("no update ended during the measurement; give a larger --seconds")

    def of(section: str, *roles: str) -> float:
        return sum(spent[role].get(section, 0.0) for role in roles if role in spent) / updates

    def with_core(processes: int) -> float:
        """Return the share of time, 0 to 1, in which each of ``processes`` processes has a core."""
        return min(1.0, cores / processes) if processes else 1.0

    simulators = work.simulators
    passes = work.horizon * simulators.groups * (work.servers or simulators.count)
    learned_s = of("learn", "trainer") / work.optimizer_steps if work.optimizer_steps else 0.0
    optimizer_s = min(rest["optimizer_s"], learned_s)  # a part of the time of learning
    found = Costs(
        step_s=of("simulate", "simulator") / work.env_steps * with_core(simulators.count),
        step_wait_s=of(_IDLE, "simulator") / work.env_steps,
        pass_s=of("infer", "simulator", "inference") / passes * with_core(work.servers or simulators.count),
        copy_s=of("copy", "trainer"),
        gradient_s=learned_s - optimizer_s,
        publish_s=of("publish", "trainer"),
        **{**rest, "optimizer_s": optimizer_s},
    )
    plain = work.horizon * (simulators.envs * found.step_s + simulators.groups * found.pass_s)
    crowded = max(1.0, simulators.count / cores) * plain
    chain_s = update_s(Scenario(costs=found, work=work.with_simulators(blocks=1))) + crowded - plain
    return msgspec.structs.replace(found, wake_s=max(0.0, seconds / updates - chain_s))


def measure_rest(path: str, overrides: Sequence[str], weights: int) -> dict[str, float]:
    """Measure the costs that a run of one learner does not show: optimizer, addition of vectors, and messages.

    ``weights``: number of weights. Returns field of `Costs` -> seconds.
    """
    with Parts(path, alone(overrides)) as parts:
        optimizer_s = 1 / parts.optimize(_OPTIMIZE_S)
    return {"optimizer_s": optimizer_s, "add_s": measure_addition(weights), **measure_wire()}


def measure_wire() -> dict[str, float]:
    """Measure the costs of small and large encrypted messages over TCP on this machine; field of `Costs` -> seconds."""
    listener, dialler = new_pair(), new_pair()
    names = {dialler.public: "peer"}
    limit = 2 * _LARGE_BYTES
    router = Router(Tcp("127.0.0.1", 0), ServerKeys(listener, names.get), limit)
    assert isinstance(router.address, Tcp)
    dealer = Dealer(router.address, "peer", ClientKeys(dialler, listener.public), limit)
    over = threading.Event()

    def answer() -> None:
        while not over.is_set():
            if (received := router.recv(100)) is not None:
                router.send(*received)

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        _turns(dealer, b"x", 10)
        small_s, small_cpu_s = _turns(dealer, b"x", _TURNS)
        _, large_cpu_s = _turns(dealer, bytes(_LARGE_BYTES), _TURNS // 10)
    finally:
        over.set()
        thread.join()
        dealer.close()
        router.close()
    message_s = small_cpu_s / 4  # a turn is two messages, each sent and received
    return {
        "message_s": message_s,
        "byte_s": max(0.0, large_cpu_s - small_cpu_s) / 4 / _LARGE_BYTES,
        "hop_s": max(0.0, small_s / 2 - 2 * message_s),
    }


def _turns(dealer: Dealer, body: bytes, count: int) -> tuple[float, float]:
    """Send ``count`` messages and wait for the answer to each; return mean seconds and processor seconds of a turn."""
    began_s, began_cpu_s = time.monotonic(), time.process_time()
    for _ in range(count):
        until_s = time.monotonic() + _TIMEOUT_MS / 1000
        while not dealer.send(body) and time.monotonic() < until_s:  # it is still connecting
            time.sleep(0.001)
        if dealer.recv(_TIMEOUT_MS) is None:
            raise RunError(
                "the time of a message was to be measured over 127.0.0.1, but no answer arrived; set "
                "simulate.message_s, simulate.byte_s and simulate.hop_s instead"
            )
    return (time.monotonic() - began_s) / count, (time.process_time() - began_cpu_s) / count


def measure_addition(weights: int) -> float:
    """Measure the seconds for the addition of two vectors of ``weights`` numbers."""
    total, own, times = np.zeros(weights, np.float32), np.ones(weights, np.float32), []
    for _ in range(_ADDITIONS):
        began_s = time.perf_counter()
        total += own
        times.append(time.perf_counter() - began_s)
    return statistics.median(times)
