"""Whole runs whose weights parameter servers keep: on one machine and on several, with servers, learners and nodes that
are killed."""

from __future__ import annotations

import json
import os
import signal
from itertools import pairwise
from pathlib import Path

import pytest

from actorlearn.parameters.request_line import AGAIN_S
from tests.system.agents import Agents, lost, node_of
from tests.system.conftest import PACED, Command, Start
from tests.system.launched import Launched

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]

SERVED = ["mode=async", "learners.count=2", "simulators.count=1", "inference.count=0", "report.every_s=0.5"]
ENDLESS = [*SERVED, PACED, "total_steps=100_000_000", "checkpoint.every_steps=40"]


def goes_on(run: Launched, more: int = 60) -> None:
    """Wait until both learners have learned more, from a row that is written from now on."""
    rows, steps = len(run.rows()), run.env_steps()
    run.wait_for(lambda: len(run.rows()) > rows and run.env_steps() > steps + more, f"{more} more steps")


def kill(run: Launched, process: str) -> None:
    os.kill(run.pids()[process], signal.SIGKILL)


@pytest.mark.parametrize("servers", [1, 3])
def test_learners_of_one_machine_learn_through_parameter_servers(
    launched: Start, command: Command, servers: int
) -> None:
    run = launched("catch", *SERVED, f"parameter_servers.count={servers}", "total_steps=40_000")
    assert run.end() == 0, run.screen()
    row = run.rows()[-1]
    assert row["env_steps"] >= 40_000 and row["episode_return_mean"] > 0.0
    assert run.rows()[0]["server_wait_s"] < AGAIN_S, "no request had to be repeated"
    assert sum(share for name, share in row.items() if name.startswith("staleness_") and name[10].isdigit()) > 0.99
    assert run.leftovers() == []
    scored = command("eval", run.run_dir, "--episodes", 2)
    assert scored.returncode == 0, scored.stderr


def test_learners_of_two_nodes_learn_through_parameter_servers_of_both(launched: Start, agents: Agents) -> None:
    agents.start("n0", "n1")
    run = launched("catch", *SERVED, "parameter_servers.count=2", "total_steps=40_000", *agents.options)
    assert run.end() == 0, run.screen()
    for role in ("trainer", "parameter_server"):
        assert {node_of(run, f"{role}-{number}") for number in (0, 1)} == {"n0", "n1"}
    assert run.rows()[-1]["episode_return_mean"] > 0.0
    assert agents.end() == [0, 0] and run.leftovers() == []


def test_a_killed_parameter_server_and_learner_continue_and_the_run_is_resumed(launched: Start) -> None:
    run = launched("catch", *ENDLESS, "parameter_servers.count=2")
    run.wait_for(lambda: all(len(run.events("saved", f"trainer-{n}")) > 1 for n in (0, 1)), "checkpoints of both")
    for process in ("parameter_server-1", "trainer-0"):
        kill(run, process)
        run.wait_for_event("restarted", process, 1)
        goes_on(run)
    counted = run.rows()[-1]
    assert counted["dropped_rolled_back"] == 0, "answered gradients are in the weights"
    assert {event["process"] for event in run.events("died")} == {"parameter_server-1", "trainer-0"}
    run.ctrl_c()
    assert run.end() == 130, run.screen()
    before = run.env_steps()
    resumed = launched("resume", run_dir=run.run_dir)
    resumed.wait_for(lambda: resumed.env_steps() > before + 100, "rows of the resumed run")
    resumed.ctrl_c()
    assert resumed.end() == 130 and resumed.leftovers() == []


def test_a_parameter_server_of_a_killed_node_moves_with_the_newest_weights(launched: Start, agents: Agents) -> None:
    agents.start("n0", "n1")
    run = launched("catch", *ENDLESS, "parameter_servers.count=1", *agents.options)
    run.wait_for(lambda: all(len(run.events("saved", f"trainer-{n}")) > 1 for n in (0, 1)), "checkpoints of both")
    home = node_of(run, "parameter_server-0")
    goes_on(run)
    agents.processes[home].kill()
    run.wait_for_event("restarted", "parameter_server-0", 1)
    assert lost(run, home)() and node_of(run, "parameter_server-0") != home
    moved = next(f"trainer-{n}" for n in (0, 1) if any(e["process"] == f"trainer-{n}" for e in run.events("died")))
    run.wait_for_event("restarted", moved, 1)
    goes_on(run)
    steps = [row["env_steps"] for row in run.rows()]
    assert max(before - after for before, after in pairwise(steps)) < 200
    run.ctrl_c()
    assert run.end() == 130, run.screen()


def _dropped(run: Launched, learner: str) -> int:
    rows = (row["learners"] for row in run.rows() if "learners" in row)
    return sum(row[learner]["gradients_dropped"] for row in rows if learner in row)


@pytest.mark.parametrize("quorum", [3, 2])
def test_a_slow_learner_is_named_if_others_wait_for_it_and_its_gradients_dropped_if_not(
    launched: Start, tmp_path: Path, quorum: int
) -> None:
    environment = {"step_s": 0.02, "slow": str(tmp_path), "slower": 5.0}
    three = [*SERVED, "learners.count=3", f"learners.quorum={quorum}", "parameter_servers.count=2"]
    updates = ["env.id=benchmarks.environments:Waiting", "simulators.envs=1", "algorithm.horizon=5"]
    waiting = [*updates, f"env.kwargs={json.dumps(environment)}"]
    run = launched("catch", *three, *waiting, "total_steps=100_000_000")
    run.wait_for_event("spawned", "simulator-2")
    (tmp_path / str(run.pids()["simulator-2"])).touch()
    if quorum == 3:
        named = run.wait_for_event("warned", "parameter_server-0")
        assert named["cause"].startswith("trainer-2 is slow: the other learners waited "), named
        rows = [row for row in run.rows() if row.get("straggler_wait_s", 0.0) > 0.2]
        assert {row["straggler"] for row in rows} == {2} and not any(row["gradients_dropped"] for row in rows)
    else:
        run.wait_for(lambda: _dropped(run, "trainer-2") > 10, "dropped gradients")
        assert not run.events("warned", "parameter_server-0")
    run.ctrl_c()
    assert run.end() == 130 and run.leftovers() == []


def test_a_quorum_drops_gradients_that_come_too_late(launched: Start) -> None:
    three = [*SERVED, "learners.count=3", "learners.quorum=2", "parameter_servers.count=1"]
    run = launched("catch", *three, "total_steps=80_000")
    assert run.end() == 0, run.screen()
    rows = run.rows()
    assert any(row.get("gradients_dropped", 0) > 0 for row in rows)
    assert rows[-1]["staleness_max"] == 0 and rows[-1]["episode_return_mean"] > -0.4  # -0.6 by chance
    assert run.leftovers() == []
