"""The parts that one page looks at, each sent again when it has changed; a report has the same parts, once.

Parts that all pages have are named ``desk``, ``runs``, ``groups``, ``curve/RUN`` and ``band/GROUP``; those of the run
that a page shows in full ``run/RUN/PART``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from launch.desk import parts
from launch.desk.cast import Cast
from launch.desk.watched import WatchedRun, WatchedRuns
from launch.plan.roles import FILMS
from launch.reports.checks import is_number
from launch.reports.format import as_number
from launch.runs.curves import SCORE
from launch.runs.find import Run
from launch.runs.view import RunReader
from launch.topology.strict_yaml import MAX_BYTES

FILM_WORDS = ("best", "median", "worst")
"""Games of an evaluation that are recorded."""
MOST_EVALUATIONS = 3
"""Newest evaluations whose films are shown."""
GAMES_FILE = "games.json"


class Overview:
    """The parts about all runs, as one page sees them."""

    def __init__(self, runs: WatchedRuns, metric: str = SCORE, **about: Any) -> None:
        """``about``: further facts for the page, such as whether it may change runs."""
        self._runs, self._metric, self._about = runs, metric, about
        self._seen: dict[str, tuple[WatchedRun, int]] = {}
        self._grouped: list[list[WatchedRun]] | None = None
        self._groups: parts.Part = None
        """The part about these groups, which follows from topologies alone."""
        self._version: tuple[int, int] | None = None

    @property
    def may_have_changed(self) -> bool:
        """Whether there may be changes: another page's look may have seen them first, so a cheap sum tells."""
        return self._runs.has_news or self._runs.version != self._version

    def changed(self) -> dict[str, Any]:
        """Return the parts that may have changed since the last call: of runs that have, and of their groups."""
        self._version = self._runs.version
        runs = self._runs.look()
        groups = self._runs.groups
        if groups is not self._grouped:
            self._grouped, self._groups = groups, parts.group_list(groups)
        news = [watched for watched in runs if self._seen.get(watched.id) != (watched, watched.version)]
        if not news and len(runs) == len(self._seen):
            return {} if self._seen else {"desk": self._desk(runs), "runs": [], "groups": self._groups}
        self._seen = {watched.id: (watched, watched.version) for watched in runs}
        found: dict[str, Any] = {
            "desk": self._desk(runs),
            "runs": parts.run_list(runs, groups),
            "groups": self._groups,
        }
        for watched in news:
            found[f"curve/{watched.id}"] = self._kept(f"curve {watched.id}", [watched], partial(parts.curve, watched))
        for number, members in enumerate(groups):
            if any(watched in news for watched in members):
                found[f"band/{number}"] = self._kept(f"band {number}", members, partial(parts.group_band, members))
        return found

    def _kept(self, name: str, members: Sequence[WatchedRun], make: Callable[[str], Any]) -> msgspec.Raw:
        return self._runs.kept(f"{name} {self._metric}", members, partial(make, self._metric))

    def _desk(self, runs: list[WatchedRun]) -> Any:
        return parts.desk(runs, self._metric, **self._about)


class InFull:
    """The parts about one run in full, read as ``top`` reads it."""

    def __init__(self, run: Run) -> None:
        """Read nothing yet."""
        self.run = run
        self.has_ended = False
        """Whether it had, at the last look."""
        self._cast = Cast()
        self._reader = RunReader(run, self._cast.note)
        self._topology = read_topology(run.path)

    def changed(self) -> dict[str, Any]:
        """Return all its parts, after a look at the run and its processes."""
        view = self._reader.look()
        self.has_ended = view.has_ended
        processes = self._cast.processes(view.processes, not view.has_ended)
        found = parts.run_parts(view, processes, self._topology)
        return {**found, "films": films(self.run.path)}


class Changes:
    """Encodes parts and leaves out those that are as they were sent before."""

    def __init__(self) -> None:
        """Begin with nothing sent."""
        self._sent: dict[str, bytes] = {}
        """Digest of each part as it was sent last: many pages that look at many runs would hold much text."""

    def of(self, found: Mapping[str, Any], prefix: str = "") -> dict[str, msgspec.Raw]:
        """Return the parts that differ from those of the same name before."""
        new: dict[str, msgspec.Raw] = {}
        for name, value in found.items():
            encoded = msgspec.json.encode(value)
            digest = hashlib.blake2s(encoded).digest()
            if self._sent.get(prefix + name) != digest:
                self._sent[prefix + name] = digest
                new[prefix + name] = msgspec.Raw(encoded)
        return new


def read_topology(folder: Path) -> str:
    """Return a run's topology as it was written; empty where it cannot be read."""
    try:
        with (folder / "topology.yaml").open("rb") as file:
            return file.read(MAX_BYTES).decode(errors="replace")
    except OSError:
        return ""


def films(folder: Path) -> list[dict[str, Any]]:
    """Return the recorded games of the newest evaluations, with the file of each, relative to the folder of films."""
    newest = sorted(filmed(folder).items())[-MOST_EVALUATIONS:]
    return [film for steps, path in reversed(newest) for film in _films(steps, path)]


def filmed(folder: Path) -> dict[int, Path]:
    """Return the folders of films of a run by the environment steps of their evaluation."""
    try:
        return {int(path.name): path for path in (folder / FILMS).iterdir() if path.name.isdecimal()}
    except OSError:
        return {}


def _films(steps: int, evaluation: Path) -> Iterator[dict[str, Any]]:
    try:
        games = msgspec.json.decode((evaluation / GAMES_FILE).read_bytes())
    except (OSError, ValueError):
        games = []
    told = [game for game in games if isinstance(game, dict)] if isinstance(games, list) else []
    scores = {str(game.get("film")): game.get("score") for game in told}
    for word in FILM_WORDS:
        file = f"{word}.mp4"
        if (evaluation / file).is_file():
            score = scores.get(file)
            said = f", score {as_number(score)}" if is_number(score) else ""
            yield {"said": f"{word} game at {steps:,} steps{said}", "file": f"{evaluation.name}/{file}"}
