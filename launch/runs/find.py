"""Finds runs by folder, by name or by the beginning of a name, and determines whether a run is alive.

Searches ``runs/``, and the directories of living runs in /dev/shm, each of which has a file ``run`` with the path of
the run's folder. A run is alive while its supervisor, the process of ``actorlearn run``, is alive. ``meta.json`` has
its process id and its start time; both are compared, because the system reuses process ids.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from actorlearn.address import Ipc
from actorlearn.files import open_regular
from actorlearn.memory.shared import living_runs
from actorlearn.metrics.writer import EVENTS_FILE, METRICS_FILE
from actorlearn.parameters.checkpoint_folders import directories, folders, steps_of
from actorlearn.parameters.chosen_checkpoints import NEWEST, directory_of_equals, named
from launch.errors import RunError
from launch.machine.locks import is_locked
from launch.plan.addresses import control_socket
from launch.reports.format import printable
from launch.runs.jsonl import Lines, read_object
from launch.topology import strict_yaml
from launch.topology.strict_yaml import TopologyError

RUNS = Path("runs")
"""Folder of runs without --run-dir, relative to the working directory."""

_MOST_NAMES = 6
"""Most names that a line lists."""
_TIME = re.compile(r"-\d{8}-\d{6}$")
"""The time in the name of a folder, which ``with_time`` adds."""
META_FILE, TOPOLOGY_FILE, SUMMARY_FILE = "meta.json", "topology.yaml", "summary.json"
IMPORTED = "imported"
"""Status of a run that `actorlearn import` has made from a log of another program; its meta.json has this key.

Such a run has only a topology and a learning curve.
"""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A run folder, and the content of its meta.json when it was found."""

    path: Path
    meta: dict[str, Any]

    @property
    def name(self) -> str:
        """The name of the folder, which identifies the run on the command line."""
        return self.path.name

    @property
    def alive(self) -> bool:
        """Whether its supervisor is alive."""
        pid, started = self.meta.get("supervisor_pid"), self.meta.get("supervisor_started")
        return isinstance(pid, int) and started is not None and start_time(pid) == started

    @property
    def status(self) -> str:
        """The state: "running", "finished", "stopped", "failed" or, if the supervisor was killed, "died"."""
        if self.alive:
            return "running"
        return printable(str(self.summary().get("status", "died")))

    @property
    def control(self) -> Ipc:
        """Address of the supervisor's control socket."""
        return control_socket(Path(str(self.meta.get("sockets", ""))))

    def summary(self) -> dict[str, Any]:
        """Return the content of summary.json; {} before the end of the run, or if it has died."""
        return read_object(self.path / SUMMARY_FILE)

    def topology(self) -> dict[str, Any]:
        """Return the topology of the run with all its defaults; {} if the file cannot be read."""
        try:
            with open_regular(self.path / TOPOLOGY_FILE) as file:
                topology = strict_yaml.read(file.read(strict_yaml.MAX_BYTES + 1), TOPOLOGY_FILE).value
        except (OSError, TopologyError):
            return {}
        return topology if isinstance(topology, dict) else {}

    def metrics(self) -> Lines:
        """Return a reader of metrics.jsonl, which returns each line once, also while the run adds lines."""
        return Lines(self.path / METRICS_FILE)

    def events(self) -> Lines:
        """Return a reader of events.jsonl, which returns each event once, also while the run adds events."""
        return Lines(self.path / EVENTS_FILE)

    def checkpoints(self) -> list[Path]:
        """Return the folders of all learners' checkpoints, the fewest steps first."""
        try:
            found = [
                folder for directory in directories(self.path / "checkpoints").values() for folder in folders(directory)
            ]
        except OSError:
            return []
        return sorted(found, key=lambda folder: (steps_of(folder), folder))

    def refuse_missing(self, purpose: str, at: str | int, learner: int | None = 0) -> None:
        """Raise RunError if a learner has no checkpoint ``at``; the message lists the checkpoints that exist.

        ``purpose``: a verb for the message, such as "export". ``at``: "newest", "best", or the environment steps of a
        checkpoint. ``learner``: None checks whether any learner has it.
        """
        if not self.checkpoints():
            way_out = "its trainer writes the first one when it starts" if self.alive else "start another run"
            raise RunError(f"{self.name} has no checkpoint to {purpose}; {way_out}")
        root = self.path / "checkpoints"
        learners = directories(root)
        if learner is not None and learner not in learners:
            known = ", ".join(map(str, learners))
            raise RunError(f"{self.name} has no checkpoint of learner {learner}; choose one of {known}")
        if at != NEWEST:
            try:
                named(directory_of_equals(root, at) if learner is None else learners[learner], at)
            except ValueError as error:
                raise RunError(f"{self.name}: {error}") from None


