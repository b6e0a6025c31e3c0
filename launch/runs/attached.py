"""Finds the processes that were attached to a run, or detached from it, from the events of its earlier lives."""

from __future__ import annotations

from pathlib import Path

from launch.runs.jsonl import Lines


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
