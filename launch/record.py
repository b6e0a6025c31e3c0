"""What a run writes down about itself: where it ran, with what, and how it ended.

Writes meta.json and summary.json into the run folder; the rest of the folder has writers of its own.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

import actorlearn
from launch.plan import Plan
from launch.runs import start_time

PACKAGES = ("torch", "numpy", "gymnasium", "ale-py", "pyzmq", "msgspec")
SUMMARY = ("env_steps", "updates", "wall_time_s", "env_steps_per_s", "episode_return_mean", "weights_sha256")


def write_meta(plan: Plan) -> None:
    """Write meta.json: code, versions, machine, and where the living run can be reached."""
    meta = {
        "run_id": plan.run_id,
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "resumed_at_env_steps": plan.resumed_at,
        "supervisor_pid": os.getpid(),
        "supervisor_started": start_time(os.getpid()),
        "sockets": str(plan.sockets_dir),
        "shm": str(plan.shm),
        "actorlearn": actorlearn.__version__,
        **code(),
        "packages": {name: _version(name) for name in PACKAGES},
        "machine": machine(),
    }
    _write(plan.run_dir / "meta.json", meta)


def write_summary(run_dir: Path, status: str, error: str, known: Mapping[str, Any]) -> None:
    """Write summary.json from the last known numbers."""
    numbers = {name: known.get(name) for name in SUMMARY}
    if numbers["wall_time_s"] is None:
        numbers["wall_time_s"] = known.get("time_s")
    if numbers["wall_time_s"] and numbers["env_steps"] is not None:
        numbers["env_steps_per_s"] = round(numbers["env_steps"] / numbers["wall_time_s"], 1)
    _write(run_dir / "summary.json", {"status": status, **({"error": error} if error else {}), **numbers})


def code() -> dict[str, Any]:
    """Commit of this checkout and whether it was changed; empty when it is no checkout."""
    folder = Path(actorlearn.__file__).parent
    commit = _git(folder, "rev-parse", "HEAD")
    return {"commit": commit, "dirty": bool(_git(folder, "status", "--porcelain"))} if commit else {}


def machine() -> dict[str, Any]:
    """The machine in a few words."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "cores_allowed": len(os.sched_getaffinity(0)),
        "memory_bytes": psutil.virtual_memory().total,
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _git(folder: Path, *arguments: str) -> str:
    try:
        command = ["git", "-C", str(folder), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _write(path: Path, value: Mapping[str, Any]) -> None:
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(json.dumps(value, indent=2) + "\n")
    beside.replace(path)
