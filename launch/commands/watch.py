"""Watches a run from outside: the picture of ``top`` and the output of ``logs``.

Reads metrics.jsonl, events.jsonl and logs/ of the run folder, and asks a living supervisor for its processes. Works on
ended runs too, and never changes one.
"""

from __future__ import annotations

import json as json_format
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console as Terminal
from rich.live import Live

from launch.display.screen import Known, picture
from launch.errors import FailedError, RunError
from launch.reports.checks import believed
from launch.runs import find
from launch.runs.client import ask
from launch.runs.find import Run

_LOOK_EVERY_S = 1.0
_FOLLOW_EVERY_S = 0.2
_TAIL_BYTES_A_LINE = 400  # a guess at a long line; a traceback's are shorter


class View:
    """What a run shows to someone who looks at it now and then."""

    def __init__(self, run: Run) -> None:
        """Read the topology and everything reported so far."""
        from launch.topology.load import load

        self.run = run
        topology = load(run.path / "topology.yaml")
        self.known = Known(run.name, topology.env.id, topology.total_steps)
        self._metrics, self._events = run.metrics(), run.events()

    def look(self) -> None:
        """Read what is new."""
        for row in self._metrics.new():
            self.known.add_row(row)
        for event in self._events.new():
            self.known.add_event(event)
        self.known.status = self.run.status
        self.known.processes = self._processes() if self.run.alive else ()

    @property
    def elapsed_s(self) -> float:
        """Time of the last report, plus its age while the run is alive."""
        reported_s = float(self.known.row.get("time_s") or 0.0)
        if not self.run.alive:
            return float(self.run.summary().get("wall_time_s") or reported_s)
        with suppress(OSError):
            reported_s += max(0.0, time.time() - (self.run.path / "metrics.jsonl").stat().st_mtime)
        return reported_s

    def _processes(self) -> Sequence[Mapping[str, Any]]:
        try:
            found = ask(self.run, "status", timeout_s=2.0).data.get("processes")
        except FailedError:
            return self.known.processes  # as they were; a supervisor that is busy answers the next time
        return [believed(process) for process in found if isinstance(process, dict)] if isinstance(found, list) else []


def top(word: str | None, once: bool, json: bool) -> int:
    """Show a run until it ends; returns the exit status."""
    view = View(find.find(word))
    view.look()
    terminal = Terminal()
    if json:
        known = view.known
        print(
            json_format.dumps(
                {
                    "run": view.run.name,
                    "folder": str(view.run.path),
                    "status": known.status,
                    "elapsed_s": round(view.elapsed_s, 3),
                    "left_s": known.left_s if view.run.alive else None,
                    "total_steps": known.total_steps,
                    "row": dict(known.row),
                    "processes": [dict(process) for process in known.processes],
                    "events": list(known.events),
                    "chosen": list(known.chosen),
                    "summary": view.run.summary(),
                }
            )
        )
    elif once or not terminal.is_terminal or not view.run.alive:
        terminal.print(picture(view.known, view.elapsed_s, terminal.width, terminal.height))
    else:
        _follow(view, terminal)
    return 0


def _follow(view: View, terminal: Terminal) -> None:
    """Redraw until the run ends."""
    with Live(console=terminal, auto_refresh=False, screen=True) as live:
        while view.run.alive:
            live.update(picture(view.known, view.elapsed_s, terminal.width, terminal.height), refresh=True)
            time.sleep(_LOOK_EVERY_S)
            view.look()
    view.look()
    terminal.print(picture(view.known, view.elapsed_s, terminal.width, terminal.height))


def logs(word: str, process: str | None, follow: bool, lines: int) -> int:
    """Print the processes' output; returns the exit status."""
    run = find.find(word)
    files = _log_files(run, process)
    tails = {path: Tail(path, lines) for path in files}
    follow = follow and run.alive
    _print_new(tails, process is None, last=not follow)
    while follow and run.alive:
        time.sleep(_FOLLOW_EVERY_S)
        if process is None:
            for path in _log_files(run, None):  # processes that were attached meanwhile
                tails.setdefault(path, Tail(path, lines))
        _print_new(tails, process is None)
    if follow:
        _print_new(tails, process is None, last=True)
    return 0


def _log_files(run: Run, process: str | None) -> list[Path]:
    files = sorted((run.path / "logs").glob("*.log"))
    if not files:
        raise RunError(f"{run.name} has no logs in {run.path / 'logs'}; its processes have not been started")
    if process is None:
        return files
    chosen = [path for path in files if path.stem == process]
    if not chosen:
        raise RunError(f"{process!r} is no process of {run.name}: choose one of {', '.join(p.stem for p in files)}")
    return chosen


def _print_new(tails: Mapping[Path, Tail], named: bool, last: bool = False) -> None:
    width = max(len(path.stem) for path in tails)
    for path, tail in tails.items():
        for line in tail.new(last):
            print(f"{path.stem:<{width}} | {line}" if named else line)
    sys.stdout.flush()


class Tail:
    """The last lines of a text file that grows, then those that are added."""

    def __init__(self, path: Path, lines: int) -> None:
        """Begin about ``lines`` lines before the end."""
        self._path = path
        size = path.stat().st_size
        self._offset = max(0, size - lines * _TAIL_BYTES_A_LINE)
        with path.open("rb") as file:
            file.seek(self._offset)
            read = file.read(size - self._offset)
        ends = [i for i, byte in enumerate(read) if byte == ord("\n")]
        starts = [0, *(end + 1 for end in ends)] if self._offset == 0 else [end + 1 for end in ends]
        starts = [start for start in starts if start < len(read)]
        self._offset += starts[-lines] if 0 < lines <= len(starts) else (starts[0] if lines and starts else len(read))

    def new(self, last: bool = False) -> Iterator[str]:
        """Lines written since the last call; one that is not yet whole only when this is the last call."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            read = file.read()
        taken = read if last else read[: read.rfind(b"\n") + 1]
        self._offset += len(taken)
        yield from taken.decode("utf-8", "replace").splitlines()
