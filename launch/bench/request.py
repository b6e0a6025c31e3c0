"""What a suite is asked for."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from launch.bench.errors import BenchError


@dataclass(frozen=True)
class Request:
    """A topology to measure, and how thoroughly."""

    topology: str
    overrides: tuple[str, ...]
    repetitions: int
    seconds: float
    """Of one measurement; a suite repeats each case ``repetitions`` times, interleaved with the others."""
    score: float | None = None
    """To be reached, where that is what is measured."""
    runs: tuple[str, ...] = ()
    """Words for runs, of suites that read what is there."""

    @property
    def quick(self) -> bool:
        """Whether a rough answer will do: fewer cases."""
        return self.repetitions == 1


def shipped(name: str) -> str:
    """Path of a shipped topology, in a checkout or where a wheel put it."""
    roots = (Path(__file__).resolve().parents[2], Path(sys.prefix) / "share" / "actorlearn")
    for root in roots:
        if (root / "configs" / name).is_file():
            return str(root / "configs" / name)
    raise BenchError(f"configs/{name} is neither in {roots[0]} nor in {roots[1]}; install the package again")
