"""Finds the runs for the desk again and again, and reads what they add to their files.

For each run, the newest snapshot (`RunView`), thinned curves and the events to mark on them are kept. None of these
grows with the length of the run. Several threads may use the objects.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from actorlearn.metrics.writer import EVENTS_FILE, METRICS_FILE
from launch.desk.cast import Cast
from launch.desk.curves import GrowingCurve
from launch.desk.load import Load, MachineLoad
from launch.reports.compare import group_alike
from launch.runs import find
from launch.runs.find import RunFolder
from launch.runs.view import RunReader, RunView

LOOK_EVERY_S = 0.025
"""Seconds between two looks at the files of living runs."""
CHECK_EVERY_S = 1.0
"""Seconds between two checks whether the supervisor of a run is alive. A run that was killed has no last event."""
FIND_EVERY_S = 2.0
"""Least seconds between two searches for runs."""
FIND_SHARE = 50.0
"""Least time between two searches, divided by the duration of a search: searching takes at most 1/50 of the time."""
BEST_S = 0.1
"""Seconds of a look after which it reads the best score of no further run."""
MARKED = frozenset({"died", "gave up", "attached", "detached", "resumed", "lost", "joined", "failed", "silent"})
"""Kinds of events that are marked on curves."""
MOST_MARKS = 200
"""Most marked events of a run."""
MOST_KEPT = 200
KEPT_OF_RUN = 4
"""Most encoded parts that are kept for other pages: the larger of ``MOST_KEPT`` and this number times the runs."""
MOST_CURVES = 8
"""Most curves of a run that are kept; those that pages have requested last remain."""


def id_of(run: RunFolder) -> str:
    """Return the id of a run on the desk's pages, a short digest of the path of its folder."""
    return hashlib.blake2s(str(run.path).encode(), digest_size=6).hexdigest()


class Group(NamedTuple):
    """Runs that differ only in name and seed."""

    number: int
    """Number of the group; it stays the same as long as the group exists, so that the group keeps its colour."""
    members: list[WatchedRun]


class WatchedRun:
    """A run that the desk shows: its newest snapshot, its curves and the events to mark on them."""

    def __init__(self, run: RunFolder) -> None:
        """Read the newest report and the events of the run."""
        self.run, self.id = run, id_of(run)
        self.marks: deque[Mapping[str, Any]] = deque(maxlen=MOST_MARKS)
        """Newest events of the kinds in ``MARKED``."""
        self.version = 0
        """Increases whenever something new was read."""
        self.load = Load()
        """Processor time and memory of the run's processes, as ``measure`` has found them."""
        self._cast = Cast()
        self._curves: dict[str, GrowingCurve] = {}
        """Curves by metric; the one that was requested last is at the end."""
        self._reader = RunReader(run, self._note, newest=True)
        self._growing = tuple(str(run.path / name) for name in (METRICS_FILE, EVENTS_FILE))
        self._sizes: tuple[int, ...] = ()
        self._check_s = 0.0
        """Time of the next check whether the run is alive."""
        self._lock = threading.Lock()
        self.view: RunView = self._reader.look(processes=False)

    @property
    def has_news(self) -> bool:
        """Whether there may be something to read.

        This is so if the best score is unknown, if the files have grown, or if it is time to check if the run is alive.
        """
        if not self._reader.knows_best:
            return True
        return not self.view.has_ended and (time.monotonic() >= self._check_s or self._files() != self._sizes)

    def look(self) -> None:
        """Read new metrics and events, if the files have grown or the run has ended."""
        sizes, now_s = self._files(), time.monotonic()
        ended = False
        if now_s >= self._check_s:
            self._check_s, ended = now_s + CHECK_EVERY_S, self.view.has_ended == self.run.alive
        if ended or sizes != self._sizes:
            self._sizes = sizes
            self.view = self._reader.look(processes=False)
            for curve in self._known_curves():
                curve.look()
            self.version += 1

    def measure(self) -> None:
        """Measure the processes of the run on this machine; nothing if the run has ended."""
        self.load.sample(() if self.view.has_ended else self._cast.processes(None, alive=True))

    def read_best(self) -> None:
        """Read the best score from all reports, unless it is known. For 10,000 reports this takes about 0.05 s."""
        if not self._reader.knows_best:
            self.view = self._reader.look(processes=False, best=True)
            for curve in self._known_curves():  # ``look`` is not called for a run that has ended
                curve.look()
            self.version += 1

    def _files(self) -> tuple[int, ...]:
        return tuple(_size(path) for path in self._growing)

    def curve(self, metric: str, whole: bool = False) -> GrowingCurve:
        """Return the curve of a metric, from memory or else from the file; ``whole``: of all reports."""
        with self._lock:
            found = self._curves.pop(metric, None)
            if found is None or (whole and not found.whole):
                found = GrowingCurve(self.run.path / METRICS_FILE, metric, whole)
            self._curves[metric] = found
            while len(self._curves) > MOST_CURVES:
                del self._curves[next(iter(self._curves))]
            return found

    def _known_curves(self) -> list[GrowingCurve]:
        with self._lock:
            return list(self._curves.values())

    def _note(self, event: Mapping[str, Any]) -> None:
        self._cast.note(event)
        if event.get("kind") in MARKED:
            self.marks.append(event)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


