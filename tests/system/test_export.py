"""Exported policies play without actorlearn, and as well as `eval --greedy` says."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
import yaml

import actorlearn
from tests.system.conftest import Command, Start
from tests.system.launched import finished

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]
for package in ("onnx", "onnxscript", "onnxruntime"):
    pytest.importorskip(package, reason=f"{package} is not installed: pip install 'actorlearn[onnx]'")

ALONE = (
    "import runpy, sys; sys.modules['actorlearn'] = None; sys.argv = sys.argv[1:]; "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)
GAMES = 40


@pytest.mark.nightly
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
    assert again.returncode == 2 and "already exists; name a new folder" in again.stderr
    assert command("check", tmp_path / "out" / "topology.yaml").returncode == 0


SEEKING = """
import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Text


class Seeking(gymnasium.Env):
    '''A light in a picture, and its distance: go to it in ten steps.'''

    observation_space = Dict(
        {"picture": Box(0, 255, (3, 4, 3), np.uint8), "distance": Box(-4, 4, (1,)), "left": Discrete(11), "to": Text(9)}
    )
    action_space = Discrete(2, start=1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.light, self.left = *self.np_random.integers(4, size=2), 10
        return self.seen(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.place, self.left = np.clip(self.place + (1 if action == 2 else -1), 0, 3), self.left - 1
        return self.seen(), float(self.place == self.light), self.left == 0, False, {}

    def seen(self):
        picture = np.full((3, 4, 3), 7, np.uint8)
        picture[0, self.place], picture[2, self.light] = (255, 20, 0), (0, 90, 255)
        distance = np.float32([self.light - self.place])
        return {"picture": picture, "distance": distance, "left": np.int64(self.left), "to": "go"}
"""
ACTIONS = """
import json, sys

sys.modules["actorlearn"] = None
sys.path[:0] = sys.argv[1:]
import play

policy, chosen = play.OnnxPolicy(), []
act = policy.act
policy.act = lambda *given: chosen.append(int(act(*given))) or chosen[-1]
print(json.dumps({"scores": play.play(policy, 5, seed=11), "actions": chosen}))
"""


def test_an_exported_policy_acts_as_the_loaded_one_on_observations_with_parts(
    launched: Start, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "seeking.py").write_text(SEEKING)
    run = launched("cartpole", "env.id=seeking:Seeking", "total_steps=3000", "simulators.envs=4")
    run.end(timeout_s=120)
    finished(run)
    made = command("export", run.run_dir, "-o", "out", "--episodes", 0)
    assert made.returncode == 0, made.stderr
    playing = [sys.executable, "-c", ACTIONS, str(tmp_path), str(tmp_path / "out")]
    played = json.loads(subprocess.run(playing, capture_output=True, text=True, check=True).stdout)

    monkeypatch.syspath_prepend(tmp_path)
    game, chosen = importlib.import_module("seeking").Seeking(), []
    policy = actorlearn.load_policy(run.run_dir)
    act = policy.act
    monkeypatch.setattr(policy, "act", lambda *given, **keys: chosen.append(act(*given, **keys)) or chosen[-1])
    assert played["scores"] == policy.play(game, 5, greedy=True, seed=11)
    assert played["actions"] == np.array(chosen).tolist()
