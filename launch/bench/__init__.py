"""Benchmarks of this machine, in suites that ``actorlearn bench`` runs.

A suite measures several cases, such as settings of a topology, and reports them with machine, versions and commit.
Each suite has a module of its name. Suites share ``running``, which measures whole runs, ``parts``, which measures each
kind of work of a run alone, ``interleaved``, which measures several cases in turn, and ``report``, which shows results.
A checkout also has the package ``benchmarks``, which compares with papers and other programs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from launch.errors import FailedError
from launch.topology import sources, strict_yaml
from launch.topology.load import load

if TYPE_CHECKING:
    from launch.bench.report import SuiteReport


@dataclass(frozen=True)
class SuiteRequest:
    """The arguments of a suite: what to measure, and how thoroughly. Most suites use only some fields."""

    topology: str
    """Path of the topology."""
    overrides: tuple[str, ...]
    repetitions: int
    """Number of measurements of each case; the cases are measured in turn."""
    seconds: float
    """Length of one measurement."""
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
    """Most runs at once, for a suite that trains many runs; None: one for each core."""
    parts: tuple[str, ...] = ()
    """Names of the parts to measure, for a suite that has parts; empty: all."""
    device: str | None = None
    """Device to measure, for a suite that has parts: cpu or cuda; None: cuda."""

    @property
    def file(self) -> str:
        """The name of the topology's file, without its folder."""
        return Path(self.topology).name

    @property
    def content(self) -> str:
        """A digest of the values in the topology's file, without its seed and name; raises TopologyError."""
        values, _ = strict_yaml.read_mapping(sources.read(self.topology), self.topology)
        text = json.dumps({key: value for key, value in values.items() if key not in ("seed", "name")}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def seeds(self) -> range:
        """A seed for each repetition: the seed of the topology, and the numbers that follow."""
        first = load(self.topology, [given for given in self.overrides if given.partition("=")[0] == "seed"]).seed
        return range(first, first + self.repetitions)

    @property
    def quick(self) -> bool:
        """Whether to measure fewer cases, for a rough result (``--quick``)."""
        return self.repetitions == 1


def shipped(name: str) -> str:
    """Return the path of a topology that comes with actorlearn, such as pong.yaml; raises FailedError without it."""
    path = sources.examples() / name
    if not path.is_file():
        raise FailedError(f"{path} is missing; install the package again")
    return str(path)


@dataclass(frozen=True)
class Suite:
    """A suite: its function, and which arguments of ``actorlearn bench`` it takes."""

    function: str
    """The function as module:name; it is imported at first use."""
    topology: str | None = "pong.yaml"
    """Shipped topology that is measured by default; None: the user cannot choose the topology."""
    takes_names: bool = False
    """Whether the command takes names of runs, or of rows of a table, instead of a topology and overrides."""
    sets_modes: bool = False
    """Whether the suite runs the topology in several modes, so that overrides may not fit the topology's own mode."""
    keys: tuple[str, ...] = ()
    """Overrides that are used with the default topology only."""
    takes_keys: bool = True
    """Whether overrides change what is measured; if not, they are refused."""
    takes: tuple[str, ...] = ()
    """Fields of a SuiteRequest that this suite takes and most do not, such as ``score``."""

    def path(self) -> str:
        """Return the path of the topology that is measured by default; for a suite without one, that of pong.yaml."""
        return shipped(self.topology or "pong.yaml")

    def load(self) -> Callable[[Any], SuiteReport]:
        """Import and return the function, which takes a SuiteRequest; `bench` lists the first line of its docstring."""
        module, _, name = self.function.partition(":")
        return cast("Callable[[Any], SuiteReport]", getattr(import_module(module), name))


SUITES: Mapping[str, Suite] = {
    "sampling": Suite("launch.bench.sampling:sampling"),
    "training": Suite("launch.bench.training:training"),
    "emulators": Suite("launch.bench.emulators:emulators"),
    "replay": Suite("launch.bench.replay:replay", topology=None, takes_keys=False),
    "memory": Suite("launch.bench.memory:memory"),
    "neighbours": Suite("launch.bench.neighbours:neighbours", topology="atari/paac.yaml"),
    "time-to-score": Suite("launch.bench.time_to_score:time_to_score", takes=("seeds_wanted", "score", "whole")),
    "zoo": Suite("launch.bench.zoo:zoo", topology=None, takes_names=True, takes=("seeds_wanted", "at_once")),
    "gpu": Suite("launch.bench.gpu:gpu", topology=None, takes=("parts", "device")),
    "games": Suite("launch.bench.games:games_of", topology=None, takes_names=True),
}
"""Name on the command line -> suite."""
