"""Runs of a slow environment: what they report before the first update, and which defaults they choose."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.conftest import Command, Start

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

SLOW = ["env.id=tests.system.environments:Slow", "report.every_s=2", "simulators.count=1", "simulators.envs=16"]


def test_steps_are_shown_before_the_first_update_and_reported_at_a_stop(launched: Start, command: Command) -> None:
    run = launched("catch", *SLOW, "algorithm.horizon=256")
    began_s = run.wait_for_event("ready", "simulator-0")["time_s"]
    row = run.wait_for(run.rows, "row")[0]
    assert (row["env_steps"], row["updates"], row["update_steps"]) == (0, 0, 4096)
    assert row["steps_made"] > 0
    assert row["time_s"] < began_s + 15  # a row takes 0.8 s; the rest is for a busy machine
    run.wait_for(lambda: "first update in about " in run.screen(), "line")
    assert "of 4,096 steps made at" in run.screen()
    assert "first update in about" in command("top", run.run_dir, "--once").stdout
    said = command("stop", run.run_dir).stdout
    assert "before the first update: " in said and "steps were made and not learned from" in said
    assert run.end() == 0
    (stopped,) = run.events("stopped")
    assert "were made and not learned from" in stopped["cause"]
    summary = run.summary()
    assert summary["steps_made"] == summary["steps_in_flight"] > 0


def test_defaults_of_a_slow_environment_follow_its_step_time(launched: Start, tmp_path: Path) -> None:
    file = tmp_path / "slow.yaml"
    file.write_text("env: {id: tests.system.environments:Slow}\nalgorithm: {name: ppo}\ntotal_steps: 2560\n")
    run = launched(str(file.with_suffix("")), *SLOW)
    run.wait_for(lambda: run.events("spawned"), "process")
    run.ctrl_c()
    assert run.end() == 130
    chosen = {event["key"]: event["value"] for event in run.events("chosen")}
    assert (chosen["algorithm.horizon"], chosen["algorithm.minibatches"]) == (16, 1)
    assert "horizon: 16" in (run.run_dir / "topology.yaml").read_text()