def start_time(pid: int) -> int | None:
    """Return the start time of a process in hundredths of a second since boot; None if it is gone or a zombie.

    The pair (pid, start time) is unique until the next boot. Wall time is not used, because it can be set.
    """
    try:
        booted_s = psutil.boot_time()
        process = psutil.Process(pid)
        if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return None
        return round(100 * (process.create_time() - booted_s))
    except (psutil.Error, ValueError, OverflowError):  # a pid read from a file may be any number
        return None


def read(path: Path) -> RunFolder | None:
    """Return the run in this folder; None if it is not a run folder."""
    # os.path, because pathlib raises for folders of other users that may not be read.
    if not any(os.path.isfile(path / name) for name in (META_FILE, TOPOLOGY_FILE)):
        return None
    return RunFolder(path.resolve(), read_object(path / META_FILE))


def living() -> list[RunFolder]:
    """Return the runs of this user that are alive on this machine, in any folder."""
    found: dict[Path, RunFolder] = {}
    for directory in living_runs():
        try:
            folder = Path((directory / "run").read_text().strip())
        except (OSError, UnicodeDecodeError):
            continue  # just being made, or already being removed
        run = read(folder) if folder.is_absolute() else None
        if run is not None and run.alive:
            found[run.path] = run
    return sorted(found.values(), key=_age)


def all_runs(folder: Path = RUNS) -> list[RunFolder]:
    """Return the runs in a folder and in its subfolders (those of sweeps), and all living runs, oldest first."""
    found = {run.path: run for run in living()}
    found |= {run.path: run for run in _below(folder)}
    return sorted(found.values(), key=_age)


def with_time(name: str) -> str:
    """Return NAME-YYYYmmdd-HHMMSS, the default name of the folder of a run that starts now."""
    return f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"


