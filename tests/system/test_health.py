"""Rules of health in whole runs: each fires on a run that was made ill on purpose, and none on a healthy one."""

from __future__ import annotations

import json

import pytest

from launch.reports.health import BY_NAME
from tests.system.conftest import Command, Start
from tests.system.launched import finished

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

QUICK = ["total_steps=60_000", "checkpoint.every_steps=1_000_000", "algorithm.horizon=5"]
PPO = ["algorithm.name=ppo", "algorithm.horizon=16", "algorithm.epochs=4", "algorithm.minibatches=4"]
ENVIRONMENTS = "env.id=tests.system.ill_environments"
ILL = {
    "policy collapsed": ["optimizer.learning_rate=10.0"],
    "updates too large": [*PPO, "optimizer.learning_rate=1.0"],
    "updates without effect": [*PPO, "optimizer.learning_rate=1.0e-12"],
    "values explain nothing": ["algorithm.value_cost=0.0", "optimizer.learning_rate=1.0e-7"],
    "values too large": ["optimizer.learning_rate=10.0"],
    "gradients far above clip_norm": ["optimizer.clip_norm=1.0e-6", "optimizer.learning_rate=1.0e-7"],
    "dead units": ["model.activation=relu", "optimizer.learning_rate=10.0"],
    "rewards always 0": [f"{ENVIRONMENTS}:Unrewarded"],
    "observations constant": [f"{ENVIRONMENTS}:Blind"],
    "observations huge": [f"{ENVIRONMENTS}:Huge"],
    "no game finished": [f"{ENVIRONMENTS}:Endless"],
}
# Mean scores of random actions stay far below 0.5 in Catch, where the best is 1.
HEALTHY = {
    "catch": ["total_steps=150_000", "checkpoint.every_steps=1_000_000"],
    "cartpole": ["total_steps=60_000", "checkpoint.every_steps=1_000_000"],
    "cartpole-vaco": ["total_steps=60_000", "checkpoint.every_steps=1_000_000"],
}


def test_every_rule_is_shown_to_fire() -> None:
    assert ILL.keys() == BY_NAME.keys()


@pytest.mark.parametrize("rule", ILL)
def test_a_run_that_was_made_ill_is_said_to_be(launched: Start, command: Command, rule: str) -> None:
    run = launched("catch", *QUICK, *ILL[rule])
    summary = finished(run)
    assert summary["status"] == "finished"
    events = [event for event in run.events("ill") if event["rule"] == rule]
    assert events, f"{[event['rule'] for event in run.events('ill')]}; {run.rows()[-1]}"
    assert events[0]["says"] in events[0]["cause"] and events[0]["try"] == BY_NAME[rule].remedy
    assert any(rule in row.get("health", ()) for row in run.rows())
    assert f"ill: {rule}" in run.screen()
    replayed = json.loads(command("health", run.run_dir, "--json").stdout)
    assert [change["rule"] for change in replayed["changes"] if change["ill"]] == [
        event["rule"] for event in run.events("ill")
    ]
    if rule in run.rows()[-1].get("health", ()):
        assert "learning is ill" in command("top", run.run_dir, "--once").stdout


@pytest.mark.parametrize("topology", HEALTHY)
def test_a_healthy_run_is_silent(launched: Start, command: Command, topology: str) -> None:
    run = launched(topology, *HEALTHY[topology])
    finished(run)
    assert run.events("ill") == []
    assert all("health" not in row for row in run.rows())
    assert "no rule fired in" in command("health", run.run_dir).stdout


def test_learners_are_judged_one_by_one(launched: Start) -> None:
    run = launched("catch", *QUICK, "learners.count=2", "learners.mode=gossip", "optimizer.learning_rate=1.0e-12")
    finished(run)
    events = [event for event in run.events("ill") if event["rule"] == "updates without effect"]
    assert {event["process"] for event in events} == {"trainer-0", "trainer-1"}
