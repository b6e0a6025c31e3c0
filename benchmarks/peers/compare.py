"""Compares training rates with other programs, each in its own virtual environment, on the same work and in turn.

``benchmarks/peers/works.py`` lists the programs and their work. ``install.sh`` installs them; a suite never does.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.request import BenchmarkRequest
from launch.bench.interleaved import interleave
from launch.bench.parts import Parts
from launch.bench.report import SuiteReport, percent, rate
from launch.bench.running import rate_of
from launch.errors import FailedError
from launch.spawning import answers

PEERS = Path(".peers")
"""Virtual environments of the peers, below the working directory."""
HERE = Path(__file__).parent
REQUIREMENTS = HERE / "requirements"
"""Folder with a file for each environment that lists its packages."""
WARMUP_S = 5.0
SIMULATION = "pure simulation"
_LIMIT_S = 180.0


@dataclass(frozen=True)
class PeerProgram:
    """Another program."""

    environment: str
    script: str
    arguments: tuple[str, ...]
    against: str
    """Name of the case of actorlearn that does the same work."""
    also: str | None = None
    """Name of another case of actorlearn with which a user would compare it."""


@dataclass(frozen=True)
class PeerWork:
    """The work that all programs do, and the programs."""

    topology: str
    ours: Mapping[str, tuple[str, ...]]
    """Case of actorlearn -> overrides of the topology."""
    theirs: Mapping[str, PeerProgram]
    note: str


def compare(suite: str, work: PeerWork, request: BenchmarkRequest) -> SuiteReport:
    """Measure all cases in turn; return the report of rates and of ratios of ours to theirs. Raises FailedError."""
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
        known = work.theirs.get(name)
        met = [case for case in (known.against, known.also) if case and case in work.ours] if known else []
        ratios = "; ".join(f"{spread[case].median / measured.median:.2f}x: {case}" for case in met)
        rows.append((name, rate(measured), percent(measured.median / spread[SIMULATION].median), ratios))
    headings = ("program", "steps/s", "of pure simulation", "ours on the same work; other")
    versions = {name: packages(python) for name, python in pythons.items()}
    return SuiteReport(suite, headings, rows, spread, "steps/s", (work.note,), {"peers": versions})


def environment(name: str) -> Path:
    """Return the Python of a peer's virtual environment; raises FailedError, with the command that installs it."""
    folder = PEERS.absolute() / name
    wanted, made = REQUIREMENTS / f"{name}.txt", folder / "requirements.txt"
    if not made.is_file() or made.read_bytes() != wanted.read_bytes():
        found = "has other versions than" if made.is_file() else "does not have the packages of"
        command = f"PYTHON={sys.executable} sh {HERE / 'install.sh'} {name}"
        raise FailedError(f"{folder} {found} {wanted}; install it, which takes minutes and a network: {command}")
    return folder / "bin" / "python"


def packages(python: Path) -> list[str]:
    """Return the packages of a peer's environment with their versions, as pip lists them; raises FailedError."""
    command = [str(python), "-m", "pip", "--disable-pip-version-check", "freeze"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise FailedError(f"{python}: {(done.stderr.strip().splitlines() or ['no output'])[-1]}")
    return done.stdout.split("\n")[:-1]


def _rate(python: Path, peer: PeerProgram, seconds: float) -> float:
    return float(answer(python, peer, seconds)["steps_per_s"])


def answer(python: Path, peer: PeerProgram, seconds: float) -> dict[str, Any]:
    """Run the script of a peer, which measures for ``seconds`` after its own warm-up; return its JSON.

    Raises FailedError.
    """
    script = HERE / "scripts" / peer.script
    command = [str(python), str(script), str(seconds), *peer.arguments]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, process_group=0)
    try:
        out, error = process.communicate(timeout=seconds + _LIMIT_S)
    except subprocess.TimeoutExpired:
        raise FailedError(f"{peer.script} took more than {seconds + _LIMIT_S:.0f} s") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # whatever it has started ends with it
        process.wait()
    try:
        return dict(answers.answer(out, error, process.returncode))
    except answers.NoAnswerError as none:
        raise FailedError(f"{peer.script}: {none}") from None
