"""Suites of PAAC (Clemente et al. 2017): ``paac-time`` (figure 2) and ``paac-environments`` (figures 3 and 4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from statistics import fmean

from benchmarks.learning import learn
from benchmarks.request import BenchmarkRequest
from launch.bench.interleaved import interleave
from launch.bench.report import SuiteReport, percent, rate
from launch.bench.running import Reading, Running
from launch.machine.cores import begun_cores

ENVIRONMENTS = (16, 32, 64, 128, 256)
"""Numbers of environments: n_e in the paper."""
RATE = 0.0007
"""Learning rate for each environment (section 5.2)."""
NETWORKS = ("nips", "nature")
WARMUP_S = 4.0


def keys(environments: int) -> tuple[str, ...]:
    """Return overrides for a number of environments in all, divided among about as many simulators as cores."""
    processes = max(count for count in (1, 2, 4, 8) if count <= max(1, begun_cores()))
    return (f"simulators.count={processes}", f"simulators.envs={environments // processes}")


def paac_environments(request: BenchmarkRequest) -> SuiteReport:
    """Score by number of environments with a rate in proportion, beside PAAC's figures 3 and 4; --seconds a run."""
    counts = ENVIRONMENTS[::2] if request.quick else ENVIRONMENTS
    cases = {
        environments(count): (
            *keys(count),
            f"optimizer.learning_rate={RATE * count:g}",
            "optimizer.schedule=constant",
        )
        for count in counts
    }
    return learn("paac-environments", request, cases)


def environments(count: int) -> str:
    """Return a number of environments as text."""
    return f"{count} environments"


def paac_time(request: BenchmarkRequest) -> SuiteReport:
    """Rate and share of the time by network and number of environments, beside PAAC's figure 2."""
    counts = ENVIRONMENTS[1:2] if request.quick else ENVIRONMENTS
    readings: dict[str, Reading] = {}
    cases: Mapping[str, Callable[[], float]] = {
        case(network, count): partial(_rate, request, network, count, readings)
        for count in counts
        for network in NETWORKS
    }
    measured = interleave(cases, request.repetitions)
    shares = {name: time_shares(reading) for name, reading in readings.items()}
    return SuiteReport(
        suite="paac-time",
        headings=("", "steps/s", "environments", "choosing actions and learning", "the rest"),
        rows=[
            (name, rate(measured[name]), *(percent(share) for share in (*shares[name], 1 - sum(shares[name]))))
            for name in cases
        ],
        bars=measured,
        unit="steps/s",
        notes=(
            "shares of the time of an update, in the last repetition: simulators are in step, so that an update is "
            "their time with environments and the policy and then the trainer's; the rest is waiting, copying and "
            "publishing",
        ),
        figures={"shares": shares},
    )


def case(network: str, count: int) -> str:
    """Return the name of a case."""
    return f"{network}, {environments(count)}"


def time_shares(reading: Reading) -> tuple[float, float]:
    """Return the shares of wall time with environments, and with the network: acting and learning."""
    simulators = [wall for name, wall in reading.wall.items() if reading.roles.get(name) == "simulator"]
    trainers = [wall for name, wall in reading.wall.items() if reading.roles.get(name) == "trainer"]
    simulated = fmean(wall["simulate"] for wall in simulators)
    computed = fmean(wall["infer"] for wall in simulators) + fmean(wall["learn"] for wall in trainers)
    return simulated, computed


def _rate(request: BenchmarkRequest, network: str, count: int, readings: dict[str, Reading]) -> float:
    overrides = (*request.overrides, *keys(count), f"model.name={network}", "inference.count=0")
    with Running(request.topology, overrides) as run:
        readings[case(network, count)] = reading = run.read(request.seconds, WARMUP_S)
    return reading.steps_per_s
