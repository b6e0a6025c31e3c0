"""The comparison ``neighbours``: training rates of several programs while other processes use the same cores.

It is the suite ``neighbours`` of ``actorlearn bench``, with a plain loop and Stable-Baselines3's A2C on the same work.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.peers.compare import PeerProgram, answer, environment, packages
from benchmarks.request import BenchmarkRequest
from launch.bench import neighbours as suite
from launch.bench.report import SuiteReport
from launch.errors import FailedError
from launch.machine.cores import Cores
from launch.plan.auto import choose, cpu_flags
from launch.topology.load import Topology, load

GAME = "ALE/Pong-v5"
"""Game that the peers play."""
NETWORKS = ("nips", "nature")


def neighbours(request: BenchmarkRequest) -> SuiteReport:
    """A plain loop and Stable-Baselines3's A2C beside ours, each beside busy loops and under a quota."""
    cores = Cores.here()
    chosen, _ = choose(load(request.topology, request.overrides), cpu_flags(), cores)
    theirs = peers_of(chosen, cores.allowed)
    if not theirs:
        raise FailedError(f"the peers play {GAME} by a2c with {' or '.join(NETWORKS)}; measure such a topology")
    pythons = {peer.environment: environment(peer.environment) for peer in theirs.values()}
    return suite.compare(
        "peers-neighbours",
        request,
        {name: partial(their_rates, pythons[peer.environment], peer, request) for name, peer in theirs.items()},
        [f"ours and the plain loop learn in {chosen.trainer.precision}, Stable-Baselines3 in fp32"],
        {"peers": {name: packages(python) for name, python in pythons.items()}},
    )


def peers_of(topology: Topology, cores: int) -> dict[str, PeerProgram]:
    """Return the other programs that do the work of a topology, by name; {} if they do not play its game."""
    s, network, precision = topology.simulators, topology.model.name, topology.trainer.precision
    if topology.env.id != GAME or network not in NETWORKS or topology.algorithm.name != "a2c":
        return {}
    work = (str(s.environments), str(topology.algorithm.horizon))
    return {
        "plain loop": PeerProgram("loops", "loop_a2c.py", (*work, "ale", network, precision, str(cores)), suite.OURS),
        "Stable-Baselines3": PeerProgram(
            "sb3", "sb3_a2c.py", (*work, "nips" if network == "nips" else "default"), suite.OURS
        ),
    }


def their_rates(python: Path, peer: PeerProgram, request: BenchmarkRequest) -> Sequence[float]:
    """Return the steps/s of a peer's program in successive windows (``scripts/windows.py``), as long as our reports."""
    rates = [float(rate) for rate in answer(python, peer, request.seconds)["windows"]]
    if not rates:
        raise FailedError(f"{peer.script}: no update ended in time; give it more than --seconds {request.seconds:g}")
    return rates
