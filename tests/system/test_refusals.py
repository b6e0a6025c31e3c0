"""Requests that cannot be met: one line, exit status 2, nothing made; and an environment that fails only later."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.conftest import CONFIGS, Command, Start
from tests.system.environments import __name__ as ENVIRONMENTS

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]


def assert_refused(done: subprocess.CompletedProcess[str], said: list[str], folder: Path) -> None:
    assert done.returncode == 2, done
    (line,) = done.stderr.splitlines()
    assert line.startswith("actorlearn: ")
    assert [word for word in said if word not in line] == [], line
    assert not folder.exists()


@pytest.mark.parametrize(
    ("override", "said"),
    [
        pytest.param(  # test_bad_topologies has more
            *("simulators.cout=2", ["simulators.cout", "did you mean simulators.count?"]), marks=pytest.mark.smoke
        ),
        ("env.id=Nonsense-v1", ["env.id", "Nonsense-v1"]),
        (f"env.id={ENVIRONMENTS}:CannotBeMade", ["env.id", "CannotBeMade", "the ball is at home"]),
        (f"env.id={ENVIRONMENTS}:Missing", ["env.id", "Missing"]),
    ],
)
def test_a_wrong_topology_is_refused_in_one_line_and_makes_nothing(
    override: str, said: list[str], command: Command, tmp_path: Path
) -> None:
    assert_refused(command("run", CONFIGS / "catch.yaml", override, "--run-dir", "new"), said, tmp_path / "new")


def test_a_run_without_enough_shared_memory_is_refused_in_one_line(environment: dict[str, str], tmp_path: Path) -> None:
    """In a mount namespace of its own, where /dev/shm is 64 KiB."""
    script = 'mount -t tmpfs -o size=64k tmpfs /dev/shm && "$@"; code=$?; ls -A /dev/shm; exit $code'
    command = [sys.executable, "-m", "launch", "run", str(CONFIGS / "catch.yaml"), "--run-dir", "new"]
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", *command],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=False,
    )
    if "unshare:" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"this machine allows no mount namespaces: {done.stderr.strip()}")
    assert_refused(
        done,
        ["actorlearn: /dev/shm/", "bytes of shared memory are needed", "65,536 are free", "--shm-size"],
        tmp_path / "new",
    )
    assert "actorlearn" not in done.stdout.partition("steps\n")[2]  # what ls shows


def test_an_environment_that_dies_again_and_again_ends_the_run(launched: Start) -> None:
    run = launched("catch", f"env.id={ENVIRONMENTS}:DiesInStep", "simulators.count=1", "inference.count=1")
    assert run.end() == 1
    error = "ArithmeticError: the paddle fell off"
    assert error in run.screen()
    summary = run.summary()
    assert summary["status"] == "failed"
    assert error in summary["error"]
    assert [(e["incarnation"], e["cause"]) for e in run.events("died")] == [(i, "exit 1") for i in range(6)]
    assert all(error in e["error"] for e in run.events("died"))
    assert "environments.py" in (run.run_dir / "logs" / "simulator-0.log").read_text()  # the traceback
    assert run.leftovers() == []
    assert not [name for name in os.listdir("/dev/shm") if run.meta()["run_id"] in name]


OTHER_SHAPES = {
    "env.kwargs.size=8": ["has shape [32, 100], ", "has shape [32, 64]; ", "env.kwargs was {} and is {'size': 8}"],
    "model.hidden_sizes=[16]": ["has shape [32, 100], ", "has shape [16, 100]; ", "hidden_sizes was [32] and is [16]"],
    "algorithm={name: dqn}": ["has shape [", "algorithm.name was 'a2c' and is 'dqn'"],
    "optimizer={name: rmsprop}": ["its tensor optimizer.", "optimizer.name was 'adam' and is 'rmsprop'"],
}
"""Change at a resume -> parts of its refusal."""


def test_a_resume_with_other_shapes_is_refused_and_changes_nothing(launched: Start, command: Command) -> None:
    run = launched("catch", f"env.id={ENVIRONMENTS}:Cropped", "checkpoint.every_steps=200", "checkpoint.keep=9")
    best = run.run_dir / "checkpoints" / "best.json"
    run.wait_for(lambda: best.is_file() and run.events("saved")[5:], "best checkpoint and newer ones")
    run.ctrl_c()
    assert run.end() == 130

    def files() -> dict[Path, int]:
        return {path: path.is_file() and path.stat().st_mtime_ns for path in run.run_dir.rglob("*")}

    before = files()
    for change, said in OTHER_SHAPES.items():
        done = command("resume", run.run_dir, "--at", "best", "total_steps=70_000", change)
        assert done.returncode == 2, done
        (line,) = done.stderr.splitlines()
        assert [word for word in (*said, "resume without this change") if word not in line] == [], line
        assert files() == before


def test_a_resume_by_an_algorithm_that_needs_a_replay_is_refused_in_one_line(launched: Start, command: Command) -> None:
    run = launched("catch", "algorithm={name: pqn}", "total_steps=400")
    assert run.end() == 0
    before = (run.run_dir / "topology.yaml").read_text()
    done = command("resume", run.run_dir, "total_steps=70_000", "algorithm={name: dqn}")
    assert done.returncode == 2, done
    (line,) = done.stderr.splitlines()
    assert "algorithm.name: 'dqn' learns from a replay" in line and "resume with the earlier algorithm" in line
    assert (run.run_dir / "topology.yaml").read_text() == before
