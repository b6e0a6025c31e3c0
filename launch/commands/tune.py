"""``actorlearn tune``: finds the fastest process counts of a topology on this machine, and writes them as overrides.

Learning does not change: the number of environments, the horizon and ``simulators.blocks`` are those of the topology.
Only the number of simulators, groups, inference servers and threads is varied.

All candidates are measured briefly, then the fastest ones for longer. Finally the fastest is measured with its
simulators pinned to cores. If it plays Atari games and EnvPool is installed, it is also measured with EnvPool.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from actorlearn.files import write_atomically
from launch.bench.interleaved import progress_bar
from launch.bench.report import machine_line
from launch.bench.running import learning_soon, rate_of
from launch.errors import FailedError, RunError
from launch.machine.cores import begun_cores
from launch.plan.planning import plan
from launch.plan.probe import Description, describe
from launch.topology.load import Topology, TopologyError, load
from launch.topology.overrides import expand

FIRST_S = 4.0
"""Seconds for which each candidate is measured in the first heat (``heats``)."""
LAST_S = 16.0
"""Seconds of each measurement in the comparisons of pinning and of emulators."""
WARMUP_S = 2.0
"""Seconds of a run that are left out before each measurement."""
LAST = 3
"""Number of candidates in the last heat."""

Keys = tuple[str, ...]


@dataclass(frozen=True)
class Tried:
    """A candidate, the overrides of a topology, with the rate that was measured for it."""

    keys: Keys
    """Its overrides."""
    steps_per_s: float
    """Environment steps per second in its longest measurement; 0 if it does not work."""


def tune(path: str, overrides: Sequence[str], output: Path) -> int:
    """Find the fastest candidate, write it to ``output`` and print it; return the exit status.

    Raises TopologyError for a topology that cannot run, before any candidate is started.
    """
    given = [override.text for override in expand(overrides)]
    topology = load(path, given)
    description = describe(topology)
    plan(topology, description)
    ways = [keys for keys in candidates(topology, begun_cores()) if _accepted(path, (*given, *keys), description)]
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        there = output.exists()
        output.touch()
        if not there:
            output.unlink()  # an empty file would read as overrides without keys if no candidate ran
    except OSError as error:
        raise RunError(f"-o {output}: cannot be written: {error.strerror}; name another file") from None

    def measure(keys: Keys, seconds: float) -> float:
        return rate(path, (*given, *keys), seconds)

    fastest = heats(ways, measure)[0].keys
    ranked = heats([(*fastest, f"simulators.pin={pinned}") for pinned in ("false", "true")], measure, LAST_S)
    if other := other_emulator(path, given):
        ranked = heats([ranked[0].keys, (*ranked[0].keys, *other)], measure, LAST_S)
    best = ranked[0]
    if best.steps_per_s == 0:
        raise FailedError(f"tune: no candidate for {path} ran to its end; the errors are printed above")
    keys = (*given, *best.keys)
    lines = [f"# {path}: {best.steps_per_s:,.0f} steps/s on {machine_line()}", *keys]
    for tried in ranked:
        print(f"{tried.steps_per_s:>8,.0f} steps/s  {' '.join(tried.keys)}")
    try:
        write_atomically(output, "".join(f"{line}\n" for line in lines).encode())
    except OSError as error:
        raise FailedError(
            f"-o {output}: cannot be written: {error.strerror}; the fastest keys are: {' '.join(keys)}"
        ) from None
    use = f"; use it with: actorlearn run {path} @{output}" if output.is_file() else ""  # a pipe is read only once
    print(f"wrote {output}{use}")
    return 0


def candidates(topology: Topology, cores: int) -> list[Keys]:
    """Return the overrides of all candidates for a machine with this number of cores; the topology's own are first.

    With several learners, each gets an equal part of the cores.
    """
    simulators, trainer = topology.simulators, topology.trainer
    cores = max(1, cores // topology.learners.count)
    written = (simulators.count, simulators.groups, topology.inference.count, trainer.threads)
    environments = simulators.environments
    counts = [count for count in range(1, 2 * cores + 1) if environments % count == 0]
    threads = sorted({1, trainer.threads, cores}) if trainer.device == "cpu" else [trainer.threads]
    ways = itertools.product(counts, (1, 2), (0, 1), threads)
    possible = [way for way in ways if environments // way[0] % way[1] == 0 and not (way[2] == 0 and way[1] > 1)]
    return [_keys(environments, *way) for way in (written, *(way for way in possible if way != written))]


def other_emulator(path: str, given: Sequence[str]) -> Keys:
    """Return the overrides with which EnvPool plays the Atari game of the topology; () if it cannot be used."""
    env = load(path, given).env
    if env.kind != "atari" or find_spec("envpool") is None:
        return ()
    keys = (f"env.id=envpool:{env.id}",)
    return keys if _accepted(path, (*given, *keys)) else ()  # EnvPool refuses some keys, such as preset ba3c


def _accepted(path: str, overrides: Keys, description: Description | None = None) -> bool:
    """Whether the topology can run with these overrides: a given key may forbid the value that a candidate has.

    ``description``: of its environment and network; None: they are built once.
    """
    try:
        topology = load(path, overrides)
        plan(topology, description or describe(topology))
    except TopologyError:
        return False
    return True


def _keys(environments: int, count: int, groups: int, servers: int, threads: int) -> Keys:
    simulators = (
        f"simulators.count={count}",
        f"simulators.envs={environments // count}",
        f"simulators.groups={groups}",
    )
    return (*simulators, f"inference.count={servers}", f"trainer.threads={threads}")


def heats(ways: Sequence[Keys], measure: Callable[[Keys, float], float], seconds: float = FIRST_S) -> list[Tried]:
    """Measure all candidates for ``seconds``, the fastest third of them for twice as long, and so on.

    Return the candidates of the last heat, which has at most ``LAST``, fastest first. ``measure``: function of the
    overrides and the seconds that returns steps/s.
    """
    left = list(ways)
    with progress_bar() as progress:
        while True:
            task = progress.add_task(f"{len(left)} candidates, {seconds:.0f} s each", total=len(left))
            ranked = []
            for keys in left:
                ranked.append(Tried(keys, measure(keys, seconds)))
                progress.advance(task)
            ranked.sort(key=lambda tried: -tried.steps_per_s)
            if len(left) <= LAST:
                return ranked
            left = [tried.keys for tried in ranked[: max(LAST, len(left) // 3)]]
            seconds *= 2


def rate(path: str, overrides: Keys, seconds: float) -> float:
    """Return the environment steps/s of one candidate; if it does not work, print the reason and return 0."""
    try:
        return rate_of(path, learning_soon(path, overrides), seconds, WARMUP_S)
    except FailedError as error:
        print(f"{' '.join(overrides)}: {error}", file=sys.stderr)
        return 0.0
