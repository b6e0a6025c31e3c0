"""Folders of runs, written by hand."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from launch.runs import find
from launch.runs.find import RunFolder


def make_run(folder: Path, name: str, age_s: int = 0, **meta: Any) -> Path:
    path = folder / name
    path.mkdir(parents=True)
    (path / "topology.yaml").write_text("env: {id: CartPole-v1}\n")
    (path / "meta.json").write_text(json.dumps(meta))
    made_s = 1_700_000_000 - age_s
    os.utime(path / "topology.yaml", (made_s, made_s))
    return path


def write_lines(file: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Write one JSON object on each line."""
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def append_lines(file: Path, *lines: Mapping[str, Any]) -> None:
    """Add one line with a JSON object for each of ``lines``."""
    with file.open("a") as opened:
        opened.writelines(json.dumps(line) + "\n" for line in lines)


def write_run(
    folder: Path,
    *,
    topology: str | None = None,
    rows: Iterable[Mapping[str, Any]] | None = None,
    events: Iterable[Mapping[str, Any]] | None = None,
    summary: Mapping[str, Any] | None = None,
    meta: dict[str, Any] | None = None,
    saved: Iterable[str] = (),
) -> RunFolder:
    """Write the files of a run that are given, and empty checkpoints at these paths below ``checkpoints``."""
    folder.mkdir(parents=True, exist_ok=True)
    if topology is not None:
        (folder / "topology.yaml").write_text(topology)
    for name, lines in (("metrics.jsonl", rows), ("events.jsonl", events)):
        if lines is not None:
            write_lines(folder / name, lines)
    for name, content in (("summary.json", summary), ("meta.json", meta)):
        if content is not None:
            (folder / name).write_text(json.dumps(content))
    for checkpoint in saved:
        (folder / "checkpoints" / checkpoint).mkdir(parents=True)
    return RunFolder(folder, meta or {})


def me() -> dict[str, Any]:
    return {"supervisor_pid": os.getpid(), "supervisor_started": find.start_time(os.getpid())}
