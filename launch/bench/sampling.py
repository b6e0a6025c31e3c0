"""The suite ``sampling``: how fast experience is made, without learning (Stooke & Abbeel, table 1).

With ``algorithm.epochs: 0`` a run does everything except learning. It is measured with several numbers of simulators,
of environments in each, and of groups (a *shape*). For each shape, the policy runs in the simulators or in an inference
server, and simulators stop after one rollout (lock-step) or may be several ahead. The rates are compared with pure
simulation of the same environments with random actions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from launch.bench import SuiteRequest
from launch.bench.interleaved import Spread, interleave
from launch.bench.parts import Parts
from launch.bench.report import SuiteReport, percent, rate
from launch.bench.running import rate_of
from launch.machine.cores import begun_cores
from launch.topology.defaults import WITHOUT_EFFECT
from launch.topology.load import load

WARMUP_S = 2.0
AHEAD = 8
"""Value of simulators.blocks with which simulators may be ahead: the number of rollouts that are open at once."""
WAYS = {
    "local, lock-step": (0, 1),
    "local, ahead": (0, AHEAD),
    "server, lock-step": (1, 1),
    "server, ahead": (1, AHEAD),
}
"""Name of a column -> inference.count, simulators.blocks."""
_SERVERS_ALONE = frozenset(f"inference.{key}" for key in WITHOUT_EFFECT["inference.count"])
"""Keys that are refused without an inference server, such as its device."""


def shapes(cores: int, quick: bool) -> list[tuple[int, int, int]]:
    """Return what to measure on ``cores`` cores: triples (simulators, environments in each, groups)."""
    if quick:
        return [(cores, 16, 1)]
    per_core = [(cores, 8, 1), (cores, 16, 1), (cores, 32, 1), (cores, 16, 2), (cores, 32, 2)]
    return [(max(1, cores // 2), 16, 1), *per_core, (2 * cores, 16, 1)]


def wanted(request: SuiteRequest) -> list[tuple[int, int, int]]:
    """Return the triples of ``shapes`` to measure; if the request sets ``simulators.…``, only that of the topology."""
    if any(override.startswith("simulators.") for override in request.overrides):
        own = load(request.topology, request.overrides).simulators
        return [(own.count, own.envs, own.groups)]
    return shapes(begun_cores(), request.quick)


def sampling(request: SuiteRequest) -> SuiteReport:
    """Measure the steps/s without learning, for several numbers of simulators and of environments in each."""
    rows: list[tuple[str, ...]] = []
    bars: dict[str, Spread] = {}
    for count, envs, groups in wanted(request):
        spread = _shape(request, count, envs, groups)
        simulated = spread["simulation"].median
        shares = [f"{rate(spread[way])} {percent(spread[way].median / simulated)}" for way in WAYS]
        rows.append((f"{count} x {envs}, {groups} group(s)", rate(spread["simulation"]), *shares))
        bars |= {f"{count} x {envs} / {groups} {name}": measured for name, measured in spread.items()}
    return SuiteReport(
        suite="sampling",
        headings=("simulators x environments", "pure simulation, steps/s", *WAYS),
        rows=rows,
        bars=bars,
        unit="steps/s",
        notes=("percentages: rate divided by the rate of pure simulation in the same repetition",),
        figures={"topology": request.file},
    )


def _shape(request: SuiteRequest, count: int, envs: int, groups: int) -> dict[str, Spread]:
    shape = (f"simulators.count={count}", f"simulators.envs={envs}", f"simulators.groups={groups}")
    served = (*request.overrides, *shape)
    local = tuple(key for key in served if key.partition("=")[0] not in _SERVERS_ALONE)
    with Parts(request.topology, (*local, "inference.count=0")) as parts:
        cases: dict[str, Callable[[], float]] = {"simulation": partial(parts.simulate, request.seconds)}
        for way, (servers, blocks) in WAYS.items():
            keys = (
                *(served if servers else local),
                f"inference.count={servers}",
                f"simulators.blocks={blocks}",
                "algorithm.epochs=0",
            )
            cases[way] = partial(
                rate_of, request.topology, (*keys, "algorithm.minibatches=1"), request.seconds, WARMUP_S
            )
        return interleave(cases, request.repetitions)
