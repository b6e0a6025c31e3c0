"""Runs over nodes in network namespaces: they learn, encrypt what they send, and learn no row twice after faults."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from actorlearn.parameters.checkpoint import load
from actorlearn.parameters.checkpoint_folders import directory_of
from benchmarks.namespaces import Namespaces, linked
from benchmarks.papers import dba3c_servers
from benchmarks.papers.dba3c_servers import UpdateBytes
from launch.bench import shipped
from tests.chaos import rows as rows_of
from tests.chaos import topologies
from tests.chaos.judge import counted, exactly_once, produced
from tests.chaos.rows import SIZE, Rows
from tests.chaos.witness import OPTIMIZER
from tests.newest import newest_checkpoint
from tests.system.agents import Agents, lost, node_of
from tests.system.conftest import Command, Start
from tests.system.launched import Launched
from tests.system.namespaces import namespaces
from tests.system.ways import CATCH, LEARNS
from tests.waiting import within

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(1200)]

NODES = ["node-1", "node-2", "node-3", "node-4"]
TRAINERS = [f"trainer-{learner}" for learner in range(4)]
MODES = {
    "sync": ["mode=sync"],
    "gossip": ["mode=gossip", "gossip.graph=ring", "gossip.max_staleness=4"],
    "async": ["mode=async", "parameter_servers.count=2"],
}
"""Mode -> words of a topology."""
FOUR = ["learners.count=4", "simulators.count=1", "inference.count=0", "trainer.threads=1", "simulators.pin=false"]


@pytest.fixture
def network() -> Iterator[Namespaces]:
    with namespaces(*NODES) as made:
        yield made


@pytest.fixture
def agents(environment: dict[str, str], tmp_path: Path, command: Command, network: Namespaces) -> Iterator[Agents]:
    with Agents(tmp_path, environment, command, NODES, network) as made:
        yield made


def everywhere(run: Launched) -> None:
    """Check that every learner is on a node of its own, and has rows."""
    assert {node_of(run, trainer) for trainer in TRAINERS} == set(NODES)
    assert run.rows()[-1]["learners"].keys() == set(TRAINERS)


@pytest.mark.parametrize("mode", MODES)
def test_catch_is_learned_on_four_nodes(launched: Start, network: Namespaces, agents: Agents, mode: str) -> None:
    agents.start(*NODES)
    words = [*CATCH, *LEARNS["a2c"], *MODES[mode], *FOUR, *agents.options, "nodes.lease_s=20"]
    run = launched("catch", *words, by=network.enter("head"))
    run.wait_for_score(0.5)  # random actions score -0.6
    everywhere(run)
    run.ctrl_c()
    assert run.end() == 130, run.screen()
    assert agents.end() == [0] * 4 and run.leftovers() == []
    assert run.events("died") == run.events("lost") == []


@pytest.mark.parametrize("mode", MODES)
def test_pong_is_played_on_four_nodes(launched: Start, network: Namespaces, agents: Agents, mode: str) -> None:
    agents.start(*NODES)
    words = [*MODES[mode], *FOUR, "total_steps=6000", "simulators.envs=4", *agents.options, "nodes.lease_s=20"]
    run = launched("pong", *words, by=network.enter("head"))
    assert run.end(600) == 0, run.screen()
    everywhere(run)
    assert agents.end() == [0] * 4 and run.leftovers() == []
    assert run.events("died") == run.events("lost") == []
    if mode == "sync":
        saved = [load(Path(run.events("saved", trainer)[-1]["path"])).section("weights") for trainer in TRAINERS]
        assert all(torch.equal(saved[0][name], other[name]) for other in saved[1:] for name in saved[0])


ROUND_TRIP_S = 0.4


@pytest.mark.parametrize(
    ("words", "round_trips"),
    [
        ([], 1),
        (["model.normalize_observation=true"], 2),
        (["algorithm.name=ppo", "algorithm.epochs=2", "algorithm.horizon=16"], 2),
    ],
    ids=["one step", "one step, normalised", "two steps"],
)
def test_an_update_in_sync_takes_the_expected_number_of_round_trips(
    launched: Start, environment: dict[str, str], tmp_path: Path, command: Command, words: list[str], round_trips: int
) -> None:
    """A network so small that a gradient is in the first packets that TCP sends after a pause."""
    small = ["learners.count=2", "model.hidden_sizes=[8]", "algorithm.minibatches=1"]
    two = [*FOUR, *small, *words, "total_steps=3200", "report.every_s=1"]
    with (
        namespaces(*NODES[:2], delay_s=ROUND_TRIP_S / 2) as network,
        Agents(tmp_path, environment, command, NODES[:2], network) as agents,
    ):
        agents.start(*NODES[:2])
        run = launched("catch", "mode=sync", *two, *agents.options, "nodes.lease_s=20", by=network.enter("head"))
        assert run.end(600) == 0, run.screen()
        assert agents.end() == [0] * 2 and run.leftovers() == []
    first, *_, last = [row for row in run.rows() if row["updates"] > 3]
    made = last["updates"] - first["updates"]
    assert made > 10
    each_s = (last["time_s"] - first["time_s"]) / made
    print(f"{each_s:.3f} s an update")
    rest_s = each_s - round_trips * ROUND_TRIP_S
    assert 0.0 <= rest_s < 0.6, f"{each_s:.3f} s an update"  # on a busy machine the rollout takes most of it


CAPTURE = """
import socket, sys
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3))
wire.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)  # SO_RCVBUFFORCE, asm-generic/socket.h
print("listens", file=sys.stderr, flush=True)
while True:
    sys.stdout.buffer.write(wire.recv(1 << 16))
