"""Finds logs of other programs: in a named file, or in a folder and all folders below it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from launch.errors import RunError
from launch.foreign.events import read_events
from launch.foreign.log import Log
from launch.foreign.tables import read_monitors, read_table

EVENTS, MONITOR, PROGRESS = "tfevents", "monitor.csv", "progress.csv"
"""Parts of file names: event files of TensorBoard, files of Stable-Baselines3's Monitor and of its logger."""


def find_logs(source: Path, score: str | None = None) -> list[Log]:
    """Return the logs in a file, or in a folder and all folders below it.

    ``score``: name under which logs have the score; None: any known name. Raises RunError if there are no logs, and
    OSError.
    """
    if not source.is_dir():
        return _read_file(source)
    found = []
    for folder, below, names in os.walk(source):
        below.sort()
        if log := _read_folder(Path(folder), sorted(names), score):
            found.append(log)
    if not found:
        raise RunError(
            f"{source} contains no logs: a log is {PROGRESS}, {MONITOR}, or a file with {EVENTS} in its name"
        )
    return found


def _read_file(path: Path) -> list[Log]:
    if not path.is_file():
        raise RunError(f"{path}: no such file or folder; name logs of another program")
    if EVENTS in path.name:
        return [read_events([path])]
    if path.name.endswith(MONITOR):
        return [replace(read_monitors([path]), source=path)]
    if path.suffix == ".csv":
        return read_table(path)
    raise RunError(f"{path.name} is not a supported log: its name must contain {EVENTS} or end in .csv")


def _read_folder(folder: Path, names: Sequence[str], score: str | None) -> Log | None:
    """Return the first log in a folder that has a score.

    Environment, program, algorithm and seed are from any of the folder's logs.
    """
    logs = list(_logs(folder, names))
    if not logs:
        return None
    log = next((log for log in logs if log.score_name(score)), logs[0])
    return replace(
        log,
        source=folder,
        env_id=next((its.env_id for its in logs if its.env_id), None),
        program=next((its.program for its in logs if its.program), None),
        algorithm=next((its.algorithm for its in logs if its.algorithm), None),
        seed=next((its.seed for its in logs if its.seed is not None), None),
    )


def _logs(folder: Path, names: Sequence[str]) -> Iterator[Log]:
    if events := [folder / name for name in names if EVENTS in name]:
        yield read_events(events)
    if PROGRESS in names:
        yield from read_table(folder / PROGRESS)
    if monitors := [folder / name for name in names if name.endswith(MONITOR)]:
        yield read_monitors(monitors)
