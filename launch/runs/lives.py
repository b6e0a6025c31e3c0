"""The lives of a run: its start and each resume, with the keys of each; read from topology.yaml and meta.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from launch.runs.find import RunFolder
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
    earlier = run.meta.get("earlier")
    found: list[Life] = []
    for meta in reversed([*(earlier if isinstance(earlier, list) else []), run.meta]):
        at = meta.get("resumed_at")
        life = Life(at if isinstance(at, int) else None, topology, meta)
        if life.resumed_at is None:
            return [life, *found]
        if life.resumed_at < env_steps:
            found.insert(0, life)
            env_steps = life.resumed_at
        topology = undo(topology, meta.get("changed") or {})
    return found


def count_env_changes(meta: Mapping[str, Any]) -> int:
    """Return how many resumes of a run have changed a key of its environment; ``meta``: content of its meta.json."""
    earlier = meta.get("earlier")
    lives = [*(earlier if isinstance(earlier, list) else []), meta]
    changed = [life.get("changed") for life in lives if isinstance(life, Mapping)]
    return sum(changes_task(its) for its in changed if isinstance(its, Mapping))
