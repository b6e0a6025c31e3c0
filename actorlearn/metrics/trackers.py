"""Writers that copy the reports of a run to experiment trackers: Weights & Biases, and trackio.

The packages of trackers wait for the network, and start threads and programs, which must not happen in the supervisor.
So each writer starts a process (``tracking.py``) that reads `METRICS_FILE` as it grows. When the supervisor closes the
standard input of this process, or dies, the process sends the remaining reports and ends. Its output is in ``logs/`` of
the run's folder.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from actorlearn.metrics.writer import METRICS_FILE

CLOSE_S = 60.0
"""Longest time in seconds that the end of a run waits for the process to send its reports."""


class Tracker:
    """A writer that starts a process, which sends the reports to a tracker."""

    name: ClassVar[str]
    """Name of the tracker in ``tracking.py``."""

    def __init__(self, run_dir: Path) -> None:
        """Begin after the reports that are in the file already, which were sent before the run was resumed."""
        self._run_dir = run_dir
        self._log = run_dir / "logs" / f"{self.name}.log"
        file = run_dir / METRICS_FILE
        self._begin = file.stat().st_size if file.exists() else 0
        self._process: subprocess.Popen[bytes] | None = None

    def row(self, values: Mapping[str, Any]) -> None:
        """Start the process at the first report; it reads all reports from the file. Raises OSError if it has ended."""
        if self._process is None:
            self._process = self._started()
        elif (status := self._process.poll()) is not None:
            raise self._error(f"ended with exit status {status}")

    def close(self) -> None:
        """Wait until all reports are sent, but at most CLOSE_S, then kill the process; a second call does nothing.

        Raises OSError if the process has failed or was killed.
        """
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        try:
            status = process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise self._error(f"had not sent all rows after {CLOSE_S:g} s, and was killed") from None
        if status:
            raise self._error(f"ended with exit status {status}")

    def _error(self, what: str) -> OSError:
        return OSError(f"the process that sends rows to {self.name} {what}; see {self._log}")

    def _started(self) -> subprocess.Popen[bytes]:
        self._log.parent.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "actorlearn.metrics.tracking", self.name, str(self._run_dir), str(self._begin)]
        with self._log.open("ab") as log:
            # In its own session, so that only the supervisor receives Ctrl-C.
            return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True)


class WandB(Tracker):
    """Copies reports to Weights & Biases."""

    name = "wandb"


class Trackio(Tracker):
    """Copies reports to trackio."""

    name = "trackio"
