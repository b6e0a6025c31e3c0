"""Folders of runs with many reports, written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from launch.runs.find import RunFolder
from tests.launch.runs import folders

SPAWNED = [
    {"kind": "spawned", "process": name, "incarnation": 0, "role": role, "learner": 0, "pid": 7, "time_s": 0.5}
    for name, role in (("trainer", "trainer"), ("simulator-0", "simulator"), ("simulator-1", "simulator"))
]
DIED = {"kind": "died", "process": "simulator-1", "incarnation": 0, "cause": "signal 9", "time_s": 21.0}
AGAIN = {"kind": "restarted", "process": "simulator-1", "incarnation": 1, "time_s": 23.0}


def row(number: int, **more: Any) -> dict[str, Any]:
    """Make report ``number``: one every two seconds and 100 steps, whose score is a thousandth of the steps."""
    about = {"time_s": 2.0 * number, "env_steps": 100 * number, "episode_return_mean": 0.1 * number}
    return {"time": "2026-01-01T00:00:00.000+00:00", **about, "env_steps_per_s": 50.0, **more}


def write_run(
    folder: Path, rows: Sequence[Mapping[str, Any]], events: Sequence[Mapping[str, Any]] = (), **meta: Any
) -> RunFolder:
    """Write a run folder; ``meta``: fields of meta.json (those of `me` make the run alive), seed and horizon."""
    seed, horizon = meta.pop("seed", 1), meta.pop("horizon", 5)
    topology = (
        f"name: made\nseed: {seed}\ntotal_steps: 100_000\nenv: {{id: CartPole-v1}}\nalgorithm: {{horizon: {horizon}}}\n"
    )
    return folders.write_run(folder, topology=topology, rows=rows, events=events, meta={"run_id": folder.name, **meta})


def append(run: RunFolder, file: str, *lines: Mapping[str, Any]) -> None:
    """Add lines to a file of a run."""
    folders.append_lines(run.path / file, *lines)
