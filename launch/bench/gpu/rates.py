"""Parts of a visit that measure rates: each is a list of cases for a machine, and all make tables in one way.

Work is PAAC's on Pong (configs/atari/paac.yaml) with more environments, because a GPU needs larger batches than a core,
and DQN at the settings of Fast DQN. Rates are agent steps a second, in all environments together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial

from launch.bench.gpu.host import CORES, Host
from launch.bench.gpu.stay import Stay
from launch.bench.measure.beside import confined
from launch.bench.measure.interleaved import Spread
from launch.bench.measure.parts import Parts
from launch.bench.measure.report import Report, percent, rate
from launch.bench.measure.request import shipped
from launch.bench.measure.running import rate_of
from launch.bench.papers import fast_dqn
from launch.errors import FailedError

PAAC, DQN = "atari/paac.yaml", "atari/fast-dqn.yaml"
ENVIRONMENTS = 16
"""Environments of a simulator."""
ROWS = (32, 256)
"""Rows of an acting pass with which CUDA graphs are measured."""
WARMUP_S, DQN_WARMUP_S = 3.0, 5.0
"""DQN first fills its replay."""
DQN_ENVIRONMENTS = fast_dqn.COUNTS[-1]


@dataclass(frozen=True)
class Case:
    """A rate to measure: a run's, or that of one of its parts alone."""

    topology: str
    """Shipped."""
    keys: tuple[str, ...]
    alone: str = ""
    """Part that is measured alone, as Parts names it; empty: the run."""
    cores: int | None = None
    """Cores that it may use; None: all."""
    warmup_s: float = WARMUP_S

    def steps_per_s(self, seconds: float) -> float:
        """Measure it."""
        path = shipped(self.topology)
        with confined(self.cores) if self.cores else nullcontext():
            if not self.alone:
                return rate_of(path, self.keys, seconds, self.warmup_s)
            with Parts(path, self.keys) as parts:
                measure: Callable[[float], float] = getattr(parts, self.alone)
                return measure(seconds)


Cases = Mapping[str, Case]


def by_cores(host: Host, quick: bool) -> Cases:
    """Simulation, sampling and training on 16, 8, 4, 2 cores and one, as many simulators as cores."""
    counts = [count for count in (CORES, 8, 4, 2, 1) if count <= host.cores][: 1 if quick else None]
    found: dict[str, Case] = {}
    for count in counts:
        shape, on = _simulators(count), f"{count} core{'s' if count > 1 else ''}"
        found[f"{on}: simulation alone"] = Case(PAAC, (*shape, "inference.count=0"), "simulate", count)
        keys = (*shape, *_servers(host, 1), *_trainer(host))
        sampled = ("algorithm.epochs=0", "algorithm.minibatches=1")
        found[f"{on}: sampling"] = Case(PAAC, (*keys, *sampled), cores=count)
        found[f"{on}: training"] = Case(PAAC, keys, cores=count)
    return found


def by_servers(host: Host, quick: bool) -> Cases:
    """Training with policies in simulators and in servers on the device: in groups, running ahead, by more servers."""
    shape, ahead, halves = _simulators(host.cores), "simulators.blocks=2", "simulators.groups=2"
    larger = _simulators(host.cores, 2 * ENVIRONMENTS)
    own, server = (*_trainer(host), "inference.count=0"), (*_trainer(host), *_servers(host, 1))
    found = {
        "simulation alone": Case(PAAC, (*shape, "inference.count=0"), "simulate"),
        "policies in simulators": Case(PAAC, (*shape, *own)),
        "a server, 2 groups": Case(PAAC, (*shape, *server, halves)),
    }
    if quick:
        return found
    found |= {
        "a server": Case(PAAC, (*shape, *server)),
        "a server, 2 groups, a rollout ahead": Case(PAAC, (*shape, *server, halves, ahead)),
        "a server, 2 groups, twice the environments": Case(PAAC, (*larger, *server, halves)),
        "policies in simulators, a rollout ahead": Case(PAAC, (*shape, *own, ahead)),
        "all on the CPU": Case(PAAC, (*shape, "trainer.device=cpu", "inference.count=0")),
    }
    if host.cores > 1:
        found["2 servers, 2 groups"] = Case(PAAC, (*shape, *_trainer(host), *_servers(host, 2), halves))
    return found


