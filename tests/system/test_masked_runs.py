"""Whole runs in a game that ends at an invalid action: with masks it is learned, without them not in as many steps."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.conftest import Command
from tests.system.launched import PATIENCE_S

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]

TOPOLOGY = """
env: {id: "tests.envs.doors:Doors", kwargs: {doors: 300, source: SOURCE}}
total_steps: 8_000
"""
DQN = ["algorithm.name=dqn", "algorithm.epsilon_steps=3000", "replay.learning_starts_steps=500"]


@pytest.mark.parametrize("source", ["info", "observation"])
@pytest.mark.parametrize("keys", [["algorithm.name=ppo"], DQN], ids=["ppo", "dqn"])
def test_only_agents_with_action_masks_learn(command: Command, tmp_path: Path, keys: list[str], source: str) -> None:
    (tmp_path / "doors.yaml").write_text(TOPOLOGY.replace("SOURCE", source))

    def score(mask: str) -> float:
        folder = tmp_path / mask
        ran = command("run", "doors.yaml", *keys, f"env.action_mask={mask}", "--run-dir", folder)
        assert ran.returncode == 0, ran.stderr
        played = command("eval", folder, "--episodes", "50", "--greedy", "--json")
        assert played.returncode == 0, played.stderr
        return float(json.loads(played.stdout)["mean"])

    assert score("auto") > 7.0  # of 8
    assert f"action_mask: {source}" in (tmp_path / "auto" / "topology.yaml").read_text()
    assert score("none") < 5.0


def test_an_exported_policy_and_a_resumed_run_apply_action_masks(
    command: Command, environment: dict[str, str], tmp_path: Path
) -> None:
    """In this game an invalid action is an error."""
    pytest.importorskip("onnxruntime")
    (tmp_path / "doors.yaml").write_text(TOPOLOGY.replace("SOURCE", "info").replace(":Doors", ":Strict"))
    short = ["algorithm.name=ppo", "algorithm.horizon=32", "total_steps=2000", "simulators.decorrelation_steps=8"]
    ran = command("run", "doors.yaml", *short, "--run-dir", "run")
    assert ran.returncode == 0, ran.stderr
    assert (again := command("resume", "run", "total_steps=4000")).returncode == 0, again.stderr
    assert command("eval", "run", "--episodes", "20").returncode == 0
    assert (done := command("export", "run", "-o", "policy")).returncode == 0, done.stderr
    play = [sys.executable, "policy/play.py", "20"]
    assert subprocess.run(play, cwd=tmp_path, env=environment, timeout=PATIENCE_S, check=False).returncode == 0
