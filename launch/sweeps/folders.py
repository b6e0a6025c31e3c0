"""Run folders of a sweep: reads how a run has ended, and makes a folder that continues from another run."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from actorlearn.files import flush
from actorlearn.parameters.checkpoint_folders import steps_of
from launch.reports.checks import is_number
from launch.reports.compare import Points
from launch.reports.evaluations import PREFIX
from launch.runs import find
from launch.runs.curves import read_curve
from launch.runs.find import RunFolder


@dataclass(frozen=True)
class RunOutcome:
    """The status and the score with which a run has ended, read from its folder."""

    status: str
    """finished, stopped or failed; died if it was killed; empty if the folder contains no run."""
    env_steps: int = 0
    """Steps at the end; for a run that died, those of its newest checkpoint."""
    wall_time_s: float = 0.0
    score: float | None = None
    error: str = ""
    lacks_nodes: bool = False
    """Whether it failed only because nodes were missing; it can continue when nodes are available."""


def read_outcome(folder: Path, metric: str, end_steps: int) -> RunOutcome:
    """Return how a run has ended; it must not be alive.

    ``metric``: the column of metrics.jsonl that is the score. ``end_steps``: environment steps at which the run is
    finished.
    """
    run = find.read(folder)
    if run is None:
        return RunOutcome("")
    summary = run.summary()
    saved = saved_steps(run)
    steps, wall_time_s = summary.get("env_steps"), summary.get("wall_time_s")
    status = run.status
    if status == "died" and saved >= end_steps:
        status = "finished"  # killed after its last checkpoint, before its summary
    if status == "finished" and metric.startswith(PREFIX) and _unscored(run, saved):
        status = "stopped" if summary else "died"  # so that a resume evaluates the final weights
    return RunOutcome(
        status=status,
        env_steps=int(steps) if is_number(steps) else saved,
        wall_time_s=float(wall_time_s) if is_number(wall_time_s) else 0.0,
        score=_score(run, metric),
        error=str(summary.get("error") or ""),
        lacks_nodes=summary.get("lacks_nodes") is True,
    )


def _unscored(run: RunFolder, saved: int) -> bool:
    """Whether a user stopped the run before its final weights were evaluated, or it was killed before that.

    ``saved``: environment steps of the newest checkpoint. An evaluation that failed, or that took too long, is not
    repeated.
    """
    if summary := run.summary():
        return summary.get("unscored") is True
    scored = False
    for event in run.events().new():
        if event.get("kind") == "resumed":
            scored = False
        elif event.get("kind") == "evaluated" and is_number(steps := event.get("env_steps")):
            scored |= steps >= saved
    return not scored


def saved_steps(run: RunFolder) -> int:
    """Return the environment steps of a run's newest checkpoint; 0 if there is none."""
    return max((steps_of(checkpoint) for checkpoint in run.checkpoints()), default=0)


def read_points(folder: Path, metric: str) -> Points:
    """Return the learning curve of a run for a column of metrics.jsonl; [] if it has none yet."""
    run = find.read(folder)
    try:
        return [] if run is None else read_curve(run, metric).newest
    except ValueError:
        return []


def go_on_from(parent: Path, folder: Path) -> None:
    """Make a run folder with the checkpoints of another run, so that a resume continues from them; raises OSError.

    The folder appears only when it is complete. It has hard links to the checkpoint files where the file system allows
    it, else copies. Links are safe because checkpoint files are replaced and removed, but never modified.
    """
    beside = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    shutil.copy2(parent / find.TOPOLOGY_FILE, beside / find.TOPOLOGY_FILE)
    shutil.copytree(parent / "checkpoints", beside / "checkpoints", copy_function=_link)
    beside.rename(folder)
    flush(folder.parent)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
            raise
        shutil.copy2(source, target)


def _score(run: RunFolder, metric: str) -> float | None:
    """Return the score at the end of a run, from summary.json or else from the last report that has one."""
    last = run.summary().get(metric)
    if is_number(last):
        return float(last)
    with suppress(ValueError):
        return read_curve(run, metric).newest[-1][1]
    return None
