"""The request that a suite receives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from launch.errors import FailedError
from launch.topology.load import load
from launch.topology.sources import examples


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
    runs: tuple[str, ...] = ()
    """Names of runs, for suites that read runs instead of measuring."""
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
        raise FailedError(f"{path} is not there; install the package again")
    return str(path)
