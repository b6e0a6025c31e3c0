"""``actorlearn top`` shows the progress of a run; ``actorlearn logs`` prints the output of its processes.

Both work on living and ended runs, and change nothing.
"""

from __future__ import annotations

import json as json_format
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path

from rich.console import Console as Terminal
from rich.live import Live

from actorlearn.files import is_regular, open_regular
from launch.display.console import heading, report_line, timed_line
from launch.display.screen import picture
from launch.errors import RunError
from launch.reports.format import event_line
from launch.runs import find
from launch.runs.find import RunFolder
from launch.runs.view import RunReader, RunView

_LOOK_EVERY_S = 1.0
_FOLLOW_EVERY_S = 0.2


def top(word: str | None, once: bool, json: bool, plain: bool) -> int:
    """Show the progress of a run until it ends; return the exit status.

    ``once``: show it once and return. ``plain``: print lines instead of a screen that changes.
    """
    reader = RunReader(find.find(word))
    terminal = Terminal()
    if plain and not json:
        _follow_in_lines(reader, once)
        return 0
    view = reader.look()
    if json:
        print(json_format.dumps(view.as_json()))
    elif once or not terminal.is_terminal or view.has_ended:
        _print(view, terminal)
    else:
        _follow(reader, view, terminal)
    return 0


def _follow(reader: RunReader, view: RunView, terminal: Terminal) -> None:
    with Live(console=terminal, auto_refresh=False, screen=True) as live:
        while reader.run.alive:
            live.update(picture(view, terminal.width, terminal.height), refresh=True)
            time.sleep(_LOOK_EVERY_S)
            view = reader.look()
    _print(reader.look(), terminal)


def _follow_in_lines(reader: RunReader, once: bool) -> None:
    """Print the newest report; unless ``once``, also each later report and event until the run ends."""
    view = reader.look()
    print(heading(view), flush=True)
    said = view.events  # earlier events are in `logs` and events.jsonl
    print(timed_line(view.elapsed_s, report_line(view)), flush=True)
    while not once and not view.has_ended:
        time.sleep(_LOOK_EVERY_S)
        before, view = view, reader.look()
        new = [event for event in view.events if not any(event is one for one in said)]
        lines = [timed_line(event.get("time_s"), event_line(event)) for event in new]
        if view.row is not before.row:
            lines.append(timed_line(view.elapsed_s, report_line(view)))
        said = view.events
        for line in lines:
            print(line, flush=True)


def _print(view: RunView, terminal: Terminal) -> None:
    terminal.print(picture(view, terminal.width, terminal.height))


def logs(word: str, process: str | None, follow: bool, lines: int) -> int:
    """Print the output of one process, or of all, beginning with its last ``lines`` lines; return the exit status.

    ``follow``: also print what the processes write later, until the run ends.
    """
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


def _log_files(run: RunFolder, process: str | None) -> list[Path]:
    files = sorted(filter(is_regular, (run.path / "logs").glob("*.log")))
    if not files:
        raise RunError(f"{run.name} has no logs in {run.path / 'logs'}; its processes have not been started")
    if process is None:
        return files
    chosen = [path for path in files if path.stem == process]
    if not chosen:
        raise RunError(f"{run.name} has no process {process!r}; choose one of {', '.join(p.stem for p in files)}")
    return chosen


def _print_new(tails: Mapping[Path, Tail], named: bool, last: bool = False) -> None:
    width = max(len(path.stem) for path in tails)
    for path, tail in tails.items():
        for line in tail.new(last):
            print(f"{path.stem:<{width}} | {line}" if named else line)
    sys.stdout.flush()


class Tail:
    """Reads the last lines of a growing text file, and then the lines that are added."""

    def __init__(self, path: Path, lines: int) -> None:
        """Begin ``lines`` lines before the present end of the file."""
        self._path = path
        with open_regular(path) as file:
            newest = deque(file, maxlen=lines)
            self._offset = file.tell() - sum(map(len, newest))

    def new(self, last: bool = False) -> Iterator[str]:
        """Yield the lines written since the last call; yield an incomplete line only if ``last`` is true."""
        with open_regular(self._path) as file:
            file.seek(self._offset)
            read = file.read()
        taken = read if last else read[: read.rfind(b"\n") + 1]
        self._offset += len(taken)
        yield from taken.decode("utf-8", "replace").splitlines()
