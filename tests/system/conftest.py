"""Real runs: ``python -m launch`` as a user would call it, on environments that cost nothing.

``launched("catch", "key=value", …)`` starts a run in the background and answers with a ``Launched``;
``command("stop", run.run_dir)`` calls the command line and waits for it. After each test nothing may be left.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.sizes import ROOT
from tests.system import slurm
from tests.system.agents import Agents
from tests.system.environments import PACED_VARIABLE
from tests.system.launched import PATIENCE_S, Launched, nodes_of
from tests.waiting import within

CONFIGS = ROOT / "configs"
QUICK = ["report.every_s=0.2", "simulators.count=2", "simulators.envs=4", "checkpoint.every_steps=1000"]
PACED = "env.id=tests.system.environments:Paced"
APART = ["mode=gossip", "gossip.graph=none", "learners.count=2", "simulators.count=1", "inference.count=0"]
"""Two learners that do not exchange."""

Command = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[..., Launched]


@pytest.fixture
def sockets_root() -> Iterator[Path]:
    """Folder of these runs' sockets: a short path, because a socket's may have 107 bytes."""
    root = Path(tempfile.mkdtemp(prefix="al-"))
    yield root
    left = sorted(path.name for path in root.iterdir())
    shutil.rmtree(root)
    assert not left, f"sockets left behind: {left}"


@pytest.fixture
def environment(sockets_root: Path, tmp_path: Path) -> dict[str, str]:
    """The environment variables of every command: this checkout, its own sockets, no terminal."""
    (tmp_path / "paced").touch()
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "XDG_RUNTIME_DIR": str(sockets_root),
        "TERM": "dumb",
        PACED_VARIABLE: str(tmp_path / "paced"),
    }


@pytest.fixture
def temporary(tmp_path: Path, environment: dict[str, str]) -> Iterator[Path]:
    """Folder in which nodes of this machine make theirs; empty when all have ended."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    environment["TMPDIR"] = str(folder)
    yield folder

    def left() -> list[object]:
        return [*nodes_of(folder), *folder.rglob("*")]

    assert within(30, lambda: left() == []), left()


@pytest.fixture
def cluster(environment: dict[str, str]) -> Iterator[slurm.Slurm]:
    """A real Slurm of four machines; the runs of the test find it."""
    if missing := slurm.missing():
        pytest.skip(f"Slurm cannot be tried, without {', '.join(missing)}: apt-get install slurm-wlm munge")
    with slurm.slurm() as made:
        environment.update(made.environment | environment, SLURM_CONF=made.environment["SLURM_CONF"], PATH=slurm.PATH)
        yield made


@pytest.fixture
def command(environment: dict[str, str], tmp_path: Path) -> Command:
    """Call the command line in the test's folder and wait for its end."""

    def call(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "launch", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
            timeout=PATIENCE_S,
            check=False,
        )

    return call


@pytest.fixture
def agents(environment: dict[str, str], tmp_path: Path, command: Command) -> Iterator[Agents]:
    """Agents of two nodes on this machine, and their keys; none is started yet."""
    with Agents(tmp_path, environment, command, ["n0", "n1"]) as made:
        yield made


@pytest.fixture
def launched(environment: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """Start runs; those that a failed test leaves alive are ended and removed."""
    started: list[Launched] = []

    def start(topology: str, *overrides: str, run_dir: Path | None = None, by: Sequence[str] = ()) -> Launched:
        """``topology`` is a name in configs/; with ``resume`` the run of ``run_dir`` goes on."""
        folder = run_dir or tmp_path / f"run-{len(started)}"
        if topology == "resume":
            arguments = ["resume", str(folder), *overrides]
        else:
            arguments = ["run", str(CONFIGS / f"{topology}.yaml"), *QUICK, *overrides, "--run-dir", str(folder)]
        started.append(Launched(arguments, folder, environment, tmp_path / "paced", by))
        return started[-1]

    yield start
    for run in started:
        if run.clear_away():
            for place in (run.meta().get(key) for key in ("shm", "sockets")):
                shutil.rmtree(str(place), ignore_errors=True)
