"""The suite ``gpu``: how the rate on a machine with a GPU depends on cores, inference servers, CUDA graphs, learners.

The suite has four parts: servers, cores, graphs and learners; ``--part`` selects some. The topology is PAAC on Pong
(configs/atari/paac.yaml) with more environments, because a GPU needs larger batches than a core. Rates are agent
steps/s in all environments together.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial

from launch.bench import SuiteRequest, shipped
from launch.bench.beside import confined
from launch.bench.interleaved import Spread, interleave
from launch.bench.parts import Parts
from launch.bench.report import SuiteReport, percent, rate
from launch.bench.running import rate_of
from launch.errors import FailedError, RunError
from launch.machine.cores import begun_cores
from launch.machine.gpus import TORCH_AND_GPUS
from launch.spawning.answers import NoAnswerError, ask

PAAC = "atari/paac.yaml"
ENVIRONMENTS = 16
"""Environments of each simulator."""
ROWS = (32, 256)
"""Numbers of rows in a forward pass for which CUDA graphs are measured."""
CORES = 16
"""Most cores for which the part "cores" measures rates."""
WARMUP_S = 3.0
_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class GpuHost:
    """A machine, and the device on which the suite measures."""

    device: str
    cores: int
    torch: str
    """Version of torch, or why it cannot be imported."""
    gpus: tuple[str, ...] = ()
    """Names of the GPUs that torch sees."""

    @classmethod
    def here(cls, device: str | None) -> GpuHost:
        """Find the cores and GPUs of this machine; ``device``: cpu or cuda, else RunError is raised; None: cuda."""
        device = device or "cuda"
        if device not in ("cpu", "cuda"):
            raise RunError(f"--device {device}: must be cpu or cuda")
        try:
            version, gpus = ask([sys.executable, "-c", TORCH_AND_GPUS], _TIMEOUT_S)
        except (NoAnswerError, OSError) as error:
            version, gpus = f"cannot be imported ({error})", ()
        except subprocess.TimeoutExpired:
            version, gpus = f"gave no answer in {_TIMEOUT_S:.0f} s", ()
        return cls(device, begun_cores(), version, tuple(gpus))

    @property
    def no_device(self) -> str:
        """Why nothing can be measured on the device; empty if the device exists."""
        if self.device == "cpu" or self.gpus:
            return ""
        return f"no CUDA device (torch {self.torch})"

    def __str__(self) -> str:
        gpus = f"{len(self.gpus)} GPU{'s' if len(self.gpus) > 1 else ''} ({', '.join(self.gpus)})" if self.gpus else ""
        return f"{self.cores} cores, {gpus or 'no GPU'}, torch {self.torch}, measured on {self.device}"


@dataclass(frozen=True)
class RateCase:
    """A rate to measure: that of a run, or of one of its parts alone."""

    topology: str
    """Name of a shipped topology."""
    keys: tuple[str, ...]
    alone: str = ""
    """Name of the method of `Parts` that measures; empty: the whole run is measured."""
    cores: int | None = None
    """Number of cores that it may use; None: all."""
    warmup_s: float = WARMUP_S

    def steps_per_s(self, seconds: float) -> float:
        """Measure for ``seconds``, and return the agent steps/s."""
        path = shipped(self.topology)
        with confined(self.cores) if self.cores else nullcontext():
            if not self.alone:
                return rate_of(path, self.keys, seconds, self.warmup_s)
            with Parts(path, self.keys) as parts:
                measure: Callable[[float], float] = getattr(parts, self.alone)
                return measure(seconds)


Cases = Mapping[str, RateCase]


def by_cores(host: GpuHost, quick: bool) -> Cases:
    """Return the cases of the part "cores": simulation, sampling and training on 1 to 16 cores, a simulator on each."""
    counts = [count for count in (CORES, 8, 4, 2, 1) if count <= host.cores][: 1 if quick else None]
    found: dict[str, RateCase] = {}
    for count in counts:
        shape, on = simulator_keys(count), f"{count} core{'s' if count > 1 else ''}"
        found[f"{on}: simulation alone"] = RateCase(PAAC, (*shape, "inference.count=0"), "simulate", count)
        keys = (*shape, *server_keys(host, 1), *trainer_keys(host))
        sampled = ("algorithm.epochs=0", "algorithm.minibatches=1")
        found[f"{on}: sampling"] = RateCase(PAAC, (*keys, *sampled), cores=count)
        found[f"{on}: training"] = RateCase(PAAC, keys, cores=count)
    return found


def by_servers(host: GpuHost, quick: bool) -> Cases:
    """Return the cases of the part "servers": training with the policy in simulators, or in servers on the device."""
    shape, ahead, halves = simulator_keys(host.cores), "simulators.blocks=2", "simulators.groups=2"
    larger = simulator_keys(host.cores, 2 * ENVIRONMENTS)
    own, server = (*trainer_keys(host), "inference.count=0"), (*trainer_keys(host), *server_keys(host, 1))
    found = {
        "simulation alone": RateCase(PAAC, (*shape, "inference.count=0"), "simulate"),
        "policies in simulators": RateCase(PAAC, (*shape, *own)),
        "a server, 2 groups": RateCase(PAAC, (*shape, *server, halves)),
    }
    if quick:
        return found
    found |= {
        "a server": RateCase(PAAC, (*shape, *server)),
        "a server, 2 groups, a rollout ahead": RateCase(PAAC, (*shape, *server, halves, ahead)),
        "a server, 2 groups, twice the environments": RateCase(PAAC, (*larger, *server, halves)),
        "policies in simulators, a rollout ahead": RateCase(PAAC, (*shape, *own, ahead)),
        "all on the CPU": RateCase(PAAC, (*shape, "trainer.device=cpu", "inference.count=0")),
    }
    if host.cores > 1:
        found["2 servers, 2 groups"] = RateCase(PAAC, (*shape, *trainer_keys(host), *server_keys(host, 2), halves))
    return found


def by_graphs(host: GpuHost, quick: bool) -> Cases:
    """Return the cases of the part "graphs": training, and acting alone, each with CUDA graphs and without."""
    training = (*simulator_keys(host.cores), *trainer_keys(host))
    works = {"training": (training, "")}
    works |= {
        f"acting alone on {rows} rows": (simulator_keys(1, rows), "infer") for rows in (ROWS[:1] if quick else ROWS)
    }
    found: dict[str, RateCase] = {}
    for work, (keys, alone) in works.items():
        for said, key in (("with graphs", "true"), ("without graphs", "false")):
            captured = (*keys, *server_keys(host, 1), f"inference.cuda_graphs={key}", f"trainer.cuda_graphs={key}")
            found[f"{work}, {said}"] = RateCase(PAAC, captured, alone)
    return found


def by_learners(host: GpuHost, quick: bool) -> Cases:
    """Return the cases of the part "learners": training with 1, 2 and 4 learners that share the device."""
    ways = {"1 learner": (1, ()), "2 learners in sync": (2, ("mode=sync",)), "4 learners in sync": (4, ("mode=sync",))}
    ways["4 learners that gossip"] = (4, ("mode=gossip",))
    wanted = [name for name, (count, _) in ways.items() if count <= host.cores][: 2 if quick else None]
    found: dict[str, RateCase] = {}
    for name in wanted:
        count, mode = ways[name]
        several = (*mode, f"learners.count={count}") if count > 1 else ()
        keys = (*several, *simulator_keys(host.cores // count), *trainer_keys(host), *server_keys(host, 1))
        found[name] = RateCase(PAAC, keys)
    return found


def simulator_keys(count: int, environments: int = ENVIRONMENTS) -> tuple[str, ...]:
    """Return overrides for ``count`` simulators with ``environments`` environments each."""
    return (f"simulators.count={count}", f"simulators.envs={environments}")


def server_keys(host: GpuHost, count: int) -> tuple[str, ...]:
    """Return overrides for ``count`` inference servers on the device."""
    return (f"inference.count={count}", f"inference.device={host.device}")


def trainer_keys(host: GpuHost) -> tuple[str, ...]:
    """Return overrides for a trainer on the device."""
    return (f"trainer.device={host.device}",)


PARTS: Mapping[str, Callable[[GpuHost, bool], Cases]] = {
    "servers": by_servers,
    "cores": by_cores,
    "graphs": by_graphs,
    "learners": by_learners,
}
"""Name of a part -> function that returns its cases, given the machine and whether a few cases suffice."""


def gpu(request: SuiteRequest) -> SuiteReport:
    """Measure training on a GPU with several numbers of cores, inference servers and learners, and with CUDA graphs."""
    host = GpuHost.here(request.device)
    if unknown := [name for name in request.parts if name not in PARTS]:
        raise RunError(f"--part {unknown[0]}: gpu has no such part; choose one of {', '.join(PARTS)}")
    if why := host.no_device:
        raise FailedError(f"{why}; --device cpu measures the same cases without a GPU")
    wanted = {
        f"{part}: {name}": replace(case, keys=(*case.keys, *request.overrides))
        for part in request.parts or PARTS
        for name, case in PARTS[part](host, request.quick).items()
    }
    timed = {name: partial(case.steps_per_s, request.seconds) for name, case in wanted.items()}
    return table("gpu", host, wanted, interleave(timed, request.repetitions))


def table(
    suite: str, host: GpuHost, cases: Cases, measured: Mapping[str, Spread], shortfalls: Sequence[str] = ()
) -> SuiteReport:
    """Return the report: each rate, and its ratio to the first; ``shortfalls``: notes on cases not measured."""
    first = next(iter(measured.values()))
    return SuiteReport(
        suite=suite,
        headings=("case", "steps/s", "ratio to the first", "measured"),
        rows=[
            (name, rate(spread), percent(spread.median / first.median), f"{len(spread.values)}x")
            for name, spread in measured.items()
        ],
        bars=measured,
        unit="steps/s",
        notes=(str(host), *shortfalls),
        figures={"keys": {name: list(case.keys) for name, case in cases.items()}},
    )
