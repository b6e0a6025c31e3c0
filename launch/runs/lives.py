"""Reads how a run was started, resumed and changed: its *lives*, and processes that were attached and detached."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from launch.runs.find import RunFolder
from launch.runs.jsonl import Lines
from launch.topology.changes import changes_task, undo


class Life(NamedTuple):
    """One life of a run: the time from its start, or from a resume, to its next end."""

    resumed_at: int | None
    """Environment steps of the checkpoint from which the life began; None if it is the first life."""
    topology: Mapping[str, Any]
    meta: Mapping[str, Any]
    """Version, commit and machine of this life; see ``launch/runtime/metadata.py``."""


def lives_of(run: RunFolder, env_steps: int) -> list[Life]:
    """Return the lives in which the weights of the checkpoint at ``env_steps`` were trained, oldest first.

    Lives whose weights were given up, because the run was resumed from an older checkpoint, are left out.
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
    """Return the metadata of each life, oldest first, from the content of meta.json."""
    earlier = meta.get("earlier")
    lives = [*(earlier if isinstance(earlier, list) else ()), meta]
    return [life for life in lives if isinstance(life, Mapping)]


def time_of(text: object) -> datetime | None:
    """Return the time in a text in ISO 8601, in UTC; None if the text is no time."""
    try:
        return datetime.fromisoformat(str(text)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def count_env_changes(meta: Mapping[str, Any]) -> int:
    """Return how many resumes have changed the environment, after which scores cannot be compared with earlier ones.

    ``meta``: the content of meta.json.
    """
    changed = [life.get("changed") for life in metas_of(meta)]
    return sum(changes_task(its) for its in changed if isinstance(its, Mapping))


def find_attached(events: Path) -> list[str]:
    """Return the names of the processes that were attached since the last start or resume and not detached again.

    ``events``: path of events.jsonl. Of an attached learner, only the trainer is listed.
    """
    found: dict[str, None] = {}
    for event in Lines(events).new():
        kind, name = event.get("kind"), str(event.get("process"))
        if kind == "resumed":  # reported before the first process of a new life
            found.clear()
        elif kind == "attached" and not event.get("cause"):  # with a cause, it was attached together with a trainer
            found[name] = None
        elif kind == "detached":
            found.pop(name, None)
    return list(found)


def find_detached(events: Path) -> dict[str, bool]:
    """Return the processes that were detached and not started again since; name -> whether on request.

    ``events``: path of events.jsonl. If not on request, the supervisor removed a learner because a process of it had
    failed: it has an event "gave up" before. So has a failed trainer, but the cause of its "detached" is then "fatal".
    """
    found: dict[str, bool] = {}
    given_up: set[str] = set()
    for event in Lines(events).new():
        kind, name = event.get("kind"), str(event.get("process"))
        if kind == "gave up":
            given_up.add(name)
        elif kind == "detached":
            found[name] = name not in given_up or event.get("cause") == "fatal"
        elif kind == "spawned":
            found.pop(name, None)
            given_up.discard(name)
    return found
