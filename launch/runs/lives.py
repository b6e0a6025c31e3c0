"""The lives of a run: its start and each resume, with the keys of each, and the processes that were attached to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from launch.runs.find import RunFolder
from launch.runs.jsonl import Lines
from launch.topology.changes import changes_task, undo


class Life(NamedTuple):
    """A start or a resume of a run, until it ended."""

    resumed_at: int | None
    """Environment steps of the checkpoint that it was resumed from; None for the start."""
    topology: Mapping[str, Any]
    meta: Mapping[str, Any]
    """Version, commit and machine; see ``launch/runtime/metadata.py``."""

    @property
    def recorded(self) -> bool:
        """Whether the keys that its resume changed were recorded; earlier versions did not."""
        return self.resumed_at is None or "changed" in self.meta


def lives_of(run: RunFolder, env_steps: int) -> list[Life]:
    """Return the lives in which the weights of a checkpoint of these steps were trained, oldest first.

    A life that was resumed at a checkpoint has trained only weights of more steps. Later lives that were resumed from
    an older checkpoint leave out the lives between.
    """
    topology: Mapping[str, Any] = run.topology()
    found: list[Life] = []
    for meta in reversed(metas_of(run.meta)):
        at = meta.get("resumed_at")
        life = Life(at if isinstance(at, int) else None, topology, meta)
        if life.resumed_at is None:
            return [life, *found]
        if life.resumed_at < env_steps:
            found.insert(0, life)
            env_steps = life.resumed_at
        topology = undo(topology, meta.get("changed") or {})
    return found


def metas_of(meta: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the metadata of each life of a run, oldest first, from the content of its meta.json."""
    earlier = meta.get("earlier")
    lives = [*(earlier if isinstance(earlier, list) else ()), meta]
    return [life for life in lives if isinstance(life, Mapping)]


def count_env_changes(meta: Mapping[str, Any]) -> int:
    """Return how many resumes of a run have changed a key of its environment; ``meta``: content of its meta.json."""
    changed = [life.get("changed") for life in metas_of(meta)]
    return sum(changes_task(its) for its in changed if isinstance(its, Mapping))


def find_attached(events: Path) -> list[str]:
    """Return the processes attached in a run's last life and not detached since; of a learner only its trainer."""
    found: dict[str, None] = {}
    spawned: set[str] = set()
    for event in Lines(events).new():
        kind, name = event.get("kind"), str(event.get("process"))
        first = kind == "spawned" and event.get("incarnation") == 0
        if kind == "resumed" or (first and name in spawned):  # a new life of the run; within a life names are unique
            found.clear()
            spawned.clear()
        if first:
            spawned.add(name)
        elif kind == "attached" and not event.get("cause"):  # with a cause, it was attached together with a trainer
            found[name] = None
        elif kind == "detached":
            found.pop(name, None)
    return list(found)


def find_detached(events: Path) -> set[str]:
    """Return the processes that were detached in any life of a run and not attached again."""
    found: set[str] = set()
    for event in Lines(events).new():
        kind, name = event.get("kind"), str(event.get("process"))
        if kind == "detached":
            found.add(name)
        elif kind == "spawned":
            found.discard(name)
    return found
