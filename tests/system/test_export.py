"""A run's policy taken elsewhere: it plays without actorlearn as well as `eval --greedy` says that it does."""

from __future__ import annotations

import json
import subprocess
import sys
from math import sqrt
from pathlib import Path

import pytest
import yaml

from tests.system.conftest import Command, Start
from tests.system.launched import finished

pytestmark = [pytest.mark.system, pytest.mark.nightly, pytest.mark.timeout(300)]
for package in ("onnx", "onnxscript", "onnxruntime"):
    pytest.importorskip(package, reason=f"{package} is not installed: pip install 'actorlearn[onnx]'")

ALONE = (
    "import runpy, sys; sys.modules['actorlearn'] = None; sys.argv = sys.argv[1:]; "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)
GAMES = 40


def test_an_exported_policy_plays_as_well_as_the_runs_own(launched: Start, command: Command, tmp_path: Path) -> None:
    run = launched("cartpole", "total_steps=100000", "simulators.envs=8", "checkpoint.every_steps=50000")
    run.end(timeout_s=200)
    finished(run)
    told = command("export", run.run_dir, "-o", "out", "--episodes", GAMES, "--json")
    assert told.returncode == 0, told.stderr
    score = json.loads(told.stdout)["score"]
    greedy = json.loads(command("eval", run.run_dir, "--greedy", "--episodes", GAMES, "--json").stdout)
    assert score["mean"] == greedy["mean"] > 100.0  # at random 22
    head = yaml.safe_load((tmp_path / "out" / "README.md").read_text().split("---\n")[1])
    assert head["model-index"][0]["results"][0]["metrics"][0]["value"].startswith(f"{score['mean']:.2f} +/-")

    playing = [sys.executable, "-c", ALONE, str(tmp_path / "out" / "play.py"), str(GAMES), "1000"]
    said = subprocess.run(playing, capture_output=True, text=True, cwd=tmp_path, check=True).stdout
    games, _, rest = said.partition(" games: mean score ")
    mean, deviation = map(float, rest.strip().split(", standard deviation "))
    error = sqrt((deviation**2 + score["std"] ** 2) / GAMES)
    assert int(games) == GAMES and abs(mean - score["mean"]) < 4.0 * max(error, 1.0), said

    again = command("export", run.run_dir, "-o", "out")
    assert again.returncode == 2 and "is there already" in again.stderr
    assert command("check", tmp_path / "out" / "topology.yaml").returncode == 0
