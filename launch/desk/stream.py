"""Collects the data that a page of the desk shows, and finds what has changed.

The data are divided into parts (``launch/desk/parts.py``), which are sent again when they have changed. Parts about all
runs are named ``desk``, ``runs``, ``groups``, ``curve/RUN`` and ``band/GROUP``; parts of the run that a page shows in
full are named ``run/RUN/PART``.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from actorlearn.files import is_regular, open_regular
from launch.desk import parts
from launch.desk.cast import Cast
from launch.desk.load import Load, MachineLoad
from launch.desk.names import run_places
from launch.desk.watched import Group, WatchedRun, WatchedRuns
from launch.plan.roles import FILMS
from launch.reports.checks import is_number
from launch.reports.format import as_number
from launch.runs.curves import SCORE
from launch.runs.find import RunFolder
from launch.runs.view import RunReader
from launch.topology.strict_yaml import MAX_BYTES

FILM_WORDS = ("best", "median", "worst")
"""Names of the recorded games of an evaluation."""
MOST_EVALUATIONS = 3
"""Number of newest evaluations whose films are shown."""
GAMES_FILE = "games.json"
MOST_LOG = 64 * 1024
"""Most bytes of a process's log that a page shows."""


class Overview:
    """Makes the data about all runs, for one page."""

    def __init__(
        self,
        runs: WatchedRuns,
        metrics: Sequence[str] = (SCORE,),
        columns: Sequence[str] | None = (),
        in_full: Container[str] | None = (),
        **about: Any,
    ) -> None:
        """``metrics``: names of the metrics whose curves are shown; ``about``: further values for the page.

        ``columns``: names of further metrics in the table of runs; None: all. ``in_full``: ids of the runs whose curves
        are made of all reports; None: all runs.
        """
        self._in_full = in_full
        self._runs, self._metrics, self._columns, self._about = runs, tuple(metrics), columns, about
        self._seen: dict[str, tuple[WatchedRun, int]] = {}
        self._grouped: list[Group] | None = None
        self._groups: parts.Part = None
        """The part about the groups, made again only if the list of groups changes."""
        self._places: dict[str, str] = {}
        """Id of a run -> the text that tells it from other runs of its name."""
        self._version: tuple[int, int] | None = None

    @property
    def may_have_changed(self) -> bool:
        """Whether ``changed`` may return something new; cheap enough to be asked often."""
        return self._runs.has_news or self._runs.version != self._version

    def changed(self) -> dict[str, Any]:
        """Return name -> data of the parts that may have changed since the last call."""
        self._version = self._runs.version
        runs = self._runs.look()
        groups = self._runs.groups
        if groups is not self._grouped:
            self._places = run_places(groups)
            self._grouped, self._groups = groups, parts.group_list(groups, self._places)
        news = [watched for watched in runs if self._seen.get(watched.id) != (watched, watched.version)]
        if not news and len(runs) == len(self._seen):
            return {} if self._seen else {"desk": self._desk(runs), "runs": [], "groups": self._groups}
        self._seen = {watched.id: (watched, watched.version) for watched in runs}
        found: dict[str, Any] = {
            "desk": self._desk(runs),
            "runs": parts.run_list(runs, groups, self._places, self._columns),
            "groups": self._groups,
        }
        for watched in news:
            whole = self._in_full is None or watched.id in self._in_full
            make = partial(parts.curve, watched, whole)
            found[f"curve/{watched.id}"] = self._kept(f"curve {watched.id} {whole}", [watched], make)
        for number, members in groups:
            if any(watched in news for watched in members):
                found[f"band/{number}"] = self._kept(f"band {number}", members, partial(parts.group_band, members))
        return found

    def _kept(self, name: str, members: Sequence[WatchedRun], make: Callable[[Sequence[str]], Any]) -> msgspec.Raw:
        return self._runs.kept(f"{name} {self._metrics}", members, partial(make, self._metrics))

    def _desk(self, runs: list[WatchedRun]) -> Any:
        return parts.desk(runs, self._metrics, **self._about)


