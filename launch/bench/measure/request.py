"""The request that a suite is given."""

from __future__ import annotations

from dataclasses import dataclass

from launch.errors import FailedError
from launch.topology.sources import examples


@dataclass(frozen=True)
class Request:
    """A topology to measure, and how thoroughly."""

    topology: str
    overrides: tuple[str, ...]
    repetitions: int
    seconds: float
    """Length of one measurement; a suite repeats each case ``repetitions`` times, interleaved with the others."""
    score: float | None = None
    """To be reached, where that is what is measured."""
    runs: tuple[str, ...] = ()
    """Words for runs, of suites that read what is there."""

    @property
    def quick(self) -> bool:
        """Whether a rough answer will do: fewer cases."""
        return self.repetitions == 1


def shipped(name: str) -> str:
    """Path of a shipped topology."""
    path = examples() / name
    if not path.is_file():
        raise FailedError(f"{path} is not there; install the package again")
    return str(path)
