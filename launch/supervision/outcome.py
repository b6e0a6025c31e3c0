"""The outcome of a run, computed from how its trainers ended."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from launch.reports.merge import merge_rows
from launch.supervision import events as ev
from launch.supervision.children import Children


def outcome_of(children: Children, said: Mapping[str, Mapping[str, Any]], wanted: ev.Done) -> ev.Done | None:
    """Return the outcome of a draining run: ``wanted``, or a failure if trainers died and none has finished.

    Returns None while a trainer still works. ``said`` has the summaries of the trainers by name, also those of detached
    learners, of which only the counters are used.
    """
    trainers = children.trainers()
    if any(trainer.alive and not trainer.finished for trainer in trainers):
        return None
    words = {trainer.name: said[trainer.name] for trainer in trainers if trainer.finished}
    left = [summary for name, summary in said.items() if name not in children.named]
    lost = next((trainer for trainer in trainers if not trainer.finished and trainer.cause not in ("", "exit 0")), None)
    if lost is None or words:
        return dataclasses.replace(wanted, summary=merge_rows(words, left) if words else {})
    reason = f"the trainer died before it had finished: {lost.error or lost.cause}"
    return ev.Done("failed", 1, reason, lacks_nodes=lost.went_with_node)
