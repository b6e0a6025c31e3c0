"""Environments of other people's packages in whole runs: every process sees the same arguments and wrappers."""

from __future__ import annotations

import json

import pytest

from tests.system.conftest import CONFIGS, Command, Start

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

PPO = ["algorithm.name=ppo", "algorithm.horizon=32", "total_steps=1_000_000"]
PACKAGED = ["env.id=tests.system.environments:Copies-v0", "env.kwargs.prize=2"]
WRAPPED = "env.wrappers=[{name: 'gymnasium.wrappers:TimeLimit', kwargs: {max_episode_steps: 3}}]"


def test_a_packages_environment_is_planned_learned_joined_and_scored(launched: Start, command: Command) -> None:
    """Two choices at once, from a Dict with text in it; three steps of 2 each are a game."""
    plan = command("check", CONFIGS / "catch.yaml", *PPO, *PACKAGED, WRAPPED)
    assert plan.returncode == 0, plan.stderr
    told = " ".join(plan.stdout.split())
    assert "observation float32[5], from Dict of shown (one-hot of 3, 2); several choices at once, of [3, 2]" in told
    assert "of its observations said (Text) is left out" in told

    run = launched("catch", *PPO, *PACKAGED, WRAPPED)
    run.wait_for_score(5.0)
    assert [event["cause"].partition(" is")[0] for event in run.events("warned")] == ["of its observations said (Text)"]
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
