"""The request that a suite is given."""

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
    """Length of one measurement; a suite repeats each case ``repetitions`` times, interleaved with the others."""
    score: float | None = None
    """The score to reach, for suites that measure the time to it."""
    seeds_wanted: str | None = None
    """A number of seeds to draw from the clock, or seeds with commas between, for suites that take them."""
    whole: bool = False
    """Whether runs go on to their own end once they have the score."""
    output: Path | None = None
    """Folder of the report, which is there already; None where it is shown only."""
    runs: tuple[str, ...] = ()
    """Words that name runs, for suites that read runs and measure nothing."""
    parts: tuple[str, ...] = ()
    """Names of the parts to measure, for a suite in parts; empty: all."""
    device: str | None = None
    """Device that a suite in parts measures; None: cuda."""

    @property
    def file(self) -> str:
        """The name of the topology's file: reports do not tell where it lies."""
        return Path(self.topology).name

    @property
    def seeds(self) -> range:
        """Seeds of the repetitions: the topology's own, as its file or the overrides have it, and those after it."""
        first = load(self.topology, [given for given in self.overrides if given.partition("=")[0] == "seed"]).seed
        return range(first, first + self.repetitions)

    @property
    def quick(self) -> bool:
        """Whether few cases are enough, for a rough answer."""
        return self.repetitions == 1


def shipped(name: str) -> str:
    """Return the path of a shipped topology; raises FailedError where it is missing."""
    path = examples() / name
    if not path.is_file():
        raise FailedError(f"{path} is not there; install the package again")
    return str(path)
