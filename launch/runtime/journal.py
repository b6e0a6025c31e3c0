"""The files of a run that are written while it runs: events.jsonl, metrics.jsonl with other writers, and summary.json.

A full or broken disk does not stop training. The failure is reported once, and again when writing works. Records that
could not be written wait and are then written first (``actorlearn/files.py`` limits their number).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from actorlearn.metrics.writer import EVENTS_FILE, METRICS_FILE, EventsWriter, MetricsWriter
from launch.errors import RunError
from launch.runs.find import SUMMARY_FILE
from launch.runtime import metadata
from launch.supervision import events as ev


class Journal:
    """The files of one run, from its first event to its summary."""

    def __init__(self, run_dir: Path, tell: Callable[[ev.Note], None], writers: Sequence[str]) -> None:
        """Open the files for appending; ``tell`` reports problems with them to the user. Raises OSError and RunError.

        ``writers``: the topology's ``report.writers``.
        """
        self._run_dir = run_dir
        self._tell = tell
        self._events = EventsWriter(run_dir)
        try:
            self._metrics = MetricsWriter(run_dir, writers)
        except ValueError as error:
            self._events.close()
            raise RunError(str(error)) from error
        except BaseException:
            self._events.close()
            raise
        self._failing: set[str] = set()
        """Files to which the last write failed."""

    def begin(self) -> None:
        """Remove the summary of the run's last life."""
        self._try(SUMMARY_FILE, lambda: (self._run_dir / SUMMARY_FILE).unlink(missing_ok=True))

    def event(self, note: ev.Note) -> None:
        """Add a line to events.jsonl."""
        line = (note.kind, note.process, note.incarnation, note.cause)
        self._try(EVENTS_FILE, lambda: self._events.event(*line, **note.fields))

    def row(self, values: Mapping[str, Any]) -> None:
        """Add a row to metrics.jsonl."""
        self._try(METRICS_FILE, lambda: self._metrics.row(values))

    def summary(self, values: Mapping[str, Any]) -> None:
        """Write the summary of the run."""
        self._try(SUMMARY_FILE, lambda: metadata.write(self._run_dir / SUMMARY_FILE, values))

    def close(self) -> None:
        """Write waiting records if possible, and close the files."""
        self._events.close()
        self._metrics.close()

    def _try(self, file: str, write: Callable[[], None]) -> None:
        """Write to a file; report the first failure, and the first success after it."""
        try:
            write()
        except OSError as error:
            if file not in self._failing:
                self._failing.add(file)
                self._warn(f"{file} cannot be written: {error.strerror or error}; the run continues")
        else:
            if file in self._failing:
                self._failing.remove(file)
                self._warn(f"{file} can be written again")

    def _warn(self, text: str) -> None:
        note = ev.Note("warned", cause=text)
        self.event(note)
        self._tell(note)
