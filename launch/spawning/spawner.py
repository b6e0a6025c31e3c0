"""The protocol of spawners, which start the processes of a run: on this machine (``launch/spawning/local.py``),
or by other engines (``launch/engines/specs.py``)."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

Key = tuple[str, int]
"""Name and incarnation."""


class SpawnerLostError(OSError):
    """A process was not started because what starts processes was lost, and all that it had started with it.

    Nothing is wrong with the process: the spawner has recovered, and starts it when it is asked again.
    """


class Spawner(Protocol):
    """Starts, signals and reaps the processes of a run. Knows no reason why one should live or die."""

    @property
    def fd(self) -> int:
        """A descriptor that is ready to be read for as long as somebody has ended who was not reaped."""

    def spawn(self, name: str, incarnation: int, role: str, settings: Path, threads: int) -> int:
        """Start a process with the settings in this file; returns its pid.

        Raises SpawnerLostError, or another OSError; then there is no process."""

    def ended(self) -> list[Key]:
        """Return those that have ended and were not reaped."""

    def reap(self, key: Key) -> int:
        """Return the exit code of one that has ended, negative for a signal; what it has started is ended too."""

    def kill(self, name: str, incarnation: int, sent: int) -> None:
        """Signal a process, with SIGKILL all that it has started too. One that is gone already is left alone."""

    def show_stack(self, name: str, incarnation: int, about: str) -> None:
        """Have a process that has come to life write its stack to its log, under this heading, if that can be done."""

    def reap_orphans(self) -> None:
        """Reap what others have left to this process; called in every turn of the loop."""

    def close(self) -> None:
        """End all that are left, and what they have started."""
