"""The parts of the measurements on a GPU machine (a visit), in order, with the minutes that each may take.

A part begins no measurement that would end after its minutes. They include the time to start and to end processes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.gpu import rates
from benchmarks.gpu.marked import no_tests, tests
from benchmarks.gpu.pong import pong
from benchmarks.gpu.stay import Stay
from launch.bench import gpu
from launch.bench.gpu import Cases, GpuHost
from launch.bench.report import SuiteReport

VISIT_MINUTES = 25.0
INSTALL_MINUTES = 1.0
"""Minutes of a visit for the installation from the kit."""
COMMAND_MINUTES = 10.0
"""Most minutes of a part, because some machines limit the time of a command."""


@dataclass(frozen=True)
class VisitPart:
    """One part of a visit."""

    name: str
    minutes: float
    says: str
    """Description in the list of parts."""
    function: Callable[[Stay], SuiteReport]
    lacks: Callable[[GpuHost], str] = lambda host: host.no_device
    """Function that returns why the part cannot be done on a machine; "": it can."""
    by_cores: bool = False
    """Whether it has cases for more cores than a machine may have."""


def _rates(
    name: str, minutes: float, says: str, cases: Callable[[GpuHost, bool], Cases], by_cores: bool = False
) -> VisitPart:
    return VisitPart(name, minutes, says, partial(rates.rates, name=f"gpu-{name}", cases=cases), by_cores=by_cores)


PARTS = (
    VisitPart("tests", 2.0, "tests marked gpu", tests, lacks=no_tests),
    _rates("servers", 4.0, "inference servers on the GPU beside policies in simulators", gpu.by_servers),
    _rates("cores", 6.0, "simulation, sampling and training by cores, 1 to 16", gpu.by_cores, by_cores=True),
    VisitPart("pong", 6.0, "minutes to Pong 18", pong),
    _rates("graphs", 2.0, "CUDA graphs on and off", gpu.by_graphs),
    _rates("dqn", 2.0, "DQN's four ways (Fast DQN, table 1)", rates.by_ways_of_dqn),
    _rates("learners", 2.0, "several learners on one GPU", gpu.by_learners, by_cores=True),
)
"""All parts, in order. Together with INSTALL_MINUTES they take at most VISIT_MINUTES."""
