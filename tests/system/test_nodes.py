"""Whole runs over several nodes on this machine: files at the head, and nodes that are lost, return or are refused."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import time
from pathlib import Path

import pytest
import torch

import actorlearn
from actorlearn.address import Tcp
from actorlearn.parameters.checkpoint import load
from actorlearn.parameters.checkpoint_folders import directory_of, folders, steps_of
from actorlearn.parameters.chosen_checkpoints import choose_of_all, read_best
from tests.runaways import lives
from tests.system.agents import Agents, lost, node_of
from tests.system.conftest import APART, CONFIGS, PACED, Command, Start
from tests.waiting import within
from tests.wire.doors import Relay

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]


def test_checkpoints_logs_and_metrics_of_a_run_over_two_nodes_are_at_its_head(
    launched: Start, agents: Agents, command: Command
) -> None:
    agents.start("n0", "n1")
    run = launched("catch", *APART, "total_steps=4000", *agents.options)
    assert run.end() == 0, run.screen()
    assert agents.end() == [0, 0]
    assert {node_of(run, f"trainer-{learner}") for learner in (0, 1)} == {"n0", "n1"}
    assert run.rows()[-1]["learners"].keys() == {"trainer-0", "trainer-1"}
    for learner in (0, 1):
        saved = run.events("saved", f"trainer-{learner}")[-1]["path"]
        assert Path(saved).is_relative_to(run.run_dir) and Path(saved).is_dir()
        assert "---" in (run.run_dir / "logs" / f"trainer-{learner}.log").read_text()
    assert run.leftovers() == []
    scored = command("eval", run.run_dir, "--episodes", 2)
    assert scored.returncode == 0, scored.stderr
    exported = command("export", run.run_dir, "-o", "out", "--weights", "--learner", 1, "--episodes", 2)
    assert exported.returncode == 0, exported.stderr


def test_learners_that_gossip_mix_their_weights_from_node_to_node(launched: Start, agents: Agents) -> None:
    agents.start("n0", "n1")
    graph = ["gossip.graph=ring", "gossip.max_staleness=3"]
    run = launched("catch", *APART, *graph, "total_steps=8000", "report.every_s=1", *agents.options)
    assert run.end() == 0, run.screen()
    assert {node_of(run, f"trainer-{learner}") for learner in (0, 1)} == {"n0", "n1"}
    shares = {name: own.get("mixed_share", 0.0) for row in run.rows() for name, own in row.get("learners", {}).items()}
    assert min(shares.values()) > 0.0, run.rows()
    assert run.rows()[-1]["env_steps"] < 12_000  # each counts what both have learned from
    assert run.leftovers() == []


@pytest.mark.smoke
def test_learners_in_step_on_two_nodes_have_the_same_weights(launched: Start, agents: Agents) -> None:
    agents.start("n0", "n1")
    small = ["learners.count=2", "simulators.count=1", "inference.count=0", "checkpoint.every_steps=1000"]
    run = launched("catch", "mode=sync", *small, "total_steps=3000", "report.every_s=1", *agents.options)
    assert run.end() == 0, run.screen()
    assert {node_of(run, f"trainer-{learner}") for learner in (0, 1)} == {"n0", "n1"}
    saved = [Path(run.events("saved", f"trainer-{learner}")[-1]["path"]) for learner in (0, 1)]
    one, other = (load(path).section("weights") for path in saved)
    assert one and all(torch.equal(one[name], other[name]) for name in one)
    assert run.leftovers() == []


@pytest.mark.parametrize("together", [APART, ["mode=sync", *APART[2:]]], ids=["apart", "in step"])
def test_the_head_keeps_the_best_checkpoint_and_the_newest_ones(
    launched: Start, agents: Agents, command: Command, together: list[str]
) -> None:
    agents.start("n0", "n1")
    small = ["env.id=tests.system.environments:Fades", "total_steps=3000", "report.every_s=0.2"]
    kept = ["checkpoint.every_steps=200", "checkpoint.keep=2"]
    run = launched("catch", *together, *small, *kept, *agents.options)
    assert run.end() == 0, run.screen()
    assert agents.end() == [0, 0]
    assert {node_of(run, f"trainer-{learner}") for learner in (0, 1)} == {"n0", "n1"}
    root = run.run_dir / "checkpoints"
    best, in_step = read_best(root), "mode=sync" in together
    assert best is not None and best.by == "training"
    for learner in (0, 1):
        saved = [event["env_steps"] for event in run.events("saved", f"trainer-{learner}")]
        there = sorted(map(steps_of, folders(directory_of(root, learner))))
        scored = min(steps for steps in saved if steps >= best.env_steps)
        assert {scored, saved[-1]} <= set(there) <= set(saved) and len(there) <= 3 < 6 < len(saved), (saved, there)
        assert scored < there[-1]
        assert actorlearn.load_policy(run.run_dir, learner=learner, at="best").env_steps == scored
    chosen = {learner: steps_of(path) for learner, path in choose_of_all(root, "best", in_step).items()}
    assert chosen[0] == best.env_steps
    told = command("eval", run.run_dir, "--at", "best", "--episodes", 2, "--json")
    assert json.loads(told.stdout)["env_steps"] == max(chosen.values()), told.stderr

    agents.start("n0", "n1")
    resumed = launched("resume", "--keys", str(agents.keys), "--at", "best", run_dir=run.run_dir)
    assert resumed.end() == 0, resumed.screen()
    assert agents.end() == [0, 0] and resumed.leftovers() == []
    for learner in (0, 1):
        saved = [
            event["env_steps"] for event in resumed.new_events("saved") if event["process"] == f"trainer-{learner}"
        ]
        assert chosen[learner] <= saved[0] < chosen[learner] + 600, saved
        there = {steps_of(folder) for folder in folders(directory_of(root, learner))}
        assert saved[-1] in there and len(there) <= 3, there
    best = read_best(root)  # its environments begin with their first game again, so it may be a later one
    assert best is not None and actorlearn.load_policy(run.run_dir, at="best").env_steps == best.env_steps


def test_learners_of_a_killed_or_stopped_node_move_and_a_stopped_node_joins_again(
    launched: Start, agents: Agents
) -> None:
    agents.start("n0", "n1")
    run = launched("catch", *APART, PACED, "total_steps=100_000_000", "checkpoint.every_steps=40", *agents.options)
    run.wait_for(lambda: len(run.events("saved", "trainer-1")) > 1, "checkpoint of trainer-1")
    at = {name: node_of(run, name) for name in ("trainer-0", "trainer-1")}
    agents.processes[at["trainer-1"]].kill()
    run.wait_for_event("restarted", "trainer-1", 1)
    assert lost(run, at["trainer-1"])() and node_of(run, "trainer-1") == at["trainer-0"]
    assert run.events("died", "trainer-0") == []
    agents.start(at["trainer-1"])
    run.wait_for(lambda: len(run.events("joined")) == 3, "the killed node's successor")
    stopped = agents.processes[at["trainer-0"]]
    before = run.pids()
    os.kill(stopped.pid, signal.SIGSTOP)
    run.wait_for(lost(run, at["trainer-0"]), "loss of the stopped node")
    assert not lives(before["trainer-0"]) and not lives(before["simulator-0"]), "they ran on without their agent"
    run.wait_for_event("restarted", "trainer-0", 1)
    assert node_of(run, "trainer-0") == at["trainer-1"]
    os.kill(stopped.pid, signal.SIGCONT)
    run.wait_for(lambda: len(run.events("joined")) == 4, "the stopped node")
    assert "this node ends its processes and joins again" in agents.said(at["trainer-0"])
    run.ctrl_c()
    assert run.end() == 130, run.screen()
    assert agents.end() == [0, 0] and run.leftovers() == []


def test_a_learner_moves_back_to_its_node_when_the_node_joins_again(launched: Start, agents: Agents) -> None:
    agents.start("n0", "n1")
    words = [*APART, PACED, "total_steps=100_000_000", "checkpoint.every_steps=40", *agents.options, "nodes.lease_s=20"]
    run = launched("catch", *words)
    run.wait_for(lambda: len(run.events("saved", "trainer-1")) > 1, "checkpoint of trainer-1")
    away = node_of(run, "trainer-1")
    agents.processes[away].kill()
    run.wait_for_event("restarted", "trainer-1", 1)
    deaths = len(run.events("died"))
    agents.start(away)
    run.wait_for_event("restarted", "trainer-1", 2)
    assert node_of(run, "trainer-1") == node_of(run, "simulator-1") == away
    assert len(run.events("died")) == deaths and len(run.events("moving")) == 1
    said = [event["cause"] for event in run.events("placed")][2:]
    other = node_of(run, "trainer-0")
    assert said == [
        f"learner 1 on {other}, because node {away} was lost",
        f"learner 1 on {away}, moved from node {other}",
    ]
    assert said[1] in run.screen()
    steps = max(event["env_steps"] for event in run.events("saved", "trainer-1"))
    run.wait_for(lambda: run.events("saved", "trainer-1")[-1]["env_steps"] > steps, "a newer checkpoint")
    run.ctrl_c()
    assert run.end() == 130, run.screen()
    assert agents.end() == [0, 0] and run.leftovers() == []


def test_nodes_join_again_after_their_head_was_killed_and_resumed(launched: Start, agents: Agents) -> None:
    agents.start("n0", "n1")
    run = launched("catch", *APART, PACED, "total_steps=100_000_000", "checkpoint.every_steps=40", *agents.options)
    run.wait_for(lambda: all(len(run.events("saved", f"trainer-{n}")) > 1 for n in (0, 1)), "checkpoints of both")
    run.kill()
    assert within(60, lambda: all("joins again" in agents.said(name) for name in ("n0", "n1")))
    resumed = launched("resume", "--keys", str(agents.keys), run_dir=run.run_dir)
    resumed.wait_for(lambda: resumed.new_events("ready")[1:], "both trainers")
    assert {event["node"] for event in resumed.new_events("joined")} == {"n0", "n1"}
    assert resumed.meta()["resumed_at"] > 0
    resumed.ctrl_c()
    assert resumed.end() == 130, resumed.screen()
    assert agents.end() == [0, 0] and resumed.leftovers() == []


def test_a_short_cut_of_a_link_costs_nothing_and_a_long_one_loses_the_node(launched: Start, agents: Agents) -> None:
    with Relay(Tcp.read(agents.address)) as relay:
        run = launched("catch", *APART, PACED, "total_steps=100_000_000", *agents.options, "nodes.lease_s=6")
        run.wait_for(lambda: run.events("awaiting"), "port of the head")
        agents.start("n0")
        agents.start("n1", at=str(relay.address))
        for name in ("trainer-0", "trainer-1"):
            run.wait_for_event("ready", name)
        cut = "trainer-0" if node_of(run, "trainer-0") == "n1" else "trainer-1"
        run.wait_for_steps(20)
        relay.passes.clear()
        time.sleep(2.5)  # of 6 s
        relay.cut()
        relay.passes.set()
        rows = len(run.rows())
        run.wait_for(lambda: len(run.rows()) > rows + 20, "rows after the cut")
        assert run.events("lost") == run.events("died") == []
        spawned = [(event["process"], event["incarnation"]) for event in run.events("spawned")]
        assert len(set(spawned)) == len(spawned) == 4, "a process was started twice"
        relay.passes.clear()
        run.wait_for_event("restarted", cut, 1)
        assert lost(run, "n1")() and node_of(run, cut) == "n0"
        relay.passes.set()
        run.wait_for(lambda: len(run.events("joined")) == 3, "the node that was cut off")
        run.ctrl_c()
        assert run.end() == 130, run.screen()
        assert agents.end() == [0, 0] and run.leftovers() == []


def test_a_node_joins_a_living_run_gets_an_attached_learner_and_leaves(
    launched: Start, agents: Agents, command: Command
) -> None:
    agents.start("n0")
    run = launched(
        "catch", *APART, PACED, "total_steps=100_000_000", *agents.options, "learners.count=1", "nodes.count=1"
    )
    run.wait_for_event("ready", "trainer-0")
    agents.start("n1")
    run.wait_for(lambda: len(run.events("joined")) == 2, "the second node")
    attached = command("attach", run.run_dir, "--learners", 1)
    assert attached.returncode == 0, attached.stderr
    assert node_of(run, "trainer-1") == "n1"
    status = command("top", run.run_dir, "--once", "--json")
    assert '"node": "n1"' in status.stdout or '"node":"n1"' in status.stdout
    run.wait_for_steps(run.env_steps() + 50)
    saved = len(run.events("saved", "trainer-1"))
    agents.processes["n1"].send_signal(signal.SIGTERM)
    run.wait_for_event("restarted", "trainer-1", 1)
    assert [event["node"] for event in run.events("leaving")] == ["n1"]
    assert run.events("saved", "trainer-1")[saved]["time_s"] < run.events("lost")[-1]["time_s"]
    assert "its agent was stopped" in run.events("lost")[-1]["cause"]
    assert node_of(run, "trainer-1") == "n0"
    run.ctrl_c()
    assert run.end() == 130, run.screen()
    assert agents.end() == [0, 130] and run.leftovers() == []


def test_nodes_that_may_not_join_are_refused_with_a_reason_and_disturb_no_other(
    launched: Start, agents: Agents, command: Command, tmp_path: Path
) -> None:
    run = launched("catch", *APART, PACED, "total_steps=100_000_000", *agents.options, "nodes.lease_s=30")
    run.wait_for(lambda: run.events("awaiting"), "port of the head")

    def refused(said: str) -> None:
        run.wait_for(
            lambda: any(said in event["cause"] for event in run.events("refused")), f"refusal that says: {said}"
        )

    with Relay(Tcp.read(agents.address)) as relay:
        agents.start("n0")
        agents.start("n1", at=str(relay.address))
        for name in ("trainer-0", "trainer-1"):
            run.wait_for_event("ready", name)
        head = Tcp.read(agents.address)
        with socket.create_connection((head.host, head.port)) as keyless:  # ZMTP 3.1's greeting, of the mechanism NULL
            keyless.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32))
            refused("used no CURVE keys")
        with socket.create_connection((head.host, head.port)) as replayed:
            replayed.sendall(bytes(relay.recorded))
            refused("it ended before it sent a key")
        for folder, node in (("other", "other"), ("unknown", "late")):
            made = command("keys", "new", "--node", node, tmp_path / folder)
            assert made.returncode == 0, made.stderr
        agents.start("other", key=tmp_path / "other" / "other.key")
        refused("used the public key of another head")
        late, own = tmp_path / "unknown" / "late.key", (agents.keys / "n0.key").read_text()
        late.write_text(late.read_text().partition("head ")[0] + "head " + own.partition("head ")[2])
        agents.start("late", key=late)
        refused("is not on the list")
        agents.start("second", key=agents.keys / "n0.key")
        refused("a second peer connected as n0, which is connected already")
        shutil.copy(tmp_path / "unknown" / "nodes" / "late.pub", agents.keys / "nodes")
        run.wait_for(lambda: [event["node"] for event in run.events("joined")][2:] == ["late"], "the key listed late")
        run.wait_for_steps(run.env_steps() + 50)
        assert run.events("lost") == run.events("died") == []
        assert {event["node"] for event in run.events("joined")} == {"n0", "n1", "late"}
        assert "its key is not the one in our key file" in agents.said("other")
        assert "does not accept our key: the key is not on its list" in agents.said("late")
        assert "a second peer connected as n0" in agents.said("second")
        run.ctrl_c()
        assert run.end() == 130, run.screen()
        assert [agents.processes[name].wait(60) for name in ("n0", "n1", "late")] == [0] * 3
    assert run.leftovers() == []


def test_a_run_without_keys_may_not_listen_on_the_network(command: Command, tmp_path: Path) -> None:
    words = ("run", CONFIGS / "catch.yaml", "nodes.listen=0.0.0.0:5555", "--run-dir", tmp_path / "run")
    refused = command(*words)
    assert refused.returncode == 2 and "so the head needs keys" in refused.stderr
    assert not (tmp_path / "run").exists()
