"""Contents of meta.json (program, machine, addresses) and summary.json (the outcome) of a run."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from actorlearn import __version__
from actorlearn.files import write_atomically
from actorlearn.metric import Kind, Merge
from actorlearn.metrics.registry import METRICS
from launch.machine.cores import Cores
from launch.plan import exactness
from launch.plan.plan import Plan
from launch.runs.find import start_time
from launch.runs.jsonl import read_object
from launch.supervision.events import Done

PACKAGES = ("torch", "numpy", "gymnasium", "ale-py", "pyzmq", "msgspec", "safetensors")

SUMMED = tuple(metric.name for metric in METRICS.values() if (metric.kind, metric.merge) == (Kind.COUNTER, Merge.SUM))
"""Counters that are summed over the learners of a run."""


def write(path: Path, values: Mapping[str, Any]) -> None:
    """Replace a JSON file atomically, so that readers never see an incomplete one; raises OSError."""
    write_atomically(path, f"{json.dumps(values, indent=2, ensure_ascii=False, default=str)}\n".encode())


def now() -> str:
    """Return the UTC time in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def meta(plan: Plan) -> dict[str, Any]:
    """Return the contents of meta.json: program, machine, sizes of observations and weights, and addresses of the run.

    In a resumed run, "earlier" has the contents that the file had before each resume.
    """
    addresses, resumption = plan.addresses, plan.resumption
    before = read_object(addresses.run_dir / "meta.json") if resumption.resumed else {}
    parts = before.pop("earlier", [])
    earlier = [*(parts if isinstance(parts, list) else []), before] if before else []
    return {
        "run_id": addresses.run_id,
        "name": plan.topology.name,
        "version": __version__,
        **commit(Path(__file__).parents[2]),
        "python": platform.python_version(),
        "packages": versions(),
        "machine": machine(),
        "command": sys.argv[1:],
        "resumed_at": resumption.env_steps if resumption.resumed else None,
        "resumed_from": resumption.checkpoints,
        "changed": resumption.changed,
        "exact": plan.exact,
        "inexact": "" if plan.exact else exactness.reason(plan.choices),
        "started": now(),
        "ended": None,
        "observation_bytes": plan.description.observation_bytes,
        "weights_bytes": plan.description.weights_bytes,
        "supervisor_pid": os.getpid(),
        "supervisor_started": start_time(os.getpid()),
        "sockets": str(addresses.sockets),
        "shm": str(addresses.shm),
        "earlier": earlier,
    }


def commit(root: Path) -> dict[str, Any]:
    """Return the git commit of the checkout in ``root``, and whether tracked files differ from it; None if unknown."""
    if not (root / ".git").exists():
        return {"commit": None, "dirty": None}
    answers = []
    for arguments in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"]):
        try:
            done = subprocess.run(
                ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=10, check=True
            )
        except (OSError, subprocess.SubprocessError):
            return {"commit": None, "dirty": None}
        answers.append(done.stdout.strip())
    return {"commit": answers[0], "dirty": bool(answers[1])}


def versions() -> dict[str, str]:
    """Return the installed versions of the packages that results depend on."""
    found = {}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def machine() -> dict[str, Any]:
    """Return processor, usable cores, memory and operating system of this machine."""
    cores = Cores.here()
    model = platform.processor() or platform.machine()
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return {
        "cpu": model,
        "cores": cores.allowed,
        "usable_cores": cores.usable,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
    }


def summary(
    done: Done,
    deaths: int,
    complaints: int,
    last_row: Mapping[str, Any],
    elapsed_s: float,
    evaluated: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the contents of summary.json; rates are means over the whole run.

    ``deaths``, ``complaints``: numbers of processes that died and of warnings. ``last_row``: the last line of
    metrics.jsonl, for numbers that trainers did not send when they finished. ``elapsed_s``: wall time in seconds, if
    neither of them has it. ``evaluated``: from `evaluations.best_and_last`.
    """
    finished = done.summary
    known = {**last_row, **finished}
    env_steps = known.get("env_steps") or 0
    wall_time_s = finished.get("wall_time_s") or known.get("time_s") or elapsed_s
    return {
        "status": done.status,
        "error": done.error or None,
        "cause": done.cause or None,
        "lacks_nodes": done.lacks_nodes,
        "unscored": done.unscored,
        "env_steps": env_steps,
        "frames": known.get("frames") or 0,
        "updates": known.get("updates") or 0,
        "wall_time_s": wall_time_s,
        "env_steps_per_s": env_steps / wall_time_s if wall_time_s else 0.0,
        **{key: known.get(key) or 0 for key in SUMMED},
        "episode_return_mean": known.get("episode_return_mean"),
        "evaluations": dict(evaluated) or None,
        "weights_sha256": finished.get("weights_sha256"),
        "deaths": deaths,
        "complaints": complaints,
    }
