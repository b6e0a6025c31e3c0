"""Writers that copy the rows of a run to experiment trackers: Weights & Biases, and trackio.

A tracker waits for networks and starts threads and programs of its own, which the supervisor must not. So each writer
has a process (``tracking.py``) that reads `METRICS_FILE` as it grows. It ends when the supervisor closes its standard
input or dies, once all rows are handed over. What it prints is in the run's ``logs/``.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from actorlearn.metrics.writer import METRICS_FILE

CLOSE_S = 60.0
"""Longest wait at the end of a run for rows to be handed over, in seconds."""


class Tracker:
    """A writer that hands its rows to a process."""

    name: ClassVar[str]
    """Name of the tracker, as ``tracking.py`` knows it."""

    def __init__(self, run_dir: Path) -> None:
        """Begin behind the rows of earlier lives of the run, which their processes handed over."""
        self._run_dir = run_dir
        self._log = run_dir / "logs" / f"{self.name}.log"
        file = run_dir / METRICS_FILE
        self._begin = file.stat().st_size if file.exists() else 0
        self._process: subprocess.Popen[bytes] | None = None

    def row(self, values: Mapping[str, Any]) -> None:
        """Start the process with the first row, which it finds in the file; raises OSError where it has ended."""
        if self._process is None:
            self._process = self._started()
        elif (status := self._process.poll()) is not None:
            raise OSError(
                f"{self.name} gets no more rows: its process ended with exit status {status}; see {self._log}"
            )

    def close(self) -> None:
        """Have all rows handed over; a process that takes too long is ended. A second call does nothing."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        try:
            process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _started(self) -> subprocess.Popen[bytes]:
        self._log.parent.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "actorlearn.metrics.tracking", self.name, str(self._run_dir), str(self._begin)]
        with self._log.open("ab") as log:
            # In a session of its own, since Ctrl-C is the supervisor's to hear.
            return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True)


class WandB(Tracker):
    """Copies rows to Weights & Biases."""

    name = "wandb"


class Trackio(Tracker):
    """Copies rows to trackio."""

    name = "trackio"
