"""Made = used + dropped + in flight at the end of a run, whichever processes live then, by counts of environments."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.agents import Agents, node_of
from tests.system.conftest import Command, Start
from tests.system.launched import Launched

pytestmark = [pytest.mark.system, pytest.mark.timeout(500)]

COUNTED = "env.id=tests.system.environments:Counted"
LONG = [COUNTED, "total_steps=1_000_000", "inference.count=1", "algorithm.horizon=5", "checkpoint.exact=false"]


def made(run: Launched) -> int:
    """Steps that environments of simulators have made in this life."""
    pids = [event["pid"] for event in run.new_events("spawned") if event["process"].startswith("simulator")]
    files = [run.paced.with_name(f"{run.paced.name}.steps.{pid}") for pid in pids]
    return sum(file.stat().st_size for file in files if file.exists())


def ended(run: Launched, before: int = 0) -> dict[str, int]:
    """The account of a run that was stopped; it has all steps, of which ``before`` are of earlier lives."""
    assert run.end() == 130, run.screen()
    assert run.leftovers() == []
    summary = run.summary()
    assert summary["status"] == "stopped"
    account = {name: summary[f"steps_{name}"] for name in ("made", "used", "dropped", "in_flight")}
    assert account["made"] == account["used"] + account["dropped"] + account["in_flight"] == before + made(run)
    dropped = {name: number for name, number in summary.items() if name.startswith("dropped_")}
    assert sum(dropped.values()) == account["dropped"]
    assert account["dropped"] == summary["dropped_rolled_back"] or before
    return account


def trainers(run: Launched) -> list[str]:
    return sorted(name for name in run.pids() if name.startswith("trainer"))


def kill_trainers(run: Launched, steps: int = 200) -> list[str]:
    """Kill all trainers after these steps; returns their names when the run has seen that they are dead."""
    run.wait_for_steps(steps)
    names = trainers(run)
    for name in names:
        os.kill(run.pids()[name], signal.SIGKILL)
    for name in names:
        run.wait_for_event("died", name)
    return names


def start(launched: Start, mode: str, learners: int, *more: str) -> Launched:
    return launched("catch", *LONG, f"mode={mode}", f"learners.count={learners}", *more)


@pytest.mark.parametrize("mode", ["sync", "async", "gossip"])
def test_a_learner_that_a_resume_adds_counts_only_its_own_steps_and_games(launched: Start, mode: str) -> None:
    run = start(launched, mode, 1)
    run.wait_for_steps(200)
    run.ctrl_c()
    ended(run)
    saved = run.checkpoint().state
    before = saved["account"]["used"] + sum(saved["account"]["dropped"].values()) + saved["in_flight"]
    resumed = launched("resume", "learners.count=2", run_dir=run.run_dir)
    resumed.wait_for_steps(before + 200)
    resumed.ctrl_c()
    account = ended(resumed, before)
    assert account["used"] == resumed.summary()["env_steps"]
    assert resumed.summary()["dropped_rolled_back"] == 0
    games = resumed.rows()[-1]["episodes"] - saved["episodes_finished"]
    assert games <= made(resumed) / 9  # a game of Catch has 9 steps


NIGHTLY = [
    pytest.param(*case, marks=pytest.mark.nightly) for case in (("sync", 1), ("gossip", 2), ("async", 1), ("async", 2))
]


@pytest.mark.parametrize(("mode", "learners"), [pytest.param("sync", 2, marks=pytest.mark.smoke), *NIGHTLY])
def test_all_steps_are_accounted_for_where_all_trainers_are_dead_at_the_end(
    launched: Start, mode: str, learners: int
) -> None:
    run = start(launched, mode, learners, "supervision.restart_delay_s=5")
    kill_trainers(run)
    run.ctrl_c()
    account = ended(run)
    if mode == "async":  # a trainer has come back, and has saved the store
        assert account["dropped"] == 0 < account["used"]
        assert run.checkpoint().state["env_steps"] == account["used"]
    else:
        assert account["used"] == 0 < account["dropped"]
        said = f"{account['dropped']:,} steps that were learned since the checkpoint"
        assert said in run.screen() or mode == "gossip"
        assert " are lost" in run.screen()


@pytest.mark.nightly
@pytest.mark.parametrize(("mode", "learners"), [("sync", 1), ("sync", 2), ("async", 2), ("gossip", 2)])
def test_all_steps_are_accounted_for_where_a_trainer_is_starting_at_the_end(
    launched: Start, mode: str, learners: int
) -> None:
    run = start(launched, mode, learners, "supervision.restart_delay_s=0.01")
    names = kill_trainers(run)
    for name in names:
        run.wait_for(lambda name=name: [e for e in run.new_events("spawned") if e["process"] == name][1:], "restart")
    run.ctrl_c()
    account = ended(run)
    assert (account["used"] > 0) == (mode == "async")


@pytest.mark.nightly
@pytest.mark.parametrize("mode", ["sync", "async", "gossip"])
def test_all_steps_are_accounted_for_where_one_trainer_of_two_is_dead_at_the_end(launched: Start, mode: str) -> None:
    run = start(launched, mode, 2, "supervision.restart_delay_s=5")
    run.wait_for_steps(200)
    os.kill(run.pids()["trainer-1"], signal.SIGKILL)
    run.wait_for_event("died", "trainer-1")
    run.ctrl_c()
    account = ended(run)
    assert account["used"] > 0 and (account["dropped"] > 0) == (mode == "gossip")


@pytest.mark.nightly
@pytest.mark.parametrize("exact", ["false", "true"])
@pytest.mark.parametrize("dead", [False, True])
def test_a_resumed_run_accounts_for_the_steps_since_its_checkpoint(launched: Start, exact: str, dead: bool) -> None:
    """``dead``: its trainers are killed in the second life too."""
    run = start(launched, "sync", 2, f"checkpoint.exact={exact}", "checkpoint.every_steps=100")
    kill_trainers(run)
    run.ctrl_c()
    ended(run)
    resumed = launched("resume", "supervision.restart_delay_s=5", run_dir=run.run_dir)
    resumed.wait_for(lambda: resumed.meta().get("resumed_at"), "resume")
    before = resumed.meta()["resumed_at"]  # in sync all that were made by then had been learned from
    if dead:
        kill_trainers(resumed, before + 200)
    else:
        resumed.wait_for_steps(before + 200)
    resumed.ctrl_c()
    ended(resumed, before)


# Several nodes --------------------------------------------------------------------------------------------------------

NODES = ["n0", "n1"]
OVER_NODES = ["learners.count=2", "simulators.count=1", "algorithm.horizon=5", "checkpoint.exact=false", COUNTED]
ROLLOUT = 4 * 5
"""Steps of a rollout of each learner."""
EXCHANGES = {
    "sync": ["mode=sync"],
    "async": ["mode=async", "parameter_servers.count=1"],
    "gossip": ["mode=gossip", "gossip.graph=ring"],
}


@pytest.fixture
def agents(environment: dict[str, str], tmp_path: Path, command: Command) -> Iterator[Agents]:
    with Agents(tmp_path, environment, command, NODES) as made:
        made.start(*NODES)
        yield made


@pytest.mark.parametrize("mode", ["sync", pytest.param("async", marks=pytest.mark.smoke), "gossip"])
def test_all_steps_of_two_nodes_are_accounted_for(launched: Start, agents: Agents, mode: str) -> None:
    short = ["total_steps=1500", "checkpoint.every_steps=500"]
    run = launched("catch", *OVER_NODES, *EXCHANGES[mode], *short, *agents.options, "nodes.lease_s=20")
    assert run.end(400) == 0, run.screen()
    assert {node_of(run, f"trainer-{learner}") for learner in (0, 1)} == set(NODES)
    summary = run.summary()
    assert summary["status"] == "finished" and agents.end() == [0, 0]
    assert made(run) == sum(summary[f"steps_{name}"] for name in ("used", "dropped", "in_flight"))
    assert made(run) == summary["steps_made"]
    assert summary["env_steps"] == summary["frames"] == summary["steps_used"] == run.rows()[-1]["steps_used"]
    assert run.rows()[-1]["env_steps"] == summary["env_steps"]
    assert 1500 <= summary["env_steps"] <= 1500 + 2 * ROLLOUT


@pytest.mark.parametrize("mode", EXCHANGES)
def test_a_run_says_that_its_steps_are_unknown_after_a_node_was_killed(
    launched: Start, agents: Agents, mode: str
) -> None:
    long = ["total_steps=1_000_000", "checkpoint.every_steps=100"]
    run = launched("catch", *OVER_NODES, *EXCHANGES[mode], *long, *agents.options, "nodes.lease_s=20")
    run.wait_for_steps(200)
    killed = node_of(run, "trainer-1")
    agents.processes[killed].kill()
    run.wait_for_event("restarted", "trainer-1", 1)
    run.wait_for_steps(run.env_steps() + 100)
    run.ctrl_c()
    assert run.end() == 130, run.screen()
    summary = run.summary()
    assert {summary[f"steps_{name}"] for name in ("made", "used", "dropped", "in_flight")} == {None}
    assert f"the steps of the run are not known, because node {killed} was lost" in run.screen()
    assert summary["env_steps"] > 300
