"""What a run leaves to be read: ``metrics.jsonl``, ``events.jsonl`` (one JSON object a line) and TensorBoard scalars.

``metrics.jsonl`` is the truth; TensorBoard is a copy of its numbers over ``env_steps``. Each file has one writing
process (metrics: the trainer, events: the supervisor); reading while they write is safe, because a line is written in
one call, and a line that a crash cut short is dropped when the file is opened again. What the numbers mean is not known
here.

TensorBoard's files are written with its record format alone: its own writers would import TensorFlow where that happens
to be installed, and start a thread.
"""

from __future__ import annotations

import json
import math
import os
import socket
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

METRICS_FILE = "metrics.jsonl"
EVENTS_FILE = "events.jsonl"
TENSORBOARD_FOLDER = "tensorboard"


class _LinesFile:
    """Appends JSON lines, unbuffered: what was written survives the death of the process."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        _drop_cut_line(path)
        self._path = path
        self._file = path.open("ab", buffering=0)

    def append(self, row: Mapping[str, Any]) -> None:
        """Write one line; raises ValueError after ``close``."""
        if self._file.closed:
            raise ValueError(f"{self._path} is closed: write the last line before close()")
        line = json.dumps(row, allow_nan=False, ensure_ascii=False) + "\n"
        self._file.write(line.encode())

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._file.close()


class MetricsWriter:
    """Writes one row a report: ``with MetricsWriter(run_dir) as writer: writer.row({"env_steps": 4096, …})``."""

    def __init__(self, run_dir: Path, *, tensorboard: bool = True) -> None:
        """Append to ``run_dir/metrics.jsonl``; the TensorBoard file is made at the first row."""
        self._lines = _LinesFile(run_dir / METRICS_FILE)
        self._scalars = _ScalarsFile(run_dir / TENSORBOARD_FOLDER) if tensorboard else None

    def row(self, values: Mapping[str, Any]) -> None:
        """Write one report; NaN and infinity become null, nested mappings become ``a/b`` in TensorBoard."""
        plain = {str(name): _plain(value) for name, value in values.items()}
        env_steps = plain.get("env_steps")
        if not isinstance(env_steps, int) or isinstance(env_steps, bool) or env_steps < 0:
            raise ValueError(
                f"env_steps is {env_steps!r}; every row of {METRICS_FILE} needs a whole number of steps, its x-axis"
            )
        self._lines.append(plain)
        if self._scalars is not None:
            self._scalars.append(env_steps, _flat_scalars(plain))

    def close(self) -> None:
        """Close both files; a second call does nothing."""
        self._lines.close()
        if self._scalars is not None:
            self._scalars.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class EventsWriter:
    """Writes what happened to processes: spawned, died, restarted, attached, …, each with its cause."""

    def __init__(
        self,
        run_dir: Path,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Append to ``run_dir/events.jsonl``; ``time_s`` counts from here and never runs backwards."""
        self._lines = _LinesFile(run_dir / EVENTS_FILE)
        self._monotonic = monotonic
        self._wall = wall
        self._started_s = monotonic()

    def event(self, kind: str, process: str, incarnation: int, cause: str, **fields: Any) -> None:
        """Write one event; ``fields`` are whatever else explains it."""
        row: dict[str, Any] = {
            "time": self._wall().isoformat(timespec="milliseconds"),
            "time_s": round(self._monotonic() - self._started_s, 4),
            "kind": kind,
            "process": process,
            "incarnation": incarnation,
            "cause": cause,
        }
        taken = sorted(row.keys() & fields.keys())
        if taken:
            raise ValueError(f"event field {taken[0]!r} is written by EventsWriter itself; give yours another name")
        row.update((name, _plain(value)) for name, value in fields.items())
        self._lines.append(row)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._lines.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class _ScalarsFile:
    """One TensorBoard event file, made at the first row and flushed at every one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._records: Any = None
        self._last_step = 0

    def append(self, step: int, scalars: Mapping[str, float]) -> None:
        """Write the scalars of one step."""
        # Imported here: a third of a second that other users of this module need not pay.
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary

        if self._records is None:
            self._open()
            self._restart(Event, SessionLog, step)
        elif step < self._last_step:
            self._restart(Event, SessionLog, step)
        self._last_step = step
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()])
        self._write(Event(wall_time=time.time(), step=step, summary=summary))
        self._records.flush()

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._records is not None and not self._records.closed:
            self._records.close()

    def _open(self) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns() // 10**9:010d}.{socket.gethostname()}.{os.getpid()}"
        number = len(list(self._folder.iterdir()))  # two writers in one second of one process
        self._records = RecordWriter((self._folder / f"{name}.{number}").open("xb"))
        self._write(Event(wall_time=time.time(), file_version="brain.Event:2"))

    def _restart(self, event: Any, session: Any, step: int) -> None:
        """Tell TensorBoard to forget what it was shown from this step on: the run was restored from before it."""
        self._write(event(wall_time=time.time(), step=step, session_log=session(status=session.START)))

    def _write(self, event: Any) -> None:
        self._records.write(event.SerializeToString())


def _plain(value: Any) -> Any:
    """What JSON can hold: numpy and torch scalars become Python's, NaN and infinity None, paths strings."""
    if not isinstance(value, str | int | float | Mapping | list | tuple) and callable(getattr(value, "item", None)):
        value = value.item()
    if isinstance(value, float):  # numpy's float64 is one too, and float() makes it Python's
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, Path) else value


def _flat_scalars(values: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """The numbers of a row as TensorBoard tags; texts, lists and nulls stay in the JSON."""
    scalars: dict[str, float] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            scalars |= _flat_scalars(value, f"{prefix}{name}/")
        elif isinstance(value, bool | int | float):
            scalars[prefix + name] = float(value)
    return scalars


def _drop_cut_line(path: Path) -> None:
    """Cut a last line without its newline, which a killed writer may leave, so that every line parses."""
    if not path.exists():
        return
    with path.open("rb+") as file:
        end = file.seek(0, os.SEEK_END)
        position = end
        tail = b""
        while position > 0 and b"\n" not in tail:
            step = min(position, 4096)
            position = file.seek(position - step)
            tail = file.read(step) + tail
        kept = position + tail.rfind(b"\n") + 1
        if kept < end:
            file.truncate(kept)