def by_graphs(host: Host, quick: bool) -> Cases:
    """Training, and acting alone by rows of a pass, with CUDA graphs and with a launch for each layer."""
    training = (*_simulators(host.cores), *_trainer(host))
    works = {"training": (training, "")}
    works |= {f"acting alone on {rows} rows": (_simulators(1, rows), "infer") for rows in (ROWS[:1] if quick else ROWS)}
    found: dict[str, Case] = {}
    for work, (keys, alone) in works.items():
        for said, key in (("with graphs", "true"), ("without", "false")):
            captured = (*keys, *_servers(host, 1), f"inference.cuda_graphs={key}")
            found[f"{work}, {said}"] = Case(PAAC, captured, alone)
    return found


def by_learners(host: Host, quick: bool) -> Cases:
    """Training with 1, 2 and 4 learners that share the device, each with its part of the simulators and a server."""
    ways = {"1 learner": (1, ()), "2 learners in sync": (2, ("mode=sync",)), "4 learners in sync": (4, ("mode=sync",))}
    ways["4 learners that gossip"] = (4, ("mode=gossip",))
    wanted = [name for name, (count, _) in ways.items() if count <= host.cores][: 2 if quick else None]
    found: dict[str, Case] = {}
    for name in wanted:
        count, mode = ways[name]
        several = (*mode, f"learners.count={count}") if count > 1 else ()
        keys = (*several, *_simulators(host.cores // count), *_trainer(host), *_servers(host, 1))
        found[name] = Case(PAAC, keys)
    return found


def by_ways_of_dqn(host: Host, quick: bool) -> Cases:
    """DQN standard, concurrent, synchronised and both, with 8 environments in as many simulators as there are cores.

    Where environments act by themselves each simulator has a server of its own, which asks the device for its rows
    alone as the paper's threads do; else one answers them all.
    """
    processes = max(count for count in fast_dqn.COUNTS if count <= min(host.cores, DQN_ENVIRONMENTS))
    found = {}
    for way in ("standard", "both") if quick else fast_dqn.PAPER_HOURS:
        apart = way in fast_dqn.BY_THEMSELVES
        each = DQN_ENVIRONMENTS // processes
        shape = (*_simulators(processes, each), f"simulators.groups={each if apart else 1}")
        keys = (
            *fast_dqn.keys(way, DQN_ENVIRONMENTS),
            *shape,
            *_trainer(host),
            *_servers(host, processes if apart else 1),
        )
        found[way] = Case(DQN, keys, warmup_s=DQN_WARMUP_S)
    return found


def _simulators(count: int, environments: int = ENVIRONMENTS) -> tuple[str, ...]:
    return (f"simulators.count={count}", f"simulators.envs={environments}")


def _servers(host: Host, count: int) -> tuple[str, ...]:
    return (f"inference.count={count}", f"inference.device={host.device}")


def _trainer(host: Host) -> tuple[str, ...]:
    return (f"trainer.device={host.device}",)


def rates(stay: Stay, name: str, cases: Callable[[Host, bool], Cases]) -> Report:
    """Measure cases in turn while the part has time; raises FailedError when none could be."""
    request = stay.request
    found = cases(stay.host, request.quick)
    wanted = {case: replace(each, keys=(*each.keys, *request.overrides)) for case, each in found.items()}
    timed = {case: partial(each.steps_per_s, request.seconds) for case, each in wanted.items()}
    measured = stay.measure(timed, request.repetitions)
    if not measured:
        raise FailedError("; ".join(stay.shortfalls))
    return Report(
        suite=name,
        headings=("case", "steps/s", "of the first", "measured"),
        rows=[row(case, spread, next(iter(measured.values()))) for case, spread in measured.items()],
        bars=measured,
        unit="steps/s",
        notes=(str(stay.host), *stay.shortfalls),
        figures={"keys": {case: list(each.keys) for case, each in wanted.items()}},
    )


def row(case: str, spread: Spread, first: Spread) -> tuple[str, ...]:
    """Return a row of the table."""
    return case, rate(spread), percent(spread.median / first.median), f"{len(spread.values)}x"
