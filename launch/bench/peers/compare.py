"""Compares training rates with other programs on the same work, each in an environment of its own, interleaved.

Which programs and what work is in ``launch/bench/peers/works.py``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from launch.bench.measure.errors import BenchError
from launch.bench.measure.interleaved import interleave
from launch.bench.measure.parts import Parts
from launch.bench.measure.report import Report, percent, rate
from launch.bench.measure.request import Request
from launch.bench.measure.running import rate_of

PEERS = Path(".peers")
"""Virtual environments of the peers, made once, below the working directory."""
TORCH = "torch==2.13.0"
PACKAGES: Mapping[str, Sequence[Sequence[str]]] = {
    "sb3": [(TORCH, "stable-baselines3==2.9.0", "ale-py", "gymnasium", "opencv-python-headless")],
    "loops": [(TORCH, "ale-py", "gymnasium", "opencv-python-headless", "envpool==1.2.5")],
    "sample-factory": [(TORCH, "sample-factory[atari]==2.1.1")],
    # CleanRL's package pins an older Python and torch; its script runs with newer ones, and with EnvPool up to 1.0.
    "cleanrl": [
        (TORCH, "envpool==1.0.1", "numpy<2", "gym==0.23.1", "tensorboard", "setuptools<80"),
        ("--no-deps", "--ignore-requires-python", "cleanrl==1.2.0"),
    ],
}
"""Environment -> arguments of pip, one call after the other."""
WARMUP_S = 5.0
NEEDS_ROMS = "sample-factory"
"""Its ale-py is from before ROMs were shipped with it."""
SIMULATION = "pure simulation"
_LIMIT_S = 180.0


@dataclass(frozen=True)
class Peer:
    """Another program."""

    environment: str
    script: str
    arguments: tuple[str, ...]
    against: str
    """Which case of ours does the same work."""
    also: str | None = None
    """Another case of ours that a user would compare it with."""


@dataclass(frozen=True)
class Work:
    """What is done by all, and by whom."""

    topology: str
    ours: Mapping[str, tuple[str, ...]]
    """Case -> overrides of the topology."""
    theirs: Mapping[str, Peer]
    note: str


def compare(suite: str, work: Work, request: Request) -> Report:
    """Rates of all cases and the ratio of ours to each of theirs."""
    pythons = {name: environment(name) for name in sorted({peer.environment for peer in work.theirs.values()})}
    first = next(iter(work.ours.values()))
    with Parts(work.topology, first) as parts:
        cases: dict[str, Callable[[], float]] = {SIMULATION: partial(parts.simulate, request.seconds)}
        for name, keys in work.ours.items():
            cases[name] = partial(rate_of, work.topology, keys, request.seconds, WARMUP_S)
        for name, peer in work.theirs.items():
            cases[name] = partial(_rate, pythons[peer.environment], peer, request.seconds)
        spread = interleave(cases, request.repetitions)
    rows = []
    for name, measured in spread.items():
        met = [case for known in (work.theirs.get(name),) if known for case in (known.against, known.also) if case]
        ratios = "; ".join(f"{spread[case].median / measured.median:.2f}x: {case}" for case in met)
        rows.append((name, rate(measured), percent(measured.median / spread[SIMULATION].median), ratios))
    headings = ("program", "steps/s", "of pure simulation", "ours on the same work; other")
    packages = {name: [" ".join(arguments) for arguments in PACKAGES[name]] for name in pythons}
    return Report(suite, headings, rows, spread, "steps/s", (work.note,), {"peers": packages})


def environment(name: str) -> Path:
    """Python of a peer's virtual environment, made on first use and when its packages change."""
    folder = PEERS.absolute() / name
    python = folder / "bin" / "python"
    ready = folder / "ready"
    wanted = "\n".join(" ".join(arguments) for arguments in PACKAGES[name]) + "\n"
    if not ready.exists() or ready.read_text() != wanted:
        print(f"making {folder}", file=sys.stderr)
        try:
            venv.create(folder, with_pip=True, clear=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise BenchError(f"{folder}: cannot be made: {error}") from None
        commands = [[str(python), "-m", "pip", "install", "-q", *arguments] for arguments in PACKAGES[name]]
        if name == NEEDS_ROMS:
            commands.append([str(folder / "bin" / "ale-import-roms"), str(roms())])
        for command in commands:
            if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
                raise BenchError(f"{folder}: {' '.join(command[1:])} failed; see above, then try again")
        ready.write_text(wanted)
    return python


def roms() -> Path:
    """The folder of ROMs that our own ale-py ships."""
    found = importlib.util.find_spec("ale_py")
    if found is None or found.origin is None:
        raise BenchError("ale-py is not installed; its ROMs are needed by Sample Factory's older one")
    return Path(found.origin).parent / "roms"


def _rate(python: Path, peer: Peer, seconds: float) -> float:
    return float(answer(python, peer, seconds)["steps_per_s"])


def answer(python: Path, peer: Peer, seconds: float) -> dict[str, Any]:
    """What a peer's script says of this many seconds after its own warm-up; raises BenchError."""
    script = Path(__file__).parent / "scripts" / peer.script
    command = [str(python), str(script), str(seconds), *peer.arguments]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, process_group=0)
    try:
        out, error = process.communicate(timeout=seconds + _LIMIT_S)
    except subprocess.TimeoutExpired:
        raise BenchError(f"{peer.script} took more than {seconds + _LIMIT_S:.0f} s") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # whatever it has started ends with it
        process.wait()
    lines = out.strip().splitlines()
    if process.returncode or not lines:
        raise BenchError(f"{peer.script}: {(error.strip().splitlines() or ['no output'])[-1]}")
    return dict(json.loads(lines[-1]))
