"""Parts of a visit that measure rates: the parts of the suite ``gpu``, and DQN with the settings of Fast DQN."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from benchmarks.gpu.stay import Stay
from benchmarks.papers import fast_dqn
from launch.bench.gpu import Cases, GpuHost, RateCase, server_keys, simulator_keys, table, trainer_keys
from launch.bench.report import SuiteReport
from launch.errors import FailedError

DQN = "atari/fast-dqn.yaml"
DQN_WARMUP_S = 5.0
"""Seconds before the measurement of DQN, in which it fills its replay."""
DQN_ENVIRONMENTS = fast_dqn.COUNTS[-1]


def by_ways_of_dqn(host: GpuHost, quick: bool) -> Cases:
    """Return the cases of DQN in the four ways of Fast DQN, with 8 environments in as many simulators as cores.

    If environments are not synchronised, each simulator has its own server, which sends only its rows to the device,
    as the threads of the paper do; otherwise one server serves all simulators.
    """
    processes = max(count for count in fast_dqn.COUNTS if count <= min(host.cores, DQN_ENVIRONMENTS))
    found = {}
    for way in ("standard", "both") if quick else fast_dqn.PAPER_HOURS:
        apart = way in fast_dqn.BY_THEMSELVES
        each = DQN_ENVIRONMENTS // processes
        shape = (*simulator_keys(processes, each), f"simulators.groups={each if apart else 1}")
        keys = (
            *fast_dqn.keys(way, DQN_ENVIRONMENTS),
            *shape,
            *trainer_keys(host),
            *server_keys(host, processes if apart else 1),
        )
        found[way] = RateCase(DQN, keys, warmup_s=DQN_WARMUP_S)
    return found


def rates(stay: Stay, name: str, cases: Callable[[GpuHost, bool], Cases]) -> SuiteReport:
    """Measure cases in turn while the part has time; raises FailedError if none could be measured."""
    request = stay.request
    wanted = {
        case: replace(each, keys=(*each.keys, *request.overrides))
        for case, each in cases(stay.host, request.quick).items()
    }
    timed = {case: partial(each.steps_per_s, request.seconds) for case, each in wanted.items()}
    measured = stay.measure(timed, request.repetitions)
    if not measured:
        raise FailedError("; ".join(stay.shortfalls))
    return table(name, stay.host, wanted, measured, stay.shortfalls)