def short(path: Path) -> str:
    """Return a path as text for the user: relative to the working directory if it is inside."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def output_of(runs: Sequence[RunFolder], name: str) -> Path:
    """Return the default path of a picture or table of runs: in the folder of a single run, else the current folder."""
    return runs[0].path / name if len(runs) == 1 else Path(name)


def find(word: str | None) -> RunFolder:
    """Return the run that ``word`` names: its folder, its name, the beginning of its name, or "newest".

    Without a word, return the newest living run, or the newest run if none is alive. Raises RunError if there is no
    such run, or more than one.
    """
    if not word:
        runs = _some_runs()
        return next((run for run in reversed(runs) if run.alive), runs[-1])
    found = _named(word)
    if len(found) > 1 and len({run.name for run in found}) == 1:
        folders = ", ".join(str(run.path) for run in reversed(found))
        raise RunError(
            f"{word!r} means {len(found)} runs, all named {found[0].name}; write the folder of one: {folders}"
        )
    if len(found) > 1 and _TIME.sub("", found[0].name) == word:
        raise RunError(f"{len(found)} runs are named {word!r}; write the time too: one of {_names(found)}")
    if len(found) > 1:
        raise RunError(
            f"{len(found)} runs have names that begin with {word!r}; write more of one name: {_names(found)}"
        )
    return found[0]


def find_all(words: Sequence[str]) -> tuple[list[RunFolder], str]:
    """Return the runs that the words name, and a line about words that are left out, "" if there are none.

    A beginning of a name stands for all runs whose names begin so. Files and folders that are not runs are left out,
    because a shell pattern such as ``sweep/*`` matches them too. Raises RunError if no word names a run, or if a word
    is no file either.
    """
    found: list[RunFolder] = []
    others: dict[str, RunError] = {}
    for word in words:
        try:
            found += _named(word)
        except RunError as error:
            if not os.path.exists(word):
                raise
            others[word] = error
    if others and not found:
        raise next(iter(others.values()))
    line = f"left out, as they are not run folders: {_listed([*others], _MOST_NAMES)}" if others else ""
    return found, line


def describe_found(words: Sequence[str], runs: Sequence[RunFolder]) -> str:
    """Return a line that lists the runs found for ``words``; "" if each word is the folder or whole name of a run."""
    names = {run.name for run in runs}
    if all(word in names or read(Path(word)) is not None for word in words):
        return ""
    return f"{len(runs)} run{'s' * (len(runs) != 1)}: {_names(runs[::-1], most=20)}"


def _named(word: str) -> list[RunFolder]:
    """Return the runs that a word names, oldest first; raises RunError if there are none.

    The first of these that matches counts: the path of a run folder, the name of a folder, "newest", the name of a
    folder without its time, the beginning of a name.
    """
    if (run := read(Path(word))) is not None:
        return [run]
    runs = all_runs()
    own = [run for run in runs if run.name == word]
    if not own and word == NEWEST:
        return [_some_runs(f"{word!r} is not a run folder, and ")[-1]]
    own = own or [run for run in runs if _TIME.sub("", run.name) == word]
    found = own or [run for run in runs if run.name.startswith(word)]
    if not found:
        _refuse_starting(word)
        _some_runs(f"{word!r:.100} is not a run folder, and ")
        raise RunError(f"{word!r:.100} is neither a run folder nor the beginning of a run's name; runs: {_names(runs)}")
    return found


def _refuse_starting(word: str) -> None:
    """Raise RunError if the word names a folder that a run has locked, but in which the run has not begun yet."""
    inside = [path for path in RUNS.iterdir() if path.name.startswith(word)] if word and RUNS.is_dir() else []
    for folder in (Path(word), *sorted(inside)):
        if is_locked(folder):
            raise RunError(
                f"{folder.name} is starting: its environment and network are being tried, and it takes no commands "
                "yet; try again in a few seconds, or press Ctrl-C where it was started"
            )


def _some_runs(said: str = "") -> list[RunFolder]:
    if runs := all_runs():
        return runs
    raise RunError(f"{said}there are no runs in {RUNS}/; start one with `actorlearn run TOPOLOGY`")


def find_living(word: str | None) -> RunFolder:
    """Return the living run that ``word`` names, as for ``find``; without a word, the only living run.

    Raises RunError if there is no such run, if it is not alive, or if several are alive and there is no word.
    """
    if word:
        run = find(word)
        if not run.alive:
            raise RunError(
                f"{run.name} is not alive ({run.status:.100}); `actorlearn ps` lists living runs, "
                f"`actorlearn resume {run.name}` continues it from its newest checkpoint"
            )
        return run
    runs = living()
    if not runs:
        raise RunError("no run is alive; `actorlearn ps --all` lists those that have ended")
    if len(runs) > 1:
        raise RunError(f"{len(runs)} runs are alive: name one of {_names(runs)}")
    return runs[0]


def _below(folder: Path, deeper: bool = True) -> Iterator[RunFolder]:
    """Yield the runs in a folder and, if ``deeper``, those in its subfolders, such as the folder of a sweep."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if (run := read(path)) is not None:
            yield run
        elif deeper and os.path.isdir(path):
            with suppress(OSError):  # the folder is another user's, or is being removed
                yield from _below(path, deeper=False)


def _age(run: RunFolder) -> tuple[float, str]:
    """Return the sort key of a run: the time of its start or last resume (that of topology.yaml), then its name."""
    for name in (TOPOLOGY_FILE, META_FILE):
        try:
            return os.stat(run.path / name).st_mtime, run.name
        except OSError:
            continue
    return 0.0, run.name


def _names(runs: Sequence[RunFolder], most: int = _MOST_NAMES) -> str:
    """Return the names of runs, newest first; runs with one name are named by their folders."""
    count = Counter(run.name for run in runs)
    return _listed([run.name if count[run.name] == 1 else short(run.path) for run in reversed(runs)], most)


def _listed(names: Sequence[str], most: int) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