"""
"""Program that writes every frame that passes on its machine."""


def test_nothing_of_a_run_can_be_read_on_the_wire(
    launched: Start, network: Namespaces, agents: Agents, tmp_path: Path
) -> None:
    with (tmp_path / "wire").open("wb") as wire:
        watch = [*network.enter("head"), sys.executable, "-c", CAPTURE]
        with subprocess.Popen(watch, stdout=wire, stderr=subprocess.PIPE) as capture:
            assert capture.stderr
            assert capture.stderr.readline() == b"listens\n"
            agents.start(*NODES)
            words = [*MODES["gossip"], *FOUR, "total_steps=3000", *agents.options, "nodes.lease_s=20"]
            run = launched("catch", *words, by=network.enter("head"))
            assert run.end() == 0, run.screen()
            assert agents.end() == [0] * 4 and run.leftovers() == []
            capture.kill()
    seen = (tmp_path / "wire").read_bytes()
    assert seen.count(b"CURVE") >= 2 * len(NODES), "the greetings of ZMTP are to be seen"
    assert len(seen) > run.rows()[-1]["bytes_sent"] > 0
    ours = [run.meta()["run_id"], *NODES, "trainer", "learner", "simulator", "actorlearn", "total_steps"]
    types = ["Welcome", "HeartbeatAck", "Prepare", "Start", "Spawned", "Received", "Report", "LogChunk"]
    assert [word for word in (*ours, *types) if word.encode() in seen] == []


@pytest.mark.parametrize(("servers", "shards"), [(1, 10), (2, 10), (4, 8)])
def test_bytes_between_learners_and_parameter_servers_are_as_computed(
    network: Namespaces, sockets_root: Path, monkeypatch: pytest.MonkeyPatch, servers: int, shards: int
) -> None:
    """332,282 parameters of four learners in step; every report of each learner is compared."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(sockets_root))
    sent = 4 * 332_282 + shards * (88 + 112 + 8) + servers * (88 + 112)
    each = UpdateBytes(sent, 4 * 332_282 + shards * (88 + 4 * 112))
    with linked(shipped(dba3c_servers.TOPOLOGY), dba3c_servers.keys(servers), network) as run:
        measured = dba3c_servers.measure(run, each, 5.0, network)
    assert measured.added == pytest.approx(0.05, abs=0.25), "links are read a moment after a report"


# Faults ---------------------------------------------------------------------------------------------------------------

LEASE_S = 20.0
LEDGER = [
    *(*FOUR, *OPTIMIZER, *topologies.ALGORITHMS["a2c"], "simulators.envs=2", "simulators.groups=1"),
    *(
        "simulators.decorrelation_steps=0",
        "total_steps=100_000_000",
        "checkpoint.every_steps=400",
        "report.every_s=0.5",
    ),
    *("supervision.restart_delay_s=0", f"nodes.lease_s={LEASE_S:g}"),
]
"""Topology of a run whose weights and environment say which rows were learned from."""
PACE_S = 0.05


@pytest.fixture
def rows(environment: dict[str, str], tmp_path: Path) -> Rows:
    """Rows that all processes of the test's run record."""
    environment[rows_of.VARIABLE], environment[rows_of.PACE_VARIABLE] = str(tmp_path / "rows"), str(PACE_S)
    (tmp_path / "ledger.yaml").write_text(topologies.text())
    return Rows.make(tmp_path / "rows")


def goes_on(run: Launched, steps: int = 100) -> None:
    """Wait until the run has learned from more steps, with all learners."""
    before = len(run.rows())
    first = run.env_steps()
    run.wait_for(
        lambda: (
            run.env_steps() > first + steps
            and all(len(row.get("learners", {})) == 4 for row in run.rows()[before:][-1:])
            and len(run.rows()) > before + 2
        ),
        "rows of all learners",
    )