class InFull:
    """Makes the data about one run that a page shows in full."""

    def __init__(self, run: RunFolder, load: Load | None = None, machine: MachineLoad | None = None) -> None:
        """``load`` and ``machine``: measurements of the run's processes and of the machine; None: there are none."""
        self.run, self._load, self._machine = run, load, machine
        self.has_ended = False
        """Whether the run had ended at the last look."""
        self._cast = Cast()
        self._reader = RunReader(run, self._cast.note)
        self._topology = read_topology(run.path)

    def changed(self) -> dict[str, Any]:
        """Read the run and ask for its processes; return name -> data of all its parts."""
        view = self._reader.look()
        self.has_ended = view.has_ended
        processes = self._cast.processes(view.processes, not view.has_ended)
        found = parts.run_parts(view, processes, self._topology)
        lines = parts.process_list(processes, self._load, datetime.now(UTC))
        machine = None if self._machine is None or view.has_ended else self._machine.samples()
        return {**found, "processes": lines, "machine": machine, "films": films(self.run.path)}


class Changes:
    """Remembers what was sent to one page, and leaves out parts that have not changed since."""

    def __init__(self) -> None:
        self._sent: dict[str, bytes] = {}
        """Digest of each part as last sent; digests take less memory than the parts."""

    def of(self, found: Mapping[str, Any], prefix: str = "") -> dict[str, msgspec.Raw]:
        """Return the parts in ``found`` that have changed, as JSON; ``prefix`` is added to their names."""
        new: dict[str, msgspec.Raw] = {}
        for name, value in found.items():
            encoded = msgspec.json.encode(value)
            digest = hashlib.blake2s(encoded).digest()
            if self._sent.get(prefix + name) != digest:
                self._sent[prefix + name] = digest
                new[prefix + name] = msgspec.Raw(encoded)
        return new


def read_topology(folder: Path) -> str:
    """Return the text of the topology file in a run's folder; "" if it cannot be read."""
    with suppress(OSError), open_regular(folder / "topology.yaml") as file:
        return file.read(MAX_BYTES).decode(errors="replace")
    return ""


def end_of_log(folder: Path, process: str) -> str | None:
    """Return the last ``MOST_LOG`` bytes of a process's log, from the beginning of a line; None if it has no log."""
    try:
        found = next((path for path in (folder / "logs").glob("*.log") if path.stem == process), None)
        if found is None:
            return None
        with open_regular(found) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - MOST_LOG))
            text = file.read(MOST_LOG)
    except OSError:
        return None
    return (text if size <= MOST_LOG else text.partition(b"\n")[2]).decode(errors="replace")


def films(folder: Path) -> list[dict[str, Any]]:
    """Return the films (recorded games) of a run's newest evaluations, each with a caption ``said`` and a ``file``.

    Files are relative to the run's folder of films.
    """
    newest = sorted(filmed(folder).items())[-MOST_EVALUATIONS:]
    return [film for steps, path in reversed(newest) for film in _films(steps, path)]


def filmed(folder: Path) -> dict[int, Path]:
    """Return environment steps at which games were filmed -> folder with the films."""
    try:
        return {int(path.name): path for path in (folder / FILMS).iterdir() if path.name.isdecimal()}
    except OSError:
        return {}


def _films(steps: int, evaluation: Path) -> Iterator[dict[str, Any]]:
    try:
        with open_regular(evaluation / GAMES_FILE) as file:
            games = msgspec.json.decode(file.read())
    except (OSError, ValueError):
        games = []
    told = [game for game in games if isinstance(game, dict)] if isinstance(games, list) else []
    scores = {str(game.get("film")): game.get("score") for game in told}
    for word in FILM_WORDS:
        name = f"{word}.mp4"
        if is_regular(evaluation / name):
            score = scores.get(name)
            said = f", score {as_number(score)}" if is_number(score) else ""
            yield {"said": f"{word} game at {steps:,} steps{said}", "file": f"{evaluation.name}/{name}"}
