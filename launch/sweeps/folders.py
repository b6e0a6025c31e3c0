"""Run folders of a sweep: what one says of its run's end, and a new one that goes on from another's checkpoint."""

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
from launch.runs import find
from launch.runs.curves import read_curve
from launch.runs.find import Run


@dataclass(frozen=True)
class Outcome:
    """A run that is not alive, as its folder has it."""

    status: str
    """finished, stopped, failed; died where no summary says; empty where there is no run."""
    env_steps: int = 0
    """Steps that it ended at; of one that died those of its newest checkpoint."""
    wall_time_s: float = 0.0
    score: float | None = None
    error: str = ""
    lacks_nodes: bool = False
    """Whether it has failed for want of nodes alone, and goes on where there are others."""


def read_outcome(folder: Path, metric: str, end_steps: int) -> Outcome:
    """Read how a run has ended that is not alive; ``metric``: its score's column, ``end_steps``: its last step."""
    run = find.read(folder)
    if run is None:
        return Outcome("")
    summary = run.summary()
    saved = saved_steps(run)
    steps, wall_time_s = summary.get("env_steps"), summary.get("wall_time_s")
    status = run.status
    if status == "died" and saved >= end_steps:
        status = "finished"  # killed after its last checkpoint, before its summary
    return Outcome(
        status=status,
        env_steps=int(steps) if is_number(steps) else saved,
        wall_time_s=float(wall_time_s) if is_number(wall_time_s) else 0.0,
        score=_score(run, metric),
        error=str(summary.get("error") or ""),
        lacks_nodes=summary.get("lacks_nodes") is True,
    )


def saved_steps(run: Run) -> int:
    """Return the steps of a run's newest checkpoint; 0 where there is none."""
    return max((steps_of(checkpoint) for checkpoint in run.checkpoints()), default=0)


def read_points(folder: Path, metric: str) -> Points:
    """Return a run's curve; empty where it has none yet."""
    run = find.read(folder)
    try:
        return [] if run is None else read_curve(run, metric).newest
    except ValueError:
        return []


def go_on_from(parent: Path, folder: Path) -> None:
    """Make a run folder whose run goes on from the checkpoints of another, whole or not at all; raises OSError.

    Files of checkpoints are replaced and removed, and never written to, so both folders may have the same ones: they
    are linked where the file system can.
    """
    beside = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    shutil.copy2(parent / "topology.yaml", beside / "topology.yaml")
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


def _score(run: Run, metric: str) -> float | None:
    """Return the number at a run's end: its summary's, or else the last of its reports."""
    last = run.summary().get(metric)
    if is_number(last):
        return float(last)
    with suppress(ValueError):
        return read_curve(run, metric).newest[-1][1]
    return None
