"""Finds processes that were attached to a run or detached from it in its earlier lives, by its events."""

from __future__ import annotations

from pathlib import Path

from launch.runs.jsonl import Lines


def find_attached(events: Path) -> list[str]:
    """Return the processes attached in a run's last life and not detached in it; for a learner its trainer."""
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