def incarnations(rows: Rows, simulator: str) -> list[tuple[int, int]]:
    """Times at which each incarnation of a simulator made its first and last row, in order."""
    found = []
    for number, (_, name, _) in rows.processes().items():
        if name.rpartition(".")[0] == simulator and len(
            made := rows.made_ns[: SIZE - 1][rows.made_by[: SIZE - 1] == number]
        ):
            found.append((int(made[made > 0].min()), int(made.max())))
    return sorted(found)


def violations(run: Launched, rows: Rows, mode: str) -> list[str]:
    """Return violations: rows that were learned from twice, or not counted."""
    saved = [newest_checkpoint(directory_of(run.run_dir / "checkpoints", learner)) for learner in range(4)]
    tallies = [-one.section("weights")["tally"].numpy() for one in saved]
    tally = np.max(tallies, axis=0)
    tally[SIZE - 1] = 0
    used = int(run.summary()["steps_used"])
    assert used > 100
    found = exactly_once(rows, produced(rows), tally, used, mode, topologies.EPOCHS["a2c"])
    if mode == "sync":
        assert all(np.array_equal(tallies[0], other) for other in tallies)
        found += counted(tally, used)
    return found


@pytest.mark.parametrize("mode", MODES)
def test_no_row_is_learned_twice_through_faults_of_links_nodes_and_the_head(
    launched: Start, network: Namespaces, agents: Agents, rows: Rows, tmp_path: Path, mode: str
) -> None:
    agents.start(*NODES)
    words = [*MODES[mode], *agents.options, *LEDGER]
    run = launched(str(tmp_path / "ledger"), *words, by=network.enter("head"))
    for trainer in TRAINERS:
        run.wait_for_event("ready", trainer)
    goes_on(run)
    everywhere(run)

    for seconds, trainer in ((1.0, "trainer-2"), (10.0, "trainer-0")):  # which has the hub in mode sync
        network.cut(node_of(run, trainer))
        time.sleep(seconds)
        network.mend(node_of(run, trainer))
        goes_on(run)
    assert run.events("lost") == run.events("died") == []
    spawned = [(event["process"], event["incarnation"]) for event in run.events("spawned")]
    assert len(set(spawned)) == len(spawned), "a process was started twice"

    away = node_of(run, "trainer-3")
    cut_s = time.monotonic()
    network.cut(away)
    run.wait_for(lost(run, away), "loss of the node that is cut off")
    assert LEASE_S < time.monotonic() - cut_s < 2 * LEASE_S
    run.wait_for_event("restarted", "trainer-3", 1)
    assert node_of(run, "trainer-3") != away
    time.sleep(max(0.0, 60.0 - (time.monotonic() - cut_s)))
    network.mend(away)
    run.wait_for(lambda: len(run.events("joined")) == 5, "the node that was cut off")
    goes_on(run)
    assert all(a[1] < b[0] for a, b in itertools.pairwise(incarnations(rows, "simulator-3"))), (
        "it ran on two nodes at once"
    )

    asleep = node_of(run, "trainer-1")
    network.signal(asleep, signal.SIGSTOP)
    run.wait_for_event("restarted", "trainer-1", 1)
    assert lost(run, asleep)() and node_of(run, "trainer-1") != asleep
    network.signal(asleep, signal.SIGCONT)
    run.wait_for(lambda: len(run.events("joined")) == 6, "the node that was asleep")
    goes_on(run)

    dead = node_of(run, "trainer-2")
    agents.processes[dead].kill()
    run.wait_for_event("restarted", "trainer-2", 1)
    assert lost(run, dead)() and node_of(run, "trainer-2") != dead
    agents.start(dead)
    run.wait_for(lambda: len(run.events("joined")) == 7, "the dead node's successor")
    goes_on(run)
    assert [event["node"] for event in run.events("lost")] == [away, asleep, dead]

    run.kill()
    assert within(
        3 * LEASE_S, lambda: all("joins again" in " ".join(agents.said(name).splitlines()[-2:]) for name in NODES)
    )
    resumed = launched("resume", "--keys", str(agents.keys), run_dir=run.run_dir, by=network.enter("head"))
    resumed.wait_for(lambda: len({event["node"] for event in resumed.new_events("joined")}) == 4, "all nodes")
    goes_on(resumed)
    resumed.ctrl_c()
    assert resumed.end() == 130, resumed.screen()
    assert agents.end() == [0] * 4 and resumed.leftovers() == []
    assert violations(resumed, rows, mode) == []
