"""Writes events.jsonl, summary.json and metrics of a run: metrics.jsonl, and for example TensorBoard files.

A full or broken disk does not stop training. The failure is reported once, and again when writing works. Records that
could not be written wait and are then written first (``actorlearn/files.py`` limits their number).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from actorlearn.metrics.specs import JSONL
from actorlearn.metrics.writer import EVENTS_FILE, METRICS_FILE, EventsWriter, MetricsWriter
from launch.errors import RunError
from launch.runs.find import SUMMARY_FILE
from launch.runtime import metadata
from launch.supervision import events as ev


class Journal:
    """Writes events, metrics and the summary of one run to files."""

    def __init__(self, run_dir: Path, tell: Callable[[ev.Note], None], writers: Sequence[str], began_s: float) -> None:
        """Open the files; ``tell`` is called with problems. Raises OSError, and RunError for a wrong writer.

        ``writers``: names of writers of metrics besides metrics.jsonl (the topology's ``report.writers``). ``began_s``:
        start of the run on CLOCK_MONOTONIC (`Resumption`), from which the times of events count.
        """
        self._run_dir = run_dir
        self._tell = tell
        self._events = EventsWriter(run_dir, began_s=began_s)
        try:
            self._metrics = MetricsWriter(run_dir, writers)
        except ValueError as error:
            self._events.close()
            raise RunError(str(error)) from error
        except BaseException:
            self._events.close()
            raise
        self._failing: set[str] = set()
        """Files and writers of metrics whose last write failed."""

    def begin(self) -> None:
        """Remove the summary.json of an earlier life of the run."""
        self._try(SUMMARY_FILE, lambda: (self._run_dir / SUMMARY_FILE).unlink(missing_ok=True))

    def event(self, note: ev.Note) -> None:
        """Add a line to events.jsonl."""
        line = (note.kind, note.process, note.incarnation, note.cause)
        self._try(EVENTS_FILE, lambda: self._events.event(*line, **note.fields))

    def row(self, values: Mapping[str, Any]) -> None:
        """Add a line to metrics.jsonl, and write it with the other writers."""
        for writer, error in self._metrics.row(values).items():
            self._note(_what(writer), error)

    def summary(self, values: Mapping[str, Any]) -> None:
        """Write summary.json."""
        self._try(SUMMARY_FILE, lambda: metadata.write(self._run_dir / SUMMARY_FILE, values))

    def close(self) -> None:
        """Write what could not be written before, if possible, and close the files; report metrics that are lost."""
        try:
            for writer, error in self._metrics.close().items():
                if error is not None:
                    self._note(_what(writer), error, then="")
        finally:
            self._events.close()

    def _try(self, file: str, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            self._note(file, error)
        else:
            self._note(file, None)

    def _note(self, what: str, error: OSError | None, then: str = "; the run continues") -> None:
        """Report the first failure to write ``what``, and the first success (None) after it."""
        if error is not None and what not in self._failing:
            self._failing.add(what)
            self._warn(f"{what} cannot be written: {error.strerror or error}{then}")
        elif error is None and what in self._failing:
            self._failing.remove(what)
            self._warn(f"{what} can be written again")

    def _warn(self, text: str) -> None:
        note = ev.Note("warned", cause=text)
        self.event(note)
        self._tell(note)


def _what(writer: str) -> str:
    """Return what a writer of metrics writes, for a warning."""
    return METRICS_FILE if writer == JSONL.name else f"metrics for {writer!r}"
