"""The suite ``handover``: the time to pass observations to an inference server, and actions back to simulators.

Environments that do nothing (``topologies/handover.yaml``) are stepped with a server, and with the policy inside the
simulators. The difference is the cost of the hand-over: in wall time of a step, and in CPU time of simulators and
server together. With several simulators, it is reduced by what a server saves, because it makes one pass for all.
"""

from __future__ import annotations

from functools import partial

from benchmarks.request import BenchmarkRequest, shipped
from launch.bench.interleaved import Spread, interleave
from launch.bench.report import SuiteReport
from launch.bench.running import Running

SIMULATORS = (1, 2, 4, 8, 16)
ACTING = ("simulator", "inference")
"""Roles whose processes make a step together."""
WARMUP_S = 2.0


def handover(request: BenchmarkRequest) -> SuiteReport:
    """Microseconds of wall and CPU time to pass one step to a server and back, with 1 to 16 simulators."""
    rows: list[tuple[str, ...]] = []
    bars: dict[str, Spread] = {}
    for count in SIMULATORS:
        cpu_us: dict[int, list[float]] = {0: [], 1: []}
        cases = {
            "server": partial(_step_us, request.seconds, count, 1, cpu_us[1]),
            "local": partial(_step_us, request.seconds, count, 0, cpu_us[0]),
        }
        wall = interleave(cases, request.repetitions)
        cpu = {"server": Spread(tuple(cpu_us[1])), "local": Spread(tuple(cpu_us[0]))}
        bars |= {f"{count} simulators, {name}": spread for name, spread in wall.items()}
        rows.append(
            (
                str(count),
                *(f"{part[name].median:,.0f}" for part in (wall, cpu) for name in ("server", "local")),
                f"{cpu['server'].median - cpu['local'].median:,.0f}",
            )
        )
    headings = ("simulators", "wall, server", "wall, local", "CPU, server", "CPU, local", "CPU, server - local")
    notes = ("microseconds of one step of one simulator; local: the simulator runs the policy itself",)
    return SuiteReport("handover", headings, rows, bars, "microseconds a step", notes)


def _step_us(seconds: float, simulators: int, servers: int, cpu_us: list[float]) -> float:
    """Return the wall time, in microseconds, of a step of all simulators; adds the CPU time of a simulator's share."""
    keys = (f"simulators.count={simulators}", f"inference.count={servers}")
    with Running(shipped("handover.yaml"), keys) as run:
        reading = run.read(seconds, WARMUP_S)
    worked = sum(cores for name, cores in reading.cpu.items() if reading.roles.get(name) in ACTING)
    cpu_us.append(1e6 * worked / reading.steps_per_s)
    return 1e6 * simulators / reading.steps_per_s