class WatchedRuns:
    """The runs that the desk shows: those in a folder and all living runs of this user, or only given ones."""

    def __init__(self, folder: Path, chosen: Sequence[RunFolder] | None = None) -> None:
        """``chosen``: the only runs that are shown; None: those in ``folder`` and all living ones."""
        self._folder, self._chosen = folder, chosen
        self._runs: dict[str, WatchedRun] = {}
        self._lock, self._keeping = threading.Lock(), threading.Lock()
        self._find_s = 0.0
        """Time of the next search, on the monotonic clock."""
        self._found = 0
        """Number of searches that have changed the list of runs."""
        self._kept: dict[str, tuple[list[tuple[WatchedRun, int]], msgspec.Raw]] = {}
        """Encoded parts by name, each with the runs and their versions from which it was made."""
        self.machine = MachineLoad()
        """Processor time and memory of all programs on this machine, as ``measure`` has found them."""
        self.groups: list[Group] = []
        """Newest group first."""
        self._numbers: dict[str, int] = {}
        """Id of a run -> number of its group."""

    @property
    def has_news(self) -> bool:
        """Whether ``look`` may find something new; cheap enough to be asked many times a second."""
        return time.monotonic() >= self._find_s or any(watched.has_news for watched in list(self._runs.values()))

    @property
    def version(self) -> tuple[int, int]:
        """Two counts, of which one changes whenever the list of runs, or a run, has changed."""
        return self._found, sum(watched.version for watched in list(self._runs.values()))

    def look(self) -> list[WatchedRun]:
        """Search for runs if it is time, read what living runs have added, and return all runs, newest first.

        The best scores of many long runs are read in several looks, so that a page does not wait for them.
        """
        with self._lock:
            now_s = time.monotonic()
            if now_s >= self._find_s:
                self._find()
                took_s = time.monotonic() - now_s
                self._find_s = now_s + max(FIND_EVERY_S, FIND_SHARE * took_s)
            for watched in self._runs.values():
                if not watched.view.has_ended:
                    watched.look()
            until_s = time.monotonic() + BEST_S
            for watched in self._runs.values():
                watched.read_best()
                if time.monotonic() >= until_s:
                    break
            return list(self._runs.values())

    def measure(self) -> None:
        """Measure the machine, and the processes of the runs that were alive at the last ``look``.

        Raises OSError. Always call it from the same thread.
        """
        self.machine.sample()
        for watched in list(self._runs.values()):
            watched.measure()

    def kept(self, name: str, members: Sequence[WatchedRun], make: Callable[[], Any]) -> msgspec.Raw:
        """Return the result of ``make`` as JSON, kept as ``name`` for all pages until one of ``members`` changes."""
        state = [(watched, watched.version) for watched in members]
        before, encoded = self._kept.get(name, (None, msgspec.Raw()))
        if before != state:
            encoded = msgspec.Raw(msgspec.json.encode(make()))
            with self._keeping:
                self._kept.pop(name, None)
                while len(self._kept) >= max(MOST_KEPT, KEPT_OF_RUN * len(self._runs)):
                    del self._kept[next(iter(self._kept))]
                self._kept[name] = state, encoded
        return encoded

    def get(self, run_id: str) -> WatchedRun | None:
        """Return the run with this id; None if there is none. Searches for runs if the id is not known."""
        if run_id not in self._runs:
            self.look()
        return self._runs.get(run_id)

    def _find(self) -> None:
        """Add runs that are new or were resumed, and remove those whose folders are gone."""
        found = list(reversed(find.all_runs(self._folder))) if self._chosen is None else self._chosen
        known = {id_of(run): run for run in found}
        before = self._runs
        self._runs = {
            key: before[key] if key in before and before[key].run == run else WatchedRun(run)
            for key, run in known.items()
        }
        if [*before.values()] != [*self._runs.values()]:
            self._found += 1
            runs = list(self._runs.values())
            alike = group_alike([watched.view.topology for watched in runs])
            self.groups = self._numbered([[runs[index] for index in indices] for indices in alike])

    def _numbered(self, groups: Sequence[list[WatchedRun]]) -> list[Group]:
        """Number the groups: a group keeps the number that its runs had; new groups get free numbers, oldest first."""
        numbers: dict[int, int] = {}
        """Index of a group in ``groups`` -> its number."""
        oldest_first = range(len(groups))[::-1]
        taken: set[int] = set()
        for place in oldest_first:
            known = (self._numbers[watched.id] for watched in reversed(groups[place]) if watched.id in self._numbers)
            if (number := next((number for number in known if number not in taken), None)) is not None:
                taken.add(number)
                numbers[place] = number
        free = iter(sorted(set(range(len(groups))) - taken))
        numbers |= {place: next(free) for place in oldest_first if place not in numbers}
        found = [Group(numbers[place], members) for place, members in enumerate(groups)]
        self._numbers = {watched.id: number for number, members in found for watched in members}
        return found
