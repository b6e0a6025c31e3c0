"""The protocol of spawners, which start the processes of a run on their machine (``launch/spawning/local.py``)."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

Key = tuple[str, int]
"""Name and incarnation."""


class SpawnerLostError(OSError):
    """A process was not started because the spawner's guardian was lost, with all processes that it had started.

    Nothing is wrong with the process itself: the spawner has recovered, and ``spawn`` can be called again.
    """


class Spawner(Protocol):
    """Starts, signals and reaps the processes of a run; the supervisor decides which should run."""

    @property
    def fd(self) -> int:
        """Descriptor that is readable as long as an ended process has not been reaped."""

    def spawn(self, name: str, incarnation: int, role: str, settings: Path, threads: int) -> int:
        """Start a process with the settings in this file; returns its pid.

        Raises SpawnerLostError, or another OSError; then there is no process."""

    def ended(self) -> list[Key]:
        """Return the processes that have ended and were not reaped."""

    def reap(self, key: Key) -> int:
        """Return the exit code of an ended process, negative for a signal, and end its descendants."""

    def kill(self, name: str, incarnation: int, sent: int) -> None:
        """Signal a process, with SIGKILL its descendants too; nothing happens if it is gone already."""

    def show_stack(self, name: str, incarnation: int, about: str) -> None:
        """Have a process that has beaten write its stack to its log, under the heading ``about``, if possible."""

    def reap_orphans(self) -> None:
        """Reap orphans that this process has inherited; called in every turn of the loop."""

    def close(self) -> None:
        """End all remaining processes and their descendants."""
