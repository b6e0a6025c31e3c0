"""Benchmarks of this machine: each suite measures its cases in turn, and reports machine, versions and commit.

``running`` measures whole runs, ``parts`` their parts alone, ``interleaved`` several cases in turn; ``report`` shows
the results. The other modules are the suites. A checkout also has the package ``benchmarks``, which compares with
papers and other programs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from launch.errors import FailedError
from launch.topology.load import load
from launch.topology.sources import examples

if TYPE_CHECKING:
    from launch.bench.report import SuiteReport


@dataclass(frozen=True)
class SuiteRequest:
    """A topology to measure, and how thoroughly."""

    topology: str
    overrides: tuple[str, ...]
    repetitions: int
    seconds: float
    """Length of a measurement; a suite repeats each case ``repetitions`` times, interleaved with the others."""
    score: float | None = None
    """The score to reach, for suites that measure the time to it."""
    seeds_wanted: str | None = None
    """A number of seeds to draw from the clock, or seeds separated by commas, for suites that take seeds."""
    whole: bool = False
    """Whether runs continue to their end after they have reached the score."""
    output: Path | None = None
    """Folder of the report, which exists; None: the report is only shown."""
    names: tuple[str, ...] = ()
    """Names of the runs that a suite reads, or of the rows of its table that it runs; empty: all."""
    at_once: int | None = None
    """Number of runs at once, for a suite that is a table; None: one for each core."""
    parts: tuple[str, ...] = ()
    """Names of the parts to measure, for a suite in parts; empty: all."""
    device: str | None = None
    """Device that a suite in parts measures; None: cuda."""

    @property
    def file(self) -> str:
        """The name of the topology's file; reports do not include its folder."""
        return Path(self.topology).name

    @property
    def seeds(self) -> range:
        """Seeds of the repetitions: consecutive, from the seed of the topology or the overrides."""
        first = load(self.topology, [given for given in self.overrides if given.partition("=")[0] == "seed"]).seed
        return range(first, first + self.repetitions)

    @property
    def quick(self) -> bool:
        """Whether few cases suffice, for a rough result."""
        return self.repetitions == 1


def shipped(name: str) -> str:
    """Return the path of a shipped topology; raises FailedError if it is missing."""
    path = examples() / name
    if not path.is_file():
        raise FailedError(f"{path} is missing; install the package again")
    return str(path)


@dataclass(frozen=True)
class Suite:
    """A suite: its function, and which arguments of the command it takes."""

    function: str
    """Module and name; imported at first use."""
    topology: str | None = "pong.yaml"
    """Shipped topology measured by default; None: the suite has its own topologies, or measures nothing."""
    takes_names: bool = False
    """Whether it reads runs, or is a table of topologies; names of runs or rows then replace topology and overrides."""
    sets_modes: bool = False
    """Whether it runs a topology in several modes, and gives each run the overrides that its mode reads."""
    keys: tuple[str, ...] = ()
    """Overrides of the default topology, before those of the request."""
    takes: tuple[str, ...] = ()
    """Fields of a SuiteRequest that only some suites take, such as ``score``."""

    def path(self) -> str:
        """Return the path of its topology; of pong.yaml if the suite has its own topologies."""
        return shipped(self.topology or "pong.yaml")

    def load(self) -> Callable[[Any], SuiteReport]:
        """Import and return its function, which takes a SuiteRequest; `bench` lists its docstring's first line."""
        module, _, name = self.function.partition(":")
        return cast("Callable[[Any], SuiteReport]", getattr(import_module(module), name))


SUITES: Mapping[str, Suite] = {
    "sampling": Suite("launch.bench.sampling:sampling"),
    "training": Suite("launch.bench.training:training"),
    "emulators": Suite("launch.bench.emulators:emulators"),
    "replay": Suite("launch.bench.replay:replay", topology=None),
    "memory": Suite("launch.bench.memory:memory"),
    "neighbours": Suite("launch.bench.neighbours:neighbours", topology="atari/paac.yaml"),
    "time-to-score": Suite("launch.bench.time_to_score:time_to_score", takes=("seeds_wanted", "score", "whole")),
    "zoo": Suite("launch.bench.zoo:zoo", topology=None, takes_names=True, takes=("seeds_wanted", "at_once")),
    "gpu": Suite("launch.bench.gpu:gpu", topology=None, takes=("parts", "device")),
    "games": Suite("launch.bench.games:games_of", topology=None, takes_names=True),
}
"""Name on the command line -> suite."""
