"""Compares training rates with peers on the same work, one right after the other, each in its own environment.

A rate means little by itself: machines differ and drift. So the peer is measured before and after our own run, and the
ratio to the faster of the two is what counts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

PEERS = Path(".peers")
"""Virtual environments of the peers, made once, below the working directory."""
SB3_PACKAGES = ["torch==2.13.0", "stable-baselines3==2.9.0", "ale-py", "gymnasium", "opencv-python-headless"]


class BenchError(RuntimeError):
    """A measurement that could not be made."""


def a2c(quick: bool = False) -> dict[str, Any]:
    """A2C on Pong: configs/pong.yaml against Stable-Baselines3, before and after, as shipped and on the same work."""
    seconds = 15.0 if quick else 60.0
    python = environment("sb3", SB3_PACKAGES)
    answer: dict[str, Any] = {"game": "ALE/Pong, 16 environments, horizon 5"}
    for work, network, overrides in (
        ("same_work_nips_fp32", "nips", ("trainer.precision=fp32",)),
        ("as_shipped", "default", ()),
    ):
        before = sb3(python, seconds, network)
        ours = rate(shipped("pong.yaml"), seconds, overrides=overrides)
        after = sb3(python, seconds, network)
        answer |= {
            f"{work}_actorlearn_steps_per_s": round(ours),
            f"{work}_stable_baselines3_before_steps_per_s": round(before["steps_per_s"]),
            f"{work}_stable_baselines3_after_steps_per_s": round(after["steps_per_s"]),
            f"{work}_ratio": round(ours / max(before["steps_per_s"], after["steps_per_s"]), 2),
        }
    return {**answer, "stable_baselines3_version": before["version"]}


def shipped(name: str) -> str:
    """Path of a shipped topology, in a checkout or where a wheel put it."""
    roots = (Path(__file__).resolve().parents[2], Path(sys.prefix) / "share" / "actorlearn")
    for root in roots:
        if (root / "configs" / name).is_file():
            return str(root / "configs" / name)
    raise BenchError(f"configs/{name} is neither in {roots[0]} nor in {roots[1]}; install the package again")


def environment(name: str, packages: list[str]) -> Path:
    """Python of a virtual environment with these packages, made on first use."""
    folder = PEERS.absolute() / name
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        print(f"making {folder} with {', '.join(packages)}", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        done = subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=False)
        if done.returncode:
            raise BenchError(f"{folder}: pip failed; remove the folder and try again")
        (folder / "ready").touch()
    return python


def sb3(python: Path, seconds: float, network: str) -> dict[str, Any]:
    """Stable-Baselines3's rate over this many seconds after its warm-up; network: its default (Nature) or nips."""
    script = Path(__file__).with_name("peer_scripts") / "sb3_a2c.py"
    done = subprocess.run(
        [python, script, str(seconds), "16", "5", network], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BenchError(f"{script.name}: {done.stderr.strip().splitlines()[-1]}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def rate(topology: str, seconds: float, warmup_s: float = 10.0, overrides: tuple[str, ...] = ()) -> float:
    """Training rate of a topology: agent steps a second between a warm-up and a deadline."""
    with tempfile.TemporaryDirectory(prefix="actorlearn-bench-") as folder:
        run_dir = Path(folder) / "run"
        command = [sys.executable, "-m", "launch", "run", topology, *overrides, "--run-dir", str(run_dir)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            return _measure(process, run_dir / "metrics.jsonl", seconds, warmup_s)
        finally:
            process.terminate()
            process.communicate(timeout=90)


def _measure(process: subprocess.Popen[str], metrics: Path, seconds: float, warmup_s: float) -> float:
    deadline_s = time.monotonic() + seconds + warmup_s + 60
    first: dict[str, Any] | None = None
    while time.monotonic() < deadline_s:
        time.sleep(0.5)
        if process.poll() is not None:
            error = process.stderr.read().strip() if process.stderr else ""
            raise BenchError(f"the run ended early: {error.splitlines()[-1] if error else 'no output'}")
        lines = metrics.read_text().splitlines() if metrics.exists() else []
        rows = [json.loads(line) for line in lines if line.endswith("}")]
        if rows and first is None and rows[-1]["time_s"] >= warmup_s:
            first = rows[-1]
        if first is not None and rows[-1]["time_s"] - first["time_s"] >= seconds:
            return float((rows[-1]["env_steps"] - first["env_steps"]) / (rows[-1]["time_s"] - first["time_s"]))
    raise BenchError(f"no rate within {deadline_s:.0f} s: see the run's logs")
