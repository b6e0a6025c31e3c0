"""Processes of a real run that are killed, stopped or spin: each is reported and replaced, and the run learns on."""

from __future__ import annotations

import os
import signal

import pytest

from tests.system.conftest import PACED, Start
from tests.system.launched import Launched

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


def replaced(run: Launched, name: str, cause: str) -> None:
    """Check that a process died of this cause and was restarted, and that the run learns on."""
    died = run.wait_for_event("died", name)
    restarted = run.wait_for_event("restarted", name, incarnation=1)
    assert died["cause"] == cause
    assert restarted["time_s"] > died["time_s"]
    run.wait_for_steps(max(row["env_steps"] for row in run.rows()))


def test_any_process_may_be_killed_and_the_run_comes_to_its_end(launched: Start) -> None:
    run = launched(
        *("catch", PACED, "total_steps=30_000", "checkpoint.every_steps=500", "inference.count=1"),
        *("evaluator.count=1", "evaluator.every_steps=300", "evaluator.episodes=2"),
    )
    run.wait_for(lambda: run.events("saved", "trainer")[1:], "checkpoint after the first")
    run.wait_for(lambda: run.events("evaluated"), "evaluation")
    before = run.pids()
    victims = ["simulator-1", "evaluator-0", "inference-0", "trainer"]
    for name in victims:
        os.kill(before[name], signal.SIGKILL)
        replaced(run, name, "signal 9")
    run.wait_for(lambda: [e for e in run.events("evaluated") if e["incarnation"] == 1], "evaluation by the new one")
    after = run.pids()
    assert {name for name in before if after[name] != before[name]} == set(victims)
    assert after.keys() == before.keys()

    run.full_speed()
    assert run.end() == 0, run.screen()
    assert [(e["process"], e["incarnation"]) for e in run.events("died")] == [(name, 0) for name in victims]
    summary = run.summary()
    assert summary["status"] == "finished" and summary["deaths"] == 4
    assert summary["env_steps"] >= 30_000
    block, update = 16 * 4, 16 * 8  # rows x environments of one simulator, of both
    # The simulator's unfinished block, and what the trainer had learned since its newest checkpoint.
    assert run.rows()[-1]["steps_dropped"] <= block + 500 + update
    assert run.leftovers() == []
    for name in victims:
        assert f"{name} died: signal 9" in run.screen()


def test_a_process_of_any_role_that_is_stopped_is_found_and_replaced(launched: Start) -> None:
    names = ["simulator-0", "inference-0", "evaluator-0", "trainer"]
    limits = [f"supervision.{name.partition('-')[0]}_hang_s=4" for name in names]
    run = launched(
        *("catch", PACED, "total_steps=30_000", "checkpoint.every_steps=500", "inference.count=1", *limits),
        *("evaluator.count=1", "evaluator.every_steps=300", "evaluator.episodes=2"),
    )
    run.wait_for(lambda: run.events("evaluated"), "evaluation")
    for name in names:
        os.kill(run.pids()[name], signal.SIGSTOP)
        replaced(run, name, "hang")
        (silent,) = run.events("silent", name)
        role = name.partition("-")[0]
        assert (
            f"the process was stopped by a signal or a debugger; the limit is supervision.{role}_hang_s: 4"
            in silent["cause"]
        )
    run.full_speed()
    assert run.end() == 0, run.screen()
    assert [e["process"] for e in run.events("died")] == names
    assert run.leftovers() == []


def test_a_simulator_that_spins_is_reported_with_its_stack_and_replaced(launched: Start) -> None:
    environment = "env.id=tests.system.environments:Spins"
    limits = ["supervision.simulator_hang_s=2", "supervision.simulator_spin_s=4"]
    run = launched("catch", environment, "total_steps=3_000", *limits)
    died = run.wait_for(lambda: run.events("died"), "death")[0]
    name = died["process"]
    replaced(run, name, "hang")
    run.full_speed()
    assert run.end() == 0, run.screen()
    (slow,), (silent,) = run.events("slow", name)[:1], run.events("silent", name)
    assert (
        f"the process computes; the limit is supervision.simulator_spin_s: 4; its stack is in logs/{name}.log"
        in slow["cause"]
    )
    assert slow["time_s"] < silent["time_s"] < died["time_s"]
    log = (run.run_dir / "logs" / f"{name}.log").read_text()
    assert "no sign of life for" in log and "environments.py" in log and " in spin\n" in log
    assert run.summary()["deaths"] == 1
    assert run.leftovers() == []


def test_a_step_of_many_environments_that_each_wait_is_no_hang(launched: Start) -> None:
    one = ["simulators.count=1", "simulators.envs=48", "algorithm.horizon=2", "total_steps=96"]
    run = launched("catch", "env.id=tests.system.environments:Waits", *one, "supervision.simulator_hang_s=2")
    assert run.end() == 0, run.screen()  # a row takes 5 s
    assert [e["cause"] for kind in ("silent", "died") for e in run.events(kind, "simulator-0")] == []
    assert run.summary()["env_steps"] >= 96
