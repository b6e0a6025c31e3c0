"""Folders of runs, written by hand."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from launch.runs import find


def make_run(folder: Path, name: str, age_s: int = 0, **meta: Any) -> Path:
    path = folder / name
    path.mkdir(parents=True)
    (path / "topology.yaml").write_text("env: {id: CartPole-v1}\n")
    (path / "meta.json").write_text(json.dumps(meta))
    made_s = 1_700_000_000 - age_s
    os.utime(path / "topology.yaml", (made_s, made_s))
    return path


def me() -> dict[str, Any]:
    return {"supervisor_pid": os.getpid(), "supervisor_started": find.start_time(os.getpid())}
