"""Environments of other people's packages in whole runs: every process sees the same arguments and wrappers.

Also a kind of environments that a package brings by an entry point, with keys of its own.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.packages import installed
from tests.system import corridors
from tests.system.conftest import CONFIGS, Command, Start
from tests.system.launched import finished, learned

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

PPO = ["algorithm.name=ppo", "algorithm.horizon=32", "total_steps=1_000_000"]
PACKAGED = ["env.id=tests.system.environments:Copies-v0", "env.kwargs.prize=2"]
WRAPPED = "env.wrappers=[{name: 'gymnasium.wrappers:TimeLimit', kwargs: {max_episode_steps: 3}}]"


def test_an_environment_of_a_package_is_planned_learned_attached_and_scored(launched: Start, command: Command) -> None:
    """Actions are two choices at once, observations a Dict with text; a game has three steps, each worth up to 2."""
    plan = command("check", CONFIGS / "catch.yaml", *PPO, *PACKAGED, WRAPPED)
    assert plan.returncode == 0, plan.stderr
    told = " ".join(plan.stdout.split())
    assert "observation float32[5], from Dict of shown (one-hot of 3, 2); several choices at once, of [3, 2]" in told
    assert "the network does not get these parts of the observations: said (Text)" in told

    run = launched("catch", *PPO, *PACKAGED, WRAPPED)
    run.wait_for_score(5.0)
    assert [event["cause"].partition("; ")[0] for event in run.events("warned")] == [
        "the network does not get these parts of the observations: said (Text)"
    ]
    before = run.pids()
    attached = command("attach", run.run_dir, "env.kwargs.prize=1", "env.wrappers=[]")
    assert attached.returncode == 0, attached.stderr
    settings = json.loads((run.run_dir / "settings" / "simulator-2.0.json").read_text())
    assert settings["env"]["kwargs"] == {"prize": 1} and settings["env"]["wrappers"] == []
    run.wait_for_steps(run.env_steps())
    assert before.items() <= run.pids().items()
    assert command("stop", run.run_dir).returncode == 0
    assert run.end() == 0
    assert run.events("died") == [] and run.leftovers() == []

    scored = command("eval", run.run_dir, "--episodes", 20, "--json")
    assert scored.returncode == 0, scored.stderr
    assert 4.0 <= json.loads(scored.stdout)["mean"] <= 6.0


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_topology_of_three_keys_learns_from_an_image_and_a_number(launched: Start, tmp_path: Path) -> None:
    """The best return is 20, and that of chance 10; a perceptron stays below 15 (docs/results.md)."""
    topology = tmp_path / "parts.yaml"
    topology.write_text("env: {id: tests.envs.parts:Parts}\nalgorithm: {name: ppo}\ntotal_steps: 100_000\n")
    learned(launched(str(topology.with_suffix("")), "simulators.envs=8"), 18.0)


@pytest.fixture
def corridors_installed(environment: dict[str, str], tmp_path: Path) -> None:
    """Have every command find a package whose entry point is ``tests/system/corridors.py``."""
    installed(tmp_path, f"[actorlearn.environments]\ncorridors = {corridors.__name__}:SPEC\n")
    environment["PYTHONPATH"] += f":{tmp_path}"


@pytest.mark.usefixtures("corridors_installed")
def test_a_package_adds_a_kind_of_environments_by_one_module_and_one_entry_point(
    launched: Start, command: Command, tmp_path: Path
) -> None:
    topology = tmp_path / "walk.yaml"
    topology.write_text("env: {id: corridors/Walk, length: 5}\n")
    plan = command("check", topology, "env.bonus=2", "--all")
    assert plan.returncode == 0, plan.stderr
    said = " ".join(plan.stdout.split())
    for key in ("env.length 5", "env.bonus 2", "total_steps 5_000", "simulators.count 1", "model.name mlp"):
        assert key in said
    assert "observation float32[5]" in said
    for wrong, why in (("env.lenght=3", "did you mean env.length?"), ("env.bonus=0", "must be more than 0")):
        refused = command("check", topology, wrong)
        assert refused.returncode == 2 and why in refused.stderr
    assert "corridors (of strange-rl)" in " ".join(command("doctor").stdout.split())

    own = ["env.id=corridors/Walk", "env.bonus=2", f"report.writers=['{corridors.__name__}:Steps']"]
    run = launched("catch", *own, "total_steps=5_000", "algorithm.reward_clip=null")
    assert finished(run)["episode_return_mean"] == 2.0
    assert (run.run_dir / "steps.txt").read_text().split() == [str(row["env_steps"]) for row in run.rows()]
    assert not (run.run_dir / "tensorboard").exists()
    scored = command("eval", run.run_dir, "--episodes", 3, "--json", "--record")
    assert json.loads(scored.stdout)["mean"] == 2.0, scored.stderr
    assert "no game is recorded: env.id: 'corridors/Walk' cannot be rendered" in scored.stderr


@pytest.mark.skipif(find_spec("pettingzoo") is None, reason="pip install 'actorlearn[pettingzoo]'")
def test_games_whose_agents_come_and_go_are_learned_and_scored(launched: Start, command: Command) -> None:
    crowd = ["env.id=pettingzoo:tests.envs.parallel:Crowd", "env.agent_index=true", "env.time_limit_steps=12"]
    refused = command("check", CONFIGS / "catch.yaml", *crowd)
    assert refused.returncode == 2 and "write 3 or 6" in refused.stderr
    planned = command("check", CONFIGS / "catch.yaml", *crowd, "simulators.envs=6")
    assert "float32[7]" in planned.stdout and "3 agents per game, one row for each" in " ".join(planned.stdout.split())
    run = launched("catch", *crowd, "simulators.envs=6", "total_steps=20_000")
    last = finished(run)
    assert last["env_steps"] >= 20_000
    assert 2.0 < run.rows()[-1]["episode_length_mean"] < 12.0
    assert run.leftovers() == []
    scored = command("eval", run.run_dir, "--episodes", 5, "--json")
    assert scored.returncode == 0, scored.stderr
    assert json.loads(scored.stdout)["episodes"] == 5
