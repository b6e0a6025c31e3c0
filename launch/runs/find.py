"""Finds runs: by folder, name, unique beginning of a name, or the newest; and says whether one is alive.

Reads the run folders under ``runs/`` and those that living runs name in their directory of /dev/shm (file ``run``).
Writes nothing. A run is alive while the supervisor that its ``meta.json`` names lives: the process id alone is not
believed, because ids are used again; its start time must be the same too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from actorlearn.memory.shared import living_runs
from launch.errors import RunError
from launch.reports.checks import believed
from launch.reports.format import printable

RUNS = Path("runs")
"""Where runs go when no --run-dir is given, relative to the working directory."""

CONTROL = "control.sock"
"""Name of the supervisor's control socket in the run's directory of sockets."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run folder and what its meta.json said when it was found."""

    path: Path
    meta: dict[str, Any]

    @property
    def name(self) -> str:
        """The folder's name, by which the run is found again."""
        return self.path.name

    @property
    def alive(self) -> bool:
        """Whether its supervisor lives."""
        pid, started = self.meta.get("supervisor_pid"), self.meta.get("supervisor_started")
        return isinstance(pid, int) and started is not None and start_time(pid) == started

    @property
    def status(self) -> str:
        """Running, what summary.json says (finished, stopped, failed), or died without a summary."""
        if self.alive:
            return "running"
        return printable(str(self.summary().get("status", "died")))

    @property
    def control(self) -> str:
        """Endpoint of the supervisor's control socket."""
        return f"ipc://{self.meta.get('sockets', '')}/{CONTROL}"

    def summary(self) -> dict[str, Any]:
        """What the run said at its end; empty before, or when it had no time to say it."""
        return read_object(self.path / "summary.json")

    def metrics(self) -> Lines:
        """The rows of metrics.jsonl, those to come included."""
        return Lines(self.path / "metrics.jsonl")

    def events(self) -> Lines:
        """The rows of events.jsonl, those to come included."""
        return Lines(self.path / "events.jsonl")


class Lines:
    """Reads a file of JSON lines that another process appends to; each line is given once."""

    def __init__(self, path: Path) -> None:
        """Start at the beginning; the file may not exist yet."""
        self._path = path
        self._offset = 0  # after the last whole line: a line cut short by a crash is removed before the next is written

    def new(self) -> Iterator[dict[str, Any]]:
        """Complete lines written since the last call; lines that are no JSON object are skipped."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                read = file.read()
        except FileNotFoundError:
            return
        whole = read[: read.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            if (row := _object(line)) is not None:
                yield row

    def last(self) -> dict[str, Any] | None:
        """The last row there is, without reading the others; None when there is none."""
        return _last(self._path)


def _last(path: Path, chunk: int = 64 * 1024) -> dict[str, Any] | None:
    """The last whole row of a file of JSON lines, found from its end."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - chunk))
            lines = file.read().split(b"\n")[:-1]
    except OSError:
        return None
    return next((row for line in reversed(lines) if (row := _object(line)) is not None), None)


def attached_before(events: Path) -> list[str]:
    """Who was attached to a run in its last life, and not detached before that ended; of a learner its trainer."""
    found: dict[str, None] = {}
    spawned: set[str] = set()
    for event in Lines(events).new():
        kind, name = event.get("kind"), str(event.get("process"))
        first = kind == "spawned" and event.get("incarnation") == 0
        if kind == "resumed" or (first and name in spawned):  # a life of the run begins: in one, names are given once
            found.clear()
            spawned.clear()
        if first:
            spawned.add(name)
        elif kind == "attached" and not event.get("cause"):  # with one, it came along with a trainer
            found[name] = None
        elif kind == "detached":
            found.pop(name, None)
    return list(found)


def detached_before(events: Path) -> set[str]:
    """Who was detached in any life of a run, and did not come back."""
    found: set[str] = set()
    for event in Lines(events).new():
        kind, name = event.get("kind"), str(event.get("process"))
        if kind == "detached":
            found.add(name)
        elif kind == "spawned":
            found.discard(name)
    return found


def start_time(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None when there is none, or only its zombie.

    The pair (pid, start time) names a process for good, until the next boot.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    state, *fields = stat[stat.rindex(b")") + 2 :].split()  # the name before it may hold spaces and brackets
    return None if state in (b"Z", b"X") else int(fields[18])  # field 22 of proc(5)


def read(path: Path) -> Run | None:
    """The run in this folder, or None when it is no run folder."""
    if not (path / "meta.json").is_file() and not (path / "topology.yaml").is_file():
        return None
    return Run(path.resolve(), read_object(path / "meta.json"))


def living() -> list[Run]:
    """Runs of this user that are alive on this machine, wherever their folders are."""
    found: dict[Path, Run] = {}
    for directory in living_runs():
        try:
            folder = Path((directory / "run").read_text().strip())
        except (OSError, UnicodeDecodeError):
            continue  # just being made, or already being removed
        run = read(folder) if folder.is_absolute() else None
        if run is not None and run.alive:
            found[run.path] = run
    return sorted(found.values(), key=_age)


def known(folder: Path = RUNS) -> list[Run]:
    """All runs under a folder, and the living ones, oldest first."""
    found = {run.path: run for run in living()}
    if folder.is_dir():
        for path in folder.iterdir():
            if path.is_dir() and (run := read(path)) is not None:
                found[run.path] = run
    return sorted(found.values(), key=_age)


def find(word: str | None, folder: Path = RUNS) -> Run:
    """The run meant by a folder, a name or the beginning of one; without a word the newest, a living one first."""
    if word and (run := read(Path(word))) is not None:
        return run
    runs = known(folder)
    if not runs:
        said = f"{word!r} is no run folder and " if word else ""
        raise RunError(f"{said}there are no runs in {folder}/; start one with `actorlearn run TOPOLOGY`")
    if not word:
        return next((run for run in reversed(runs) if run.alive), runs[-1])
    named = [run for run in runs if run.name == word] or [run for run in runs if run.name.startswith(word)]
    if not named:
        raise RunError(f"{word!r} is no run: neither a run folder nor the beginning of {_names(runs)}")
    if len(named) > 1:
        raise RunError(f"{word!r} is the beginning of {len(named)} runs: say more of {_names(named)}")
    return named[0]


def find_living(word: str | None, folder: Path = RUNS) -> Run:
    """As ``find``, but the run must be alive; without a word it must be the only living one."""
    if word:
        run = find(word, folder)
        if not run.alive:
            raise RunError(
                f"{run.name} is not alive ({run.status}); `actorlearn ps` lists living runs, "
                f"`actorlearn resume {run.name}` goes on from its newest checkpoint"
            )
        return run
    runs = living()
    if not runs:
        raise RunError("no run is alive; `actorlearn ps --all` lists those that have ended")
    if len(runs) > 1:
        raise RunError(f"{len(runs)} runs are alive: name one of {_names(runs)}")
    return runs[0]


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object; empty when the file is missing or is none."""
    try:
        return _object(path.read_bytes()) or {}
    except OSError:
        return {}


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None
    return believed(value) if isinstance(value, dict) else None


def _age(run: Run) -> tuple[float, str]:
    """Runs sort by when their folder was made: topology.yaml is written once, at the start."""
    for name in ("topology.yaml", "meta.json"):
        try:
            return os.stat(run.path / name).st_mtime, run.name
        except OSError:
            continue
    return 0.0, run.name


def _names(runs: list[Run], most: int = 6) -> str:
    newest = [run.name for run in reversed(runs)]
    return ", ".join(newest[:most]) + (f" and {len(newest) - most} more" if len(newest) > most else "")
