"""Writes a run's ``metrics.jsonl`` and ``events.jsonl``, with one JSON object per line, and TensorBoard's files.

TensorBoard gets the numbers of ``metrics.jsonl`` as scalars over ``env_steps``. ``registry.py`` defines the metrics.

Each file is written by one process. A reader must ignore a last line without a newline: it is still being written, or
was cut by a crash, and is removed when the file is opened again. Lines that cannot be written because the disk is full
stay in memory, and are written before the next line (``actorlearn/files.py``).

TensorBoard's own writers are not used, because they start a thread, and import TensorFlow if it is installed.
"""

from __future__ import annotations

import io
import json
import math
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from actorlearn.files import AppendedFile, drop_cut_line
from actorlearn.metrics.specs import DEFAULT_WRITERS, JSONL, WRITERS, Writer, WriterSpec

METRICS_FILE = "metrics.jsonl"
EVENTS_FILE = "events.jsonl"
TENSORBOARD_FOLDER = "tensorboard"


class _LinesFile:
    """Appends JSON lines to a file, without a buffer, so that they survive the death of the process."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        drop_cut_line(path)
        self._file = AppendedFile(path)

    def append(self, row: Mapping[str, Any]) -> None:
        """Write one line; raises OSError if it could not be written, and ValueError after ``close``."""
        if self._file.closed:
            raise ValueError(f"{self._file.path} is closed: write the last line before close()")
        line = json.dumps(row, allow_nan=False, ensure_ascii=False) + "\n"
        self._file.append(line.encode(), restore=True)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._file.close()


class JsonLines(_LinesFile):
    """Appends each report to ``metrics.jsonl``."""

    def __init__(self, run_dir: Path) -> None:
        super().__init__(run_dir / METRICS_FILE)

    def row(self, values: Mapping[str, Any]) -> None:
        """Write a report as one line."""
        self.append(values)


class TensorBoard:
    """Writes the numbers of each report as scalars over ``env_steps``; those of nested mappings are named ``a/b``.

    It makes one event file at the first report, and writes without a buffer.
    """

    def __init__(self, run_dir: Path) -> None:
        self._folder = run_dir / TENSORBOARD_FOLDER
        self._file: AppendedFile | None = None
        self._last_step = 0
        self._described: set[str] = set()

    def row(self, values: Mapping[str, Any]) -> None:
        """Write the scalars of one report; raises OSError, and loses them, if the file cannot be made."""
        # Imported here because it takes a third of a second.
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata

        from actorlearn.metrics.registry import describe_metric

        step, scalars, records = values["env_steps"], flat_scalars(values), []
        if self._file is None:
            self._file = self._made()
            records.append(Event(wall_time=time.time(), file_version="brain.Event:2"))
            self._last_step = step + 1
        if step < self._last_step:  # restored from a checkpoint: TensorBoard drops the points from this step on
            restart = SessionLog(status=SessionLog.START)
            records.append(Event(wall_time=time.time(), step=step, session_log=restart))
        self._last_step = step
        tagged = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
        for value in tagged:
            if value.tag not in self._described:  # TensorBoard reads a tag's description with its first value only
                said = next(filter(None, map(describe_metric, value.tag.split("/"))), "")
                value.metadata.CopyFrom(SummaryMetadata(summary_description=said))
        self._described.update(scalars)
        summary = Summary(value=tagged)
        records.append(Event(wall_time=time.time(), step=step, summary=summary))
        self._file.append(b"".join(_framed(record.SerializeToString()) for record in records), restore=True)

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._file is not None:
            self._file.close()

    def _made(self) -> AppendedFile:
        self._folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns() // 10**9:010d}.{socket.gethostname()}.{os.getpid()}"
        number = len(list(self._folder.iterdir()))  # for two writers of one process in the same second
        return AppendedFile(self._folder / f"{name}.{number}")


class MetricsWriter:
    """Writes each report with all writers of a run."""

    def __init__(self, run_dir: Path, writers: Sequence[str] = DEFAULT_WRITERS) -> None:
        """Make `JSONL` and the writers with these names, which are called in this order.

        Raises ValueError if a writer cannot be made.
        """
        self._writers: dict[str, Writer] = {}
        for name in dict.fromkeys((JSONL.name, *writers)):
            try:
                self._writers[name] = WRITERS.spec(name).load()(run_dir)
            except OSError:
                raise
            except Exception as error:
                said = f"{type(error).__name__}: {error}; {WriterSpec.described_in} describes how it is called"
                raise ValueError(f"report.writers: {name!r} cannot be made: {said}") from error

    def row(self, values: Mapping[str, Any]) -> dict[str, OSError | None]:
        """Write one report; NaN and infinity become null.

        Returns, by name of each writer, the exception that it has raised as an OSError, or None.
        """
        plain = {str(name): _plain(value) for name, value in values.items()}
        env_steps = plain.get("env_steps")
        if not isinstance(env_steps, int) or isinstance(env_steps, bool) or env_steps < 0:
            raise ValueError(
                f"env_steps is {env_steps!r}; every row of {METRICS_FILE} must have a whole number of steps"
            )
        return self._each(lambda writer: writer.row(plain))

    def close(self) -> dict[str, OSError | None]:
        """Close all writers; returns what ``row`` does. A second call does nothing."""
        return self._each(lambda writer: writer.close())

    def _each(self, call: Callable[[Writer], None]) -> dict[str, OSError | None]:
        errors: dict[str, OSError | None] = dict.fromkeys(self._writers)
        for name, writer in self._writers.items():
            try:
                with _as_os_error(name):
                    call(writer)
            except OSError as error:
                errors[name] = error
        return errors


@contextmanager
def _as_os_error(name: str) -> Iterator[None]:
    """Turn any exception of a writer except `JSONL` into an OSError, which does not end the run."""
    try:
        yield
    except Exception as error:
        if name == JSONL.name or isinstance(error, OSError):
            raise
        raise OSError(f"{type(error).__name__}: {error}") from error


class EventsWriter(_LinesFile):
    """Writes events of processes to ``events.jsonl``: spawned, died, restarted, attached and others."""

    def __init__(
        self,
        run_dir: Path,
        *,
        began_s: float | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Append to ``run_dir/events.jsonl``.

        ``began_s``: start of the run in seconds of ``monotonic``, from which the field ``time_s`` counts; None: now.
        """
        super().__init__(run_dir / EVENTS_FILE)
        self._monotonic = monotonic
        self._wall = wall
        self._began_s = monotonic() if began_s is None else began_s

    def event(self, kind: str, process: str, incarnation: int, cause: str, **fields: Any) -> None:
        """Write one event: its kind, the process with the number of its restarts, the cause, and further ``fields``.

        Raises OSError if it cannot be written now.
        """
        row: dict[str, Any] = {
            "time": self._wall().isoformat(timespec="milliseconds"),
            "time_s": round(self._monotonic() - self._began_s, 4),
            "kind": kind,
            "process": process,
            "incarnation": incarnation,
            "cause": cause,
        }
        taken = sorted(row.keys() & fields.keys())
        if taken:
            raise ValueError(f"EventsWriter writes the field {taken[0]!r} itself; use another name")
        row.update((name, _plain(value)) for name, value in fields.items())
        self.append(row)


def _framed(record: bytes) -> bytes:
    """Return a record in the format TFRecord, which adds its length and checksums."""
    from tensorboard.summary.writer.record_writer import RecordWriter

    framed = io.BytesIO()
    RecordWriter(framed).write(record)
    return framed.getvalue()


def _plain(value: Any) -> Any:
    """Return a value as JSON can store it.

    Scalars of numpy and torch become Python's, NaN and infinity become None, and paths become strings.
    """
    if not isinstance(value, str | int | float | Mapping | list | tuple) and callable(getattr(value, "item", None)):
        value = value.item()
    if isinstance(value, float):  # also numpy's float64, which float() converts
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, Path) else value


def flat_scalars(values: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Return only the numbers of a report, by name; those of nested mappings are named ``a/b``."""
    scalars: dict[str, float] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            scalars |= flat_scalars(value, f"{prefix}{name}/")
        elif isinstance(value, bool | int | float):
            scalars[prefix + name] = float(value)
    return scalars
