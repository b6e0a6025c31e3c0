"""Simulators and learners that join and leave a living run, and those that do not fit it."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.system.conftest import PACED, Command, Start
from tests.system.launched import Launched

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

STEPS_OF_A_SIMULATOR = 4 * 5
"""In one update: environments times horizon."""


def steps_in_an_update(run: Launched) -> float:
    """Return the mean over the newest two reports. Steps that met a resetting environment do not count: one in ten."""
    before, now = run.rows()[-2:]
    return float(now["env_steps"] - before["env_steps"]) / (now["updates"] - before["updates"])


def learns_from(run: Launched, simulators: int) -> bool:
    most = simulators * STEPS_OF_A_SIMULATOR
    return most - STEPS_OF_A_SIMULATOR < steps_in_an_update(run) <= most


@pytest.mark.smoke
def test_simulators_join_and_leave_a_living_run(launched: Start, command: Command) -> None:
    way = ["total_steps=1_000_000", "algorithm.horizon=5", "simulators.decorrelation_steps=50"]
    run = launched("catch", PACED, *way)
    run.wait_for(lambda: run.rows()[1:] and learns_from(run, 2), "update from two simulators")
    before = run.pids()

    attached = command("attach", run.run_dir, "--simulators", 2, "--json")
    assert attached.returncode == 0, attached.stderr
    answer = json.loads(attached.stdout)
    assert answer["names"] == answer["running"] == ["simulator-2", "simulator-3"]
    assert answer["seconds"] < 10
    assert {e["process"] for e in run.events("attached")} == {"simulator-2", "simulator-3"}
    run.wait_for(lambda: learns_from(run, 4), "update from four simulators")
    assert {name: run.pids()[name] for name in before} == before

    with_them = run.pids()
    detached = command("detach", run.run_dir, "simulator-0", "simulator-3")
    assert detached.returncode == 0, detached.stderr
    assert {(e["process"], e["cause"]) for e in run.events("detached")} == {
        ("simulator-0", "drained"),
        ("simulator-3", "drained"),
    }
    run.wait_for(lambda: learns_from(run, 2), "update from two simulators again")
    gone = {"simulator-0", "simulator-3"}
    assert run.pids() == {name: pid for name, pid in with_them.items() if name not in gone}

    for wrong, said in [
        ("env.id=CartPole-v1", "env.id is CartPole-v1, but the run needs tests.system.environments:Paced"),
        ("optimizer.learning_rate=1", "only keys of env can be changed"),
        ("env.idd=x", "did you mean env.id?"),
    ]:
        refused = command("attach", run.run_dir, wrong)
        assert refused.returncode == 1
        assert said in refused.stderr and len(refused.stderr.splitlines()) == 1
    last = command("detach", run.run_dir, "simulator-1", "simulator-2")
    assert last.returncode == 1 and "at least one simulator" in last.stderr
    run.wait_for_steps(run.env_steps())
    assert run.pids() == {name: pid for name, pid in with_them.items() if name not in gone}

    assert command("stop", run.run_dir).returncode == 0
    assert run.end() == 0
    assert run.events("died") == []
    assert run.rows()[-1]["steps_dropped"] == 0
    assert run.summary()["deaths"] == 0
    assert run.leftovers() == []


def test_learners_join_and_leave_a_living_run(launched: Start, command: Command) -> None:
    way = ["mode=gossip", "learners.count=2", "simulators.count=1", "total_steps=1_000_000"]
    run = launched("catch", PACED, *way)
    run.wait_for_steps(100)
    before = run.pids()
    attached = command("attach", run.run_dir, "--learners", 1, "--json")
    assert attached.returncode == 0, attached.stderr
    answer = json.loads(attached.stdout)
    assert answer["names"] == answer["running"] == ["trainer-2", "simulator-2"]
    assert "trainer-2 with simulator-2 running after" in answer["text"]
    assert {(e["process"], e["cause"]) for e in run.events("attached")} == {
        ("trainer-2", ""),
        ("simulator-2", "with trainer-2"),
    }
    run.wait_for(lambda: "trainer-2" in run.rows()[-1]["learners"], "row with trainer-2")
    with_it = run.pids()
    assert {name: with_it[name] for name in before} == before

    left: set[str] = set()
    for learner in (1, 0):
        detached = command("detach", run.run_dir, f"trainer-{learner}")
        assert detached.returncode == 0, detached.stderr
        assert f"trainer-{learner} with simulator-{learner} detached after" in detached.stdout
        left |= {f"trainer-{learner}", f"simulator-{learner}"}
        assert run.pids() == {name: pid for name, pid in with_it.items() if name not in left}
    causes = {e["process"]: e["cause"] for e in run.events("detached")}
    assert causes == {
        **{f"trainer-{learner}": "drained" for learner in (0, 1)},
        **{f"simulator-{learner}": f"with trainer-{learner}" for learner in (0, 1)},
    }
    run.wait_for_steps(run.env_steps() + 100)  # only the attached learner makes steps now
    last = command("detach", run.run_dir, "trainer-2")
    assert last.returncode == 1 and "at least one learner" in last.stderr

    assert command("stop", run.run_dir).returncode == 0
    assert run.end() == 0
    for key in ("env_steps", "episodes"):
        counted = [row[key] for row in run.rows()]
        assert counted == sorted(counted)
        assert run.summary()[key] >= counted[-1]
    assert run.events("died") == []
    assert run.leftovers() == []


def test_a_resumed_run_counts_the_steps_and_games_of_learners_that_have_left(launched: Start, command: Command) -> None:
    way = ["mode=gossip", "learners.count=2", "simulators.count=1", "total_steps=1_000_000"]
    run = launched("catch", PACED, *way)
    run.wait_for_steps(100)
    assert command("attach", run.run_dir, "--learners", 1).returncode == 0
    run.wait_for(lambda: run.rows()[-1]["learners"].get("trainer-2", {}).get("episodes"), "games of trainer-2")
    assert command("detach", run.run_dir, "trainer-1").returncode == 0
    assert command("stop", run.run_dir).returncode == 0 and run.end() == 0
    assert_counts_go_on(run, launched("resume", run_dir=run.run_dir), {"trainer-1", "trainer-2"})


def test_a_run_that_is_resumed_with_fewer_learners_in_step_counts_those_of_all(launched: Start) -> None:
    run = launched("catch", PACED, "mode=sync", "learners.count=2", "simulators.count=1", "total_steps=1_000_000")
    run.wait_for_steps(200)
    run.ctrl_c()
    assert run.end() == 130
    assert_counts_go_on(run, launched("resume", "learners.count=1", run_dir=run.run_dir), {"trainer-1"})


def test_a_resumed_run_counts_the_games_of_all_learners_from_its_first_report_on(launched: Start) -> None:
    run = launched("catch", PACED, "mode=sync", "learners.count=2", "simulators.count=1", "total_steps=1_000_000")
    run.wait_for_steps(200)
    run.wait_for(lambda: len(run.rows()[-1].get("learners", {})) == 2, "row of both learners")
    run.ctrl_c()
    assert run.end() == 130
    before = run.rows()
    resumed = launched("resume", run_dir=run.run_dir)
    resumed.wait_for(lambda: resumed.rows()[len(before) :], "report")
    resumed.ctrl_c()
    assert resumed.end() == 130
    first = resumed.rows()[len(before)]
    assert set(first["learners"]) == {"trainer-0", "trainer-1"}
    for key in ("env_steps", "frames", "updates", "episodes", "episodes_in_mean", "steps_used", "steps_dropped"):
        assert first[key] >= before[-1][key], key


def assert_counts_go_on(run: Launched, resumed: Launched, left: set[str]) -> None:
    """Each counter of the resumed run begins where that of the ended ``run`` was, with the learners in ``left``."""
    before, rows = run.summary(), run.rows()
    assert min(rows[-1]["learners"][name]["episodes"] for name in left & rows[-1]["learners"].keys()) > 0
    resumed.wait_for_steps(before["env_steps"] + 100)
    resumed.ctrl_c()
    assert resumed.end() == 130
    for key in ("env_steps", "episodes", "steps_made", "steps_used", "steps_dropped"):
        counted = [row[key] for row in resumed.rows()]
        assert counted == sorted(counted), key
        assert resumed.summary()[key] >= before[key], key
    after = resumed.summary()
    assert after["steps_used"] == after["env_steps"]
    assert after["steps_made"] == after["steps_used"] + after["steps_dropped"] + after["steps_in_flight"]
    assert {event["process"] for event in resumed.new_events("spawned")} & left == set()


def test_an_attached_learner_that_is_killed_comes_back(launched: Start, command: Command) -> None:
    run = launched("catch", PACED, "mode=gossip", "simulators.count=1", "total_steps=1_000_000")
    run.wait_for_steps(50)
    assert command("attach", run.run_dir, "--learners", 1).returncode == 0
    os.kill(run.pids()["trainer-1"], signal.SIGKILL)
    run.wait_for_event("restarted", "trainer-1", incarnation=1)
    assert command("detach", run.run_dir, "trainer-0").returncode == 0
    run.wait_for_steps(run.env_steps() + 50)
    assert command("stop", run.run_dir).returncode == 0
    assert run.end() == 0
    assert [(event["process"], event["cause"]) for event in run.events("died")] == [("trainer-1", "signal 9")]
    steps = [row["env_steps"] for row in run.rows()]
    assert steps == sorted(steps)
    assert run.leftovers() == []
