"""Health rules in whole runs: each fires in a run made to break it, and none in a healthy run."""

from __future__ import annotations

import json

import pytest

from launch.reports.health import BY_NAME
from tests.system.conftest import Command, Start
from tests.system.launched import Event, Launched, finished

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

QUICK = ["total_steps=60_000", "checkpoint.every_steps=1_000_000", "algorithm.horizon=5"]
PPO = ["algorithm.name=ppo", "algorithm.horizon=16", "algorithm.epochs=4", "algorithm.minibatches=4"]
STILL = ["optimizer.learning_rate=1.0e-12", "optimizer.learning_rate_final=1.0e-12"]  # no weight moves
ENVIRONMENTS = "env.id=tests.system.ill_environments"
ILL = {
    "policy collapsed": ["optimizer.learning_rate=10.0"],
    "updates too large": [
        *(*PPO, "algorithm.epochs=10", "algorithm.entropy_cost=0.5"),
        *("optimizer.learning_rate=0.03", "optimizer.learning_rate_final=0.03"),
    ],
    "updates without effect": [*PPO, *STILL],
    # Means of 100 random games differ by chance so much that the rule may rest for a while: the run has time for both.
    "values explain nothing": [
        *("total_steps=600_000", "algorithm.value_cost=0.0", "optimizer.learning_rate=1.0e-7"),
    ],
    "values too large": [
        *("algorithm.reward_clip=1.0", "algorithm.discount=0.0"),
        *("optimizer.learning_rate=10.0", "optimizer.learning_rate_final=10.0"),
    ],
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


def test_every_health_rule_has_a_run_that_breaks_it() -> None:
    assert ILL.keys() == BY_NAME.keys()


def stopped_when_ill(run: Launched, rule: str, learners: int = 1) -> list[Event]:
    """Wait until a rule fires for all learners of a run, and stop it; return the events."""

    def found() -> list[Event] | None:
        events = [event for event in run.events("ill") if event["rule"] == rule]
        return events if len(events) >= learners else None

    events: list[Event] = run.wait_for(found, f"event ill: {rule}")
    run.wait_for(lambda: any(row.get("health") for row in run.rows()), "row with it")
    run.ctrl_c()
    assert run.end() in (0, 130), run.screen()
    assert run.leftovers() == []
    return events


@pytest.mark.parametrize("rule", ILL)
def test_each_health_rule_fires_in_a_run_made_to_break_it(launched: Start, command: Command, rule: str) -> None:
    run = launched("catch", *QUICK, *ILL[rule])
    event = stopped_when_ill(run, rule)[0]
    assert event["says"] in event["cause"] and event["try"] == BY_NAME[rule].remedy
    assert f"ill: {rule}" in run.screen()
    replayed = json.loads(command("health", run.run_dir, "--json").stdout)
    ill = [change["rule"] for change in replayed["changes"] if change["ill"]]
    assert rule in ill and ill == [event["rule"] for event in run.events("ill")]
    assert replayed["ill"] == run.rows()[-1].get("health", [])
    if replayed["ill"]:
        assert "learning fails" in command("top", run.run_dir, "--once").stdout


@pytest.mark.parametrize("topology", HEALTHY)
def test_no_health_rule_fires_in_a_healthy_run(launched: Start, command: Command, topology: str) -> None:
    run = launched(topology, *HEALTHY[topology])
    finished(run)
    assert run.events("ill") == []
    assert all("health" not in row for row in run.rows())
    assert "no rule fired in" in command("health", run.run_dir).stdout


def test_learners_are_judged_one_by_one(launched: Start) -> None:
    run = launched("catch", *QUICK, "learners.count=2", "mode=gossip", *STILL)
    events = stopped_when_ill(run, "updates without effect", learners=2)
    assert {event["process"] for event in events} == {"trainer-0", "trainer-1"}
