"""A head and its agents: nodes join and are lost, processes are placed, and events arrive exactly once."""

from __future__ import annotations

import errno
import itertools
import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from actorlearn import __version__
from actorlearn.memory.account import LearnerSteps, StepCounts
from actorlearn.parameters.checkpoint_folders import directory_of, find_common, folders, read_manifest, seal, steps_of
from actorlearn.wire.channel import Dealer
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import LIMIT_BYTES, Evaluated, Finished, Left, Listens, Message, Saved, encode
from launch.nodes import agent as agents
from launch.nodes.copies import SET_FILE, Outgoing, name_set
from launch.nodes.head import MARGIN, PREPARE_S
from launch.nodes.messages import CHUNK_BYTES, CopyDone, DropLearner, End, FileChunk, Join, Prepare
from launch.nodes.node import ProtocolWarning
from launch.nodes.outbox import MOST_AHEAD
from launch.nodes.workspace import NodeWorkspace
from launch.plan.nodes import need_of
from launch.plan.plan import Start
from launch.supervision import events as ev
from tests.launch.nodes.lines import Cluster, cluster
from tests.launch.runtime.no_processes import NoProcesses

TRAINER = {learner: ProcessId("trainer", learner, learner) for learner in (0, 1)}


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A run of two learners that has begun on two nodes."""
    with cluster(tmp_path, monkeypatch) as gathered:
        gathered.begin("node-0", "node-1")
        yield gathered


def start(made: Cluster, learner: int, incarnation: int = 0, resume: bool = False) -> ProcessId:
    """Let the head start a trainer."""
    own = TRAINER[learner].again(incarnation)
    made.head.do(Start(own, learner, resume))
    return own


def say(made: Cluster, name: str, own: ProcessId, message: object) -> None:
    """Send a message from a process of a node on its control socket, and wait until the head has it."""
    node = made.node(name)
    dealer = Dealer(node.addresses.control, own.socket_id)
    assert dealer.send(encode(message))  # type: ignore[arg-type]
    for _ in range(2000):
        made.turn(seconds=0.001)
        if any(event.message == message or isinstance(message, Saved) for event in made.of(ev.Received)):
            break
    dealer.close()


def checkpoint(folder: Path, text: str = "weights") -> Path:
    """Write a complete checkpoint of one file."""
    folder.mkdir(parents=True)
    (folder / "weights.bin").write_text(text)
    seal(folder, int(folder.name), {})
    return folder


def test_a_run_begins_when_all_nodes_have_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster(tmp_path, monkeypatch) as made:
        made.agent("node-0")
        made.turn(5)
        assert made.notes() == ["awaiting", "joined"] and not made.of(ev.Begin)
        made.agent("node-1")
        made.turn(3)
        assert made.of(ev.Begin) and made.head.placed == {0: "node-0", 1: "node-1"}


def test_nodes_of_one_machine_share_its_cores_and_a_warning_names_their_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster(tmp_path, monkeypatch, "env.id=ALE/Pong-v5") as made:
        monkeypatch.setattr("launch.nodes.agent.usable_cores", lambda: 4096.0)
        made.begin("node-0", "node-1")
        said = [note.cause for note in made.of(ev.Note) if note.kind == "warned"]
        assert len(said) == 1 and "other numbers of cores (node-0 2048, node-1 2048)" in said[0]


def test_a_run_that_cannot_begin_names_the_missing_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster(tmp_path, monkeypatch, "nodes.wait_s=60") as made:
        made.agent("node-0")
        made.turn(1100)
        (refused,) = made.of(ev.CannotRun)
        assert "1 of 2 nodes have joined" in refused.reason and "missing: node-1" in refused.reason


def test_processes_are_started_on_the_nodes_of_their_learners_and_their_ends_are_reported(made: Cluster) -> None:
    for learner in (0, 1):
        start(made, learner)
    made.turn(3)
    assert set(made.started()) == {
        ("trainer-0", "node-0"),
        ("trainer-1", "node-1"),
    }
    made.head.do(ev.Kill("trainer-1", 0, 9))
    made.turn(3)
    assert made.of(ev.Exited) == [ev.Exited("trainer-1", 0, -9)]
    assert not made.head.nodes["node-1"].living


def test_a_cut_shorter_than_the_lease_loses_nothing_and_repeats_nothing(made: Cluster) -> None:
    start(made, 1)
    made.turn(3)
    made.lines.cut.add("node-1")
    made.head.do(ev.Kill("trainer-1", 0, 9))
    made.turn(70)  # 7 of 10 s
    assert not made.of(ev.Exited) and made.agents["node-1"].epoch
    made.lines.cut.clear()
    made.turn(60)
    assert made.of(ev.Exited) == [ev.Exited("trainer-1", 0, -9)]
    assert not made.of(ev.Lost)


def test_a_node_that_is_cut_off_for_long_ends_its_processes_before_they_are_started_elsewhere(made: Cluster) -> None:
    start(made, 1)
    made.turn(3)
    made.lines.cut.add("node-1")
    while not made.of(ev.Lost):
        over = made.agents["node-1"].epoch is None
        made.turn()
    assert over, "its processes were alive when the head declared them lost"
    assert made.of(ev.Lost) == [ev.Lost("node-1", (("trainer-1", 0),), True)]
    start(made, 1, 1)
    made.turn(3)
    assert made.of(ev.Spawned)[-1].node == "node-0"
    made.lines.cut.clear()
    made.turn(20)
    assert made.notes().count("joined") == 3 and set(made.head.nodes) == {"node-0", "node-1"}


def test_a_node_that_has_joined_may_be_silent_until_it_is_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It imports the plug-ins of the topology; on a very busy machine this takes longer than the lease."""
    with cluster(tmp_path, monkeypatch) as made:
        slow_s, imported = 2 * MARGIN * made.plan.topology.nodes.lease_s, set[str]()

        def prepare_slowly(action: Prepare, run_id: str, folder: Path, *rest: Any) -> NodeWorkspace:
            if folder.name not in imported:
                imported.add(folder.name)
                made.go_on_without(folder.name, slow_s)
            return NodeWorkspace(action, run_id, folder, *rest)

        monkeypatch.setattr(agents, "NodeWorkspace", prepare_slowly)
        made.begin("node-0", "node-1")
        for learner in (0, 1):
            start(made, learner)
        made.turn(4)
        assert made.started() == [("trainer-0", "node-0"), ("trainer-1", "node-1")]
        assert not made.of(ev.Lost) and made.notes().count("joined") == 2, made.told


def test_a_node_that_has_joined_and_is_never_prepared_is_lost(made: Cluster) -> None:
    made.agent("node-2")
    made.turn(1)  # the node has asked to join
    assert made.notes().count("joined") == 3
    made.stopped.add("node-2")
    made.turn(int(10 * PREPARE_S) - 10)
    assert not made.of(ev.Lost)
    made.turn(20)
    assert [lost.node for lost in made.of(ev.Lost)] == ["node-2"]


def test_an_agent_that_was_long_in_preparing_starts_nothing_before_the_head_has_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head may have declared the node lost meanwhile, and have started its processes on another node."""
    with cluster(tmp_path, monkeypatch) as made:

        def prepare(action: Prepare, run_id: str, folder: Path, *rest: Any) -> NodeWorkspace:
            if folder.name == "node-1":
                for learner in (0, 1):
                    start(made, learner)
                made.go_on_without("node-1", 2 * made.plan.topology.nodes.lease_s)
                made.lines.cut.add("node-1")
            return NodeWorkspace(action, run_id, folder, *rest)

        monkeypatch.setattr(agents, "NodeWorkspace", prepare)
        made.agent("node-0")
        made.agent("node-1")
        made.turn(20)
        assert made.head.placed == {0: "node-0", 1: "node-1"}
        epoch = made.agents["node-1"].epoch
        assert epoch and epoch.frames  # the start of a process
        assert not made.node("node-1").node.living and made.node("node-0").node.living
        made.turn(100)
        assert "the head has not answered for 10 s" in made.told["node-1"][-1]
        assert not made.agents["node-1"].epoch


def test_a_node_whose_processes_start_slowly_gives_signs_of_life_between_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Formerly, if all starts together took longer than the lease on a very busy machine, the node was lost."""
    with cluster(tmp_path, monkeypatch, "simulators.count=4") as made:
        made.begin("node-0", "node-1")
        slow_s, spawn = 4.0, NoProcesses.spawn

        def spawn_slowly(self: NoProcesses, name: str, incarnation: int, *rest: object) -> int:
            made.go_on_without("node-1", slow_s)
            return spawn(self, name, incarnation, *rest)

        monkeypatch.setattr(NoProcesses, "spawn", spawn_slowly)
        processes = [process for process in made.plan.processes if process.id.learner == 1]
        assert len(processes) * slow_s > MARGIN * made.plan.topology.nodes.lease_s
        for process in processes:
            made.head.do(Start(process.id, process.index))
        made.turn(2 * len(processes))
        assert made.started() == [(process.name, "node-1") for process in processes]
        assert not made.of(ev.Lost) and made.notes().count("joined") == 2, made.told


def test_a_node_that_was_stopped_learns_that_it_was_declared_lost(made: Cluster) -> None:
    start(made, 1)
    made.turn(3)
    before = made.agents["node-1"].epoch
    made.stopped.add("node-1")
    made.turn(160)
    assert made.of(ev.Lost)
    made.stopped.clear()
    made.turn(1)
    assert "the head has declared this node lost" in made.told["node-1"][-1]
    made.turn(30)
    after = made.agents["node-1"].epoch
    assert before and after and after.number != before.number
    assert not made.of(ev.Exited), "events of an older epoch are ignored"


def test_a_node_that_cannot_reach_the_head_for_some_seconds_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster(tmp_path, monkeypatch) as made:
        made.agent("node-0")
        made.lines.cut.add("node-0")
        made.lines.lines["node-0"].trouble = "127.0.0.1:5555 cannot be reached"
        made.turn(40)  # 4 s
        assert made.told["node-0"] == []
        made.turn(40)
        assert made.told["node-0"] == ["127.0.0.1:5555 cannot be reached"]


def test_a_second_node_of_the_same_name_waits_until_the_first_is_lost(made: Cluster) -> None:
    made.agent("node-1")  # the first one has gone without a message
    made.turn(30)
    assert "a node named node-1 is already in this run" in made.told["node-1"][-1]
    assert not made.of(ev.Lost)
    made.turn(150)
    assert made.of(ev.Lost) and made.agents["node-1"].epoch


class JoinWithMore(Join, frozen=True, tag="Join"):
    """The Join of a version that has one field more."""

    more: int = 1


@pytest.mark.parametrize("join", [Join, JoinWithMore])
def test_nodes_of_another_version_are_turned_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, join: type[Join]
) -> None:
    with cluster(tmp_path, monkeypatch) as made:
        monkeypatch.setattr("launch.nodes.agent.Join", join)
        monkeypatch.setattr("launch.nodes.agent.__version__", "0.0.1")
        made.agent("node-0")
        made.turn(3)
        assert "of version 0.0.1, the head protocol" in made.told["node-0"][-1]
        assert __version__ in made.told["node-0"][-1] and not made.of(ProtocolWarning)
        assert made.agents["node-0"].exit_status == 1
        (said,) = [note.cause for note in made.of(ev.Note) if note.kind == "refused"]
        assert said.startswith("node node-0: ") and "0.0.1" in said and __version__ in said
        made.agent("node-0")
        made.turn(3)
        assert made.notes().count("refused") == 1
        made.turn(3000)
        (refused,) = made.of(ev.CannotRun)
        assert f"missing: node-0 (refused: {said.removeprefix('node node-0: ')})" in refused.reason


def test_a_head_that_was_started_anew_takes_its_nodes_back(made: Cluster) -> None:
    made.head.nodes.clear()  # the new head knows no nodes
    made.turn(40)
    assert set(made.head.nodes) == {"node-0", "node-1"}
    assert "was restarted" in made.told["node-0"][-2]


def test_a_checkpoint_is_copied_to_the_head_before_it_is_reported(made: Cluster, tmp_path: Path) -> None:
    own = start(made, 1)
    made.turn(3)
    there = checkpoint(made.folder("node-1") / "checkpoints" / "learner-1" / "500", "w" * 1_000_000)
    say(made, "node-1", own, Saved(path=str(there), env_steps=500, order=0))
    here = tmp_path / "run" / "checkpoints" / "learner-1" / "500"
    assert [event.message.path for event in made.of(ev.Received)] == [str(here)]
    assert read_manifest(here)["env_steps"] == 500


def test_films_of_an_evaluation_reach_the_head_before_the_evaluator_has_ended(made: Cluster, tmp_path: Path) -> None:
    evaluator, films = ProcessId("evaluator", 0), "films/000000000500"
    made.head.do(Start(evaluator, 5))
    made.turn(3)
    there, here = made.folder("node-0") / films, tmp_path / "run" / films
    for later in (there, there.with_name("000000000600")):  # the games of the second are still being played
        later.mkdir(parents=True)
        (later / "best.mp4").write_bytes(b"film" * CHUNK_BYTES)
    (there / "games.json").write_text("[]")
    say(made, "node-0", evaluator, Evaluated(policy_version=1, env_steps=500, returns=[1.0]))
    assert [event.message.env_steps for event in made.of(ev.Received)] == [500]
    say(made, "node-0", evaluator, Finished(reason="scored", summary={}))
    assert (here / "best.mp4").read_bytes() == b"film" * CHUNK_BYTES and (here / "games.json").read_text() == "[]"
    assert [path.name for path in here.parent.iterdir()] == ["000000000500"] and not made.of(ProtocolWarning)


def test_films_that_arrive_in_part_are_reported_and_removed(made: Cluster, tmp_path: Path) -> None:
    films = "films/000000000500"
    there = made.folder("node-0") / films
    there.mkdir(parents=True)
    for name in ("best.mp4", "worst.mp4"):
        (there / name).write_bytes(b"film")
    _, *rest = Outgoing(made.folder("node-0"), there).messages()
    for message in rest:
        made.report("node-0", message)
    made.turn(3)
    (complaint,) = made.of(ProtocolWarning)
    assert complaint.text == f"node node-0: {films} was not received completely: best.mp4 has 0 of 4 bytes"
    assert list((tmp_path / "run" / "films").iterdir()) == []


def send(made: Cluster, learner: int, steps: int, present: list[int], parts: int = 9) -> None:
    """Send a trainer's checkpoint to the head, but at most ``parts`` of its messages."""
    name = made.head.placed[learner]
    folder = directory_of(made.folder(name) / "checkpoints", learner) / str(steps)
    saved = ev.Received(f"trainer-{learner}", 0, Saved(path=str(checkpoint(folder)), env_steps=steps, order=0))
    copy = Outgoing(made.folder(name), folder, [str(step) for step in present], saved)
    for part in list(copy.messages())[:parts]:
        made.report(name, part)
    made.turn(3)


def test_a_message_of_the_largest_allowed_size_reaches_the_head(made: Cluster) -> None:
    sizes = [
        Evaluated(policy_version=0, env_steps=0, returns=[0.5] * (LIMIT_BYTES // 9 - 12), learners={"x" * more: 0.5})
        for more in range(1, 30)
    ]
    largest = next(message for message in sizes if len(encode(message)) == LIMIT_BYTES)
    own = start(made, 1)
    made.turn(3)
    say(made, "node-1", own, largest)
    assert [event.message for event in made.of(ev.Received)] == [largest]


@pytest.mark.parametrize("sender", ["head", "agent"])
def test_a_message_that_is_too_large_is_reported_and_those_behind_it_are_sent(made: Cluster, sender: str) -> None:
    too_large = CopyDone("checkpoints/learner-1/500", [f"{step:06}" for step in range(100_000)])
    if sender == "agent":
        made.report("node-1", too_large)
    else:
        made.head.nodes["node-1"].put(too_large, 1)
    start(made, 1)
    made.turn(5)
    (complaint,) = made.of(ProtocolWarning)
    assert "CopyDone has 700" in complaint.text and "checkpoints/learner-1/500" in complaint.text
    assert made.of(ev.Spawned)


def test_learners_in_step_keep_the_newest_set_that_all_have_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "run" / "checkpoints"
    own = [directory_of(root, learner) for learner in (0, 1)]
    with cluster(tmp_path, monkeypatch, "mode=sync") as made:
        made.begin("node-0", "node-1")
        for learner in (0, 1):
            start(made, learner)
            send(made, learner, 500, [500])
        send(made, 0, 600, [600])  # this trainer keeps one checkpoint, and its node has none of other learners
        send(made, 1, 600, [600], parts=1)
        made.lose("node-1")
        assert made.of(ev.Lost) and not list(root.glob("**/.arriving*"))
        assert json.loads((root / SET_FILE).read_text()) == {
            "env_steps": 500,
            "checkpoints": {"0": "500", "1": "learner-1/500"},
        }
        found = find_common(own)
        assert found and [each.path for each in found] == [folder / "500" for folder in own]
        assert sorted(map(steps_of, folders(own[0]))) == [500, 600]


def test_the_set_of_learners_not_in_step_has_the_newest_checkpoint_of_each(made: Cluster, tmp_path: Path) -> None:
    root = tmp_path / "run" / "checkpoints"
    for learner, steps in ((0, 500), (0, 600), (1, 550)):
        start(made, learner)
        send(made, learner, steps, [steps])
    assert json.loads((root / SET_FILE).read_text())["checkpoints"] == {"0": "600", "1": "learner-1/550"}
    assert sorted(map(steps_of, folders(root))) == [600]


def test_a_new_head_removes_incomplete_copies_of_a_killed_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = tmp_path / "run" / "checkpoints" / "learner-1" / ".arriving-node-1-5f-500"
    left.mkdir(parents=True)
    with cluster(tmp_path, monkeypatch):
        assert not left.exists()


def test_a_learner_that_is_restarted_on_another_node_finds_its_checkpoints_there(made: Cluster, tmp_path: Path) -> None:
    checkpoint(tmp_path / "run" / "checkpoints" / "learner-1" / "500")
    made.lose("node-1")
    start(made, 1, 1, resume=True)
    made.turn(10)
    assert read_manifest(made.folder("node-0") / "checkpoints" / "learner-1" / "500")["env_steps"] == 500
    assert made.of(ev.Spawned)[-1].node == "node-0"


def test_a_learner_with_only_its_first_weights_gets_the_checkpoints_of_learner_0_on_its_node(
    made: Cluster, tmp_path: Path
) -> None:
    for saved in ("0", "500", "learner-1/0"):
        checkpoint(tmp_path / "run" / "checkpoints" / saved)
    start(made, 1, resume=True)
    made.turn(10)
    assert made.started() == [("trainer-1", "node-1")]
    there = made.folder("node-1") / "checkpoints"
    assert {steps_of(folder) for folder in folders(there)} == {0, 500}
    assert not folders(directory_of(there, 1)), "the learner would continue from these"


@pytest.mark.parametrize("first", [0, 1])
def test_learners_of_one_node_that_begin_from_one_checkpoint_find_it_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    with cluster(tmp_path, monkeypatch, "nodes.count=1", "nodes.listen=127.0.0.1:0") as made:
        made.begin("node-0")
        checkpoint(tmp_path / "run" / "checkpoints" / "500", 3 * MOST_AHEAD * CHUNK_BYTES * "x")
        start(made, first, resume=True)
        made.turn(1)  # the copy has begun
        start(made, 1 - first, resume=True)
        made.turn(20)
        assert not made.of(ProtocolWarning)
        assert read_manifest(made.folder("node-0") / "checkpoints" / "500")["env_steps"] == 500
        assert {event.name for event in made.of(ev.Spawned)} == {"trainer-0", "trainer-1"}


def test_a_learner_whose_checkpoints_cannot_be_sent_while_a_disk_is_full_is_started_later(
    made: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    checkpoint(tmp_path / "run" / "checkpoints" / "learner-1" / "500")
    made.lose("node-1")
    with monkeypatch.context() as disk:
        disk.setattr("launch.nodes.copies.os.link", full)
        start(made, 1, 1, resume=True)
        made.turn(3)
    (failed,) = made.of(ev.NotSpawned)
    assert failed.passing and (failed.name, failed.incarnation) == ("trainer-1", 1) and not made.of(ev.Spawned)
    start(made, 1, 1, resume=True)
    made.turn(10)
    assert (made.folder("node-0") / "checkpoints" / "learner-1" / "500").is_dir()
    assert made.of(ev.Spawned)[-1].node == "node-0"


def test_a_learner_finds_its_checkpoints_on_another_node_where_its_simulator_is_started_first(
    made: Cluster, tmp_path: Path
) -> None:
    checkpoint(tmp_path / "run" / "checkpoints" / "learner-1" / "500")
    made.lose("node-1")
    made.head.do(Start(ProcessId("simulator", 1, 1).again(1), 3))
    start(made, 1, 1, resume=True)
    made.turn(10)
    assert (made.folder("node-0") / "checkpoints" / "learner-1" / "500").is_dir()


def placed(made: Cluster) -> list[str]:
    return [note.cause for note in made.of(ev.Note) if note.kind == "placed"]


@pytest.mark.parametrize("rebalance", [True, False])
def test_a_node_that_returns_gets_a_learner_or_a_warning_says_how_it_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rebalance: bool
) -> None:
    with cluster(tmp_path, monkeypatch, f"nodes.rebalance={str(rebalance).lower()}") as made:
        made.begin("node-0", "node-1")
        for learner in (0, 1):
            start(made, learner)
        made.turn(3)
        made.lose("node-1")
        start(made, 1, 1)
        made.head.do(Start(ProcessId("simulator", 1, 1).again(1), 3))
        made.turn(3)
        assert placed(made)[2:] == ["learner 1 on node-0, because node node-1 was lost"]
        made.lines.cut.clear()
        made.turn(30)
        assert set(made.head.nodes) == {"node-0", "node-1"} and not made.of(ev.Uneven)
        made.turn(120)
        why = "node node-0 has 2 learners and node node-1 has no learners"
        if not rebalance:
            said = [note.cause for note in made.of(ev.Note) if note.kind == "warned"]
            assert said == [f"{why}; with nodes.rebalance: true learner 1 would move there"]
            return
        assert made.of(ev.Uneven)[0] == ev.Uneven(1, "node-1", why)
        made.head.do(ev.Move(1, "node-1"))
        made.turn(10)
        both = (("trainer-1", 1), ("simulator-1", 1))
        assert made.of(ev.Lost)[-1] == ev.Lost("node-0", both, True, "node-1")
        assert not made.of(ev.Exited), "no exit is reported, as the processes ended for the move"
        assert placed(made)[3:] == ["learner 1 on node-1, moved from node node-0"]
        start(made, 1, 2)
        made.turn(3)
        assert made.of(ev.Spawned)[-1].node == "node-1" and set(made.head.nodes["node-0"].living) == {("trainer-0", 0)}


def test_learners_stay_on_a_large_node_that_has_more_cores_left_than_a_small_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster(tmp_path, monkeypatch, "learners.count=3") as made:
        each = need_of(made.plan.topology, made.plan.description).cores
        cores, boots = iter([8 * each, each]), map(str, itertools.count())
        monkeypatch.setattr("launch.nodes.agent.usable_cores", lambda: next(cores))
        monkeypatch.setattr("launch.nodes.agent.boot_id", lambda: next(boots))
        made.begin("node-0", "node-1")
        made.turn(250)
        assert set(made.head.placed.values()) == {"node-0"} and not made.of(ev.Uneven)


def test_a_learner_that_was_given_up_does_not_keep_others_from_moving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = ("learners.count=3", "nodes.count=1", "nodes.listen=127.0.0.1:0")
    with cluster(tmp_path, monkeypatch, *keys) as made:
        made.begin("node-0")
        for learner in range(3):
            made.head.do(Start(ProcessId("trainer", learner, learner), learner))
        made.turn(3)
        made.head.do(ev.Kill("trainer-2", 0, 9))
        made.turn(3)
        assert made.of(ev.Exited) == [ev.Exited("trainer-2", 0, -9)]
        made.agent("node-1")
        made.turn(230)
        why = "node node-0 has 3 learners and node node-1 has no learners"
        assert made.of(ev.Uneven)[0] == ev.Uneven(1, "node-1", why)


def limit_room(made: Cluster, monkeypatch: pytest.MonkeyPatch, learners: float) -> None:
    """Let each node be on a machine of its own that has shared memory for this number of learners."""
    room = int(learners * need_of(made.plan.topology, made.plan.description).shm_bytes)
    boots = map(str, itertools.count())
    monkeypatch.setattr("launch.nodes.agent.free_bytes", lambda: room)
    monkeypatch.setattr("launch.nodes.agent.boot_id", lambda: next(boots))


def moving(made: Cluster) -> None:
    """Put both learners on node-0, begin to move learner 1 to node-1, and stop the agent of node-0."""
    made.head.placed[1] = "node-0"
    for learner in (0, 1):
        start(made, learner)
    made.turn(3)
    made.head.do(ev.Move(1, "node-1"))
    made.stopped.add("node-0")
    made.turn(3)


@pytest.mark.parametrize("gone", [True, False], ids=["gone", "full"])
def test_a_learner_restarts_on_its_node_if_the_other_has_no_room_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    with cluster(tmp_path, monkeypatch) as made:
        limit_room(made, monkeypatch, 2.5)
        made.begin("node-0", "node-1")
        moving(made)
        checkpoint(tmp_path / "run" / "checkpoints" / "learner-1" / "500")
        if gone:
            made.agents["node-1"].stop()
            made.stopped.add("node-1")
        else:
            made.head.placed |= {2: "node-1", 3: "node-1"}
        made.turn(3)
        made.stopped.discard("node-0")
        made.turn(5)
        assert made.of(ev.Lost)[-1] == ev.Lost("node-0", (("trainer-1", 0),), True, "node-0")
        assert placed(made)[2:] == ["learner 1 on node-0, because node node-1 has no room for it any more"]
        start(made, 1, 1, resume=True)
        made.turn(10)
        assert made.of(ev.Spawned)[-1] == ev.Spawned("trainer-1", 1, os.getpid(), None, "node-0")


def test_a_move_does_not_wait_for_a_process_that_could_not_be_started(made: Cluster) -> None:
    moving(made)
    simulator = ProcessId("simulator", 1, 1)
    made.head.nodes["node-0"].living[simulator.name, 0] = Start(simulator, 3)  # sent before the move
    made.stopped.discard("node-0")
    made.turn(5)
    assert not made.of(ev.Lost), "the trainer has ended, and the simulator is awaited"
    made.report("node-0", ev.NotSpawned(simulator.name, 0, "cannot be started: no room", True))
    made.turn(5)
    assert made.of(ev.NotSpawned)
    assert made.of(ev.Lost)[-1] == ev.Lost("node-0", (("trainer-1", 0),), True, "node-1")


def test_a_start_that_waits_for_the_end_of_a_move_is_made_if_the_node_is_lost_instead(made: Cluster) -> None:
    moving(made)
    made.head.do(Start(ProcessId("simulator", 1, 1).again(1), 3))
    made.turn(160)
    assert made.of(ev.Lost)[-1].node == "node-0"
    made.turn(3)
    assert made.started()[2:] == [("simulator-1", "node-1")]


def test_a_start_that_waits_for_a_move_is_lost_with_the_node_if_its_learner_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster(tmp_path, monkeypatch, "nodes.lost=leave out") as made:
        made.begin("node-0", "node-1")
        moving(made)
        made.head.do(Start(ProcessId("simulator", 1, 1).again(1), 3))
        made.turn(160)
        lost = (("trainer-0", 0), ("trainer-1", 0), ("simulator-1", 1))
        assert made.of(ev.Lost) == [ev.Lost("node-0", lost, False)]
        made.turn(3)
        assert len(made.of(ev.Spawned)) == 2, "the simulator is not started for a learner that is left out"


def test_a_start_that_waits_for_a_node_is_lost_if_its_learner_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster(tmp_path, monkeypatch, "nodes.count=1", "nodes.listen=127.0.0.1:0", "nodes.lost=leave out") as made:
        made.begin("node-0")
        start(made, 0)
        made.turn(3)
        node = made.node("node-0")
        monkeypatch.setattr(node, "drain", lambda: None)
        made.agents["node-0"].asked_to_stop()
        made.turn(3)
        made.head.do(Start(ProcessId("simulator", 0, 0).again(1), 3))
        made.agents["node-0"].stop()
        made.stopped.add("node-0")
        made.turn(3)
        assert made.of(ev.Lost) == [ev.Lost("node-0", (("trainer-0", 0), ("simulator-0", 1)), False)]


def test_learners_that_are_left_out_take_no_room_on_a_node_that_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster(tmp_path, monkeypatch, "nodes.lost=leave out") as made:
        limit_room(made, monkeypatch, 1.5)
        made.begin("node-0", "node-1")
        for learner in (0, 1):
            start(made, learner)
        made.turn(3)
        made.lose("node-1")
        assert made.of(ev.Lost) == [ev.Lost("node-1", (("trainer-1", 0),), False)]
        made.lines.cut.clear()
        made.turn(30)
        made.head.add_learners([2])
        assert made.head.placed[2] == "node-1"


def test_the_summary_of_a_learner_that_moves_is_not_lost(made: Cluster) -> None:
    moving(made)
    summary = ev.Received("trainer-1", 0, Finished(reason="stopped", summary={"env_steps": 50}))
    made.report("node-0", summary, lane="trainer-1")
    made.stopped.discard("node-0")
    made.turn(5)
    assert made.of(ev.Received) == [summary] and not made.of(ev.Exited)
    assert made.of(ev.Lost)[-1] == ev.Lost("node-0", (("trainer-1", 0),), True, "node-1")


def test_an_evaluator_does_not_claim_the_account_of_a_learner_on_another_node(
    made: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for learner in (0, 1):
        start(made, learner)
    made.head.do(Start(ProcessId("evaluator", 0), 5))
    made.turn(3)
    node = made.node("node-0")
    steps = LearnerSteps(counts=StepCounts(used=500))
    monkeypatch.setattr(node, "end", lambda: {0: steps})
    made.agents["node-0"].stop()
    made.stopped.add("node-0")
    made.turn(2)
    made.head.do(Start(ProcessId("evaluator", 0).again(1), 5))
    made.turn(3)
    assert made.of(ev.Spawned)[-1].node == "node-1"
    end(made, monkeypatch)
    assert made.head.learner_steps() == {0: steps, 1: LearnerSteps(counts=StepCounts())}


def test_parameter_servers_stand_on_the_nodes_in_turn_and_stay_where_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def places() -> dict[str, str]:
        return {event.name: event.node for event in made.of(ev.Spawned) if event.name.startswith("parameter")}

    with cluster(tmp_path, monkeypatch, "mode=async", "gossip.graph=ring", "parameter_servers.count=3") as made:
        made.begin("node-0", "node-1")
        for number in range(3):
            made.head.do(Start(ProcessId("parameter_server", number), 10 + number))
        made.turn(6)
        there = {"parameter_server-0": "node-0", "parameter_server-1": "node-1", "parameter_server-2": "node-0"}
        assert places() == there
        made.lose("node-1")
        made.head.do(Start(ProcessId("parameter_server", 1).again(1), 11))
        made.head.do(Start(ProcessId("parameter_server", 2).again(1), 12))
        made.turn(6)
        assert places() == there | {"parameter_server-1": "node-0"}


def test_processes_wait_for_a_node_with_room_and_their_learner_is_placed_there_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster(tmp_path, monkeypatch, "nodes.count=1", "nodes.listen=127.0.0.1:0") as made:
        made.begin("node-0")
        made.lose("node-0")
        start(made, 0, 1)
        made.head.do(Start(ProcessId("simulator", 0, 0).again(1), 3))
        made.turn(3)
        assert not made.of(ev.Spawned)
        made.agent("node-1")
        made.turn(6)
        assert made.started() == [("trainer-0", "node-1"), ("simulator-0", "node-1")]
        assert placed(made)[2:] == ["learner 0 on node-1, because node node-0 was lost"]


def test_a_process_without_a_node_is_started_where_a_learner_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster(tmp_path, monkeypatch) as made:
        limit_room(made, monkeypatch, 1.5)
        made.begin("node-0", "node-1")
        made.lose("node-1")
        start(made, 1, 1)
        made.turn(3)
        assert not made.of(ev.Spawned)
        made.head.do(DropLearner(0))
        made.turn(3)
        assert made.started() == [("trainer-1", "node-0")]


def test_without_learners_no_set_of_checkpoints_is_named(tmp_path: Path) -> None:
    assert name_set(tmp_path, [], in_step=True) == []


def test_the_segment_of_a_simulator_that_has_ended_is_removed_on_its_node(made: Cluster) -> None:
    simulators = [ProcessId("simulator", number, 1).again(0) for number in (1, 2)]
    start(made, 1)
    for index, simulator in enumerate(simulators):
        made.head.do(Start(simulator, 4 + index))
    made.turn(3)
    files = {event.name: event.member.segment.file for event in made.of(ev.Spawned) if event.member}
    made.head.do(ev.Kill(simulators[0].name, 0, 9))
    made.turn(3)
    assert len(made.of(ev.Exited)) == 1 and all(file.exists() for file in files.values())
    made.head.do(ev.DropMembers([simulators[0].socket_id]))
    made.turn(3)
    assert {name: file.exists() for name, file in files.items()} == {"simulator-1": False, "simulator-2": True}
    assert not made.of(ProtocolWarning)


def test_a_copy_that_fails_leaves_nothing_at_the_head(made: Cluster, tmp_path: Path) -> None:
    start(made, 1)
    run_dir = made.folder("node-1")
    copy = Outgoing(run_dir, checkpoint(run_dir / "checkpoints" / "learner-1" / "500")).messages()
    made.report("node-1", next(copy))
    made.turn(3)
    arrived = lambda: list((tmp_path / "run" / "checkpoints").glob("**/.arriving*"))  # noqa: E731
    assert arrived()
    (linked,) = (run_dir / "outgoing").glob("**/weights.bin")
    linked.unlink()
    made.report("node-1", copy)
    made.turn(3)
    assert not arrived() and "cannot be copied" in made.of(ProtocolWarning)[0].text


def test_logs_of_nodes_are_copied_to_the_run_folder(made: Cluster, tmp_path: Path) -> None:
    log = made.folder("node-1") / "logs" / "trainer-1.log"
    log.write_text("one\n")
    made.turn(50)
    with log.open("a") as file:
        file.write("two\n")
    made.turn(50)
    assert (tmp_path / "run" / "logs" / "trainer-1.log").read_text() == "one\ntwo\n"


def test_a_learner_that_has_left_makes_room(made: Cluster) -> None:
    made.head.do(DropLearner(0))
    made.head.add_learners([2])
    assert made.head.placed == {1: "node-1", 2: "node-0"}


def test_a_node_that_joins_later_gets_the_learners_that_are_attached_then(made: Cluster) -> None:
    made.agent("node-2")
    made.turn(4)
    made.head.add_learners([2])
    assert made.head.placed[2] == "node-2"
    made.head.do(Start(ProcessId("trainer", 2, 2), 5))
    made.turn(3)
    assert made.of(ev.Spawned)[-1].node == "node-2"


def test_learners_of_an_agent_that_is_stopped_can_restart_elsewhere_at_once(made: Cluster) -> None:
    start(made, 1)
    made.turn(3)
    made.agents["node-1"].stop()
    made.stopped.add("node-1")
    made.turn(2)
    assert made.of(ev.Lost) == [ev.Lost("node-1", (("trainer-1", 0),), True)]
    start(made, 1, 1)
    made.turn(3)
    assert made.of(ev.Spawned)[-1].node == "node-0"


def leaving(made: Cluster, monkeypatch: pytest.MonkeyPatch) -> tuple[NodeWorkspace, Callable[[], None]]:
    """Ask node-1 to leave; return its workspace, and the function that lets its learners save and end."""
    node = made.node("node-1")
    saves = node.drain
    monkeypatch.setattr(node, "drain", lambda: None)
    made.agents["node-1"].asked_to_stop()
    made.turn(3)
    return node, saves


def test_a_node_that_leaves_first_sends_what_its_learners_save_and_gets_no_new_learner(
    made: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = start(made, 1)
    made.turn(3)
    workspace, saves = leaving(made, monkeypatch)
    assert made.notes()[-1] == "leaving" and made.agents["node-1"].exit_status is None
    made.head.add_learners([2])
    assert made.head.placed[2] == "node-0"
    there = checkpoint(workspace.addresses.run_dir / "checkpoints" / "learner-1" / "500")
    say(made, "node-1", own, Saved(path=str(there), env_steps=500, order=0))
    saves()
    made.turn(5)
    here = tmp_path / "run" / "checkpoints" / "learner-1" / "500"
    assert [event.message.path for event in made.of(ev.Received)] == [str(here)]
    assert made.agents["node-1"].exit_status == 130
    assert made.of(ev.Lost) == [ev.Lost("node-1", (("trainer-1", 0),), True)] and not made.of(ev.Exited)
    start(made, 1, 1, resume=True)
    made.stopped.add("node-1")
    made.turn(3)
    assert made.of(ev.Spawned)[-1].node == "node-0"


@pytest.mark.parametrize("message", [Listens(key="ab" * 32, generation=7), Left()])
def test_messages_that_other_learners_await_do_not_wait_for_the_copy_of_a_checkpoint(
    made: Cluster, message: Message
) -> None:
    own = start(made, 1)
    made.turn(3)
    node = made.node("node-1")
    folder = made.folder("node-1") / "checkpoints" / "learner-1" / "500"
    there = checkpoint(folder, 4 * MOST_AHEAD * CHUNK_BYTES * "x")
    with closing(Dealer(node.addresses.control, own.socket_id)) as dealer:
        for said in (Saved(path=str(there), env_steps=500, order=0), message):
            assert dealer.send(encode(said))
        for _ in range(2000):
            made.turn(seconds=0.001)
            if len(received := [event.message for event in made.of(ev.Received)]) == 2:
                break
    assert received[0] == message


def test_no_process_of_a_learner_is_started_elsewhere_before_its_node_has_left(
    made: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(made, 1)
    made.turn(3)
    _, saves = leaving(made, monkeypatch)
    made.head.do(Start(ProcessId("simulator", 1, 1).again(1), 3))
    made.turn(3)
    assert [event.name for event in made.of(ev.Spawned)] == ["trainer-1"]
    saves()
    made.turn(5)
    assert made.of(ev.Lost) == [ev.Lost("node-1", (("trainer-1", 0),), True)]
    made.stopped.add("node-1")
    made.turn(5)
    assert made.started()[1:] == [("simulator-1", "node-0")]


def test_a_learner_whose_start_arrives_when_its_node_is_leaving_does_not_keep_the_node(made: Cluster) -> None:
    start(made, 1)
    made.turn(3)
    made.head.placed[2] = "node-1"
    made.head.do(Start(ProcessId("trainer", 2, 2), 5))  # on its way when the node is asked to stop
    made.agents["node-1"].asked_to_stop()
    made.turn(10)
    assert made.agents["node-1"].exit_status == 130
    assert made.of(ev.Lost) == [ev.Lost("node-1", (("trainer-1", 0), ("trainer-2", 0)), True)]


def test_the_summary_of_a_learner_whose_node_leaves_is_not_lost(made: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    own = start(made, 1)
    made.turn(3)
    _, saves = leaving(made, monkeypatch)
    summary = Finished(reason="stopped", summary={"env_steps": 50})
    say(made, "node-1", own, summary)
    saves()
    made.turn(5)
    assert [event.message for event in made.of(ev.Received)] == [summary] and not made.of(ev.Exited)
    assert made.of(ev.Lost) == [ev.Lost("node-1", (("trainer-1", 0),), True)]


def test_a_node_whose_learners_do_not_save_leaves_in_time_and_at_once_if_told_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster(tmp_path, monkeypatch, "supervision.drain_s=5") as made:
        made.begin("node-0", "node-1")
        for learner in (0, 1):
            start(made, learner)
        made.turn(3)
        for name, agent in made.agents.items():
            monkeypatch.setattr(made.node(name), "drain", lambda: None)
            agent.asked_to_stop()
        made.agents["node-0"].asked_to_stop()
        assert made.agents["node-0"].exit_status == 130
        made.turn(40)
        assert made.agents["node-1"].exit_status is None
        made.turn(20)
        assert made.agents["node-1"].exit_status == 130 and len(made.of(ev.Lost)) == 2


def test_a_copy_that_was_cut_off_is_used_neither_by_the_head_nor_by_a_new_epoch(made: Cluster, tmp_path: Path) -> None:
    own, root = start(made, 1), tmp_path / "run" / "checkpoints" / "learner-1"
    checkpoint(root / "400")
    made.turn(3)
    before = made.node("node-1")
    there = checkpoint(made.folder("node-1") / "checkpoints" / "learner-1" / "500", "w" * 20_000_000)
    dealer = Dealer(before.addresses.control, own.socket_id)
    assert dealer.send(encode(Saved(path=str(there), env_steps=500, order=0)))
    for _ in range(2000):
        made.turn(seconds=0.001)
        if list(root.glob(".arriving-*/*")):
            break
    dealer.close()
    made.lose("node-1")
    assert made.of(ev.Lost) and not made.of(ev.Received)
    assert [path.name for path in root.iterdir()] == ["400"]
    made.lines.cut.clear()
    made.turn(30)
    made.head.placed[1] = "node-1"
    start(made, 1, 1, resume=True)
    made.turn(10)
    assert made.node("node-1") is not before
    assert [path.name for path in (made.folder("node-1") / "checkpoints" / "learner-1").iterdir()] == ["400"]


@pytest.mark.parametrize(("mode", "told"), [("gossip", 1), ("sync", 0)])
def test_a_warning_names_the_learners_of_an_evaluator_if_others_have_other_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, told: int
) -> None:
    graph = ["gossip.graph=none"] if mode == "gossip" else []
    with cluster(tmp_path, monkeypatch, f"mode={mode}", *graph) as made:
        made.begin("node-0", "node-1")
        made.head.do(Start(ProcessId("evaluator", 0), 5))
        made.turn(3)
        assert made.of(ev.Spawned)[-1].node == "node-0"
        said = [note.cause for note in made.of(ev.Note) if note.kind == "warned"]
        assert said == told * ["it evaluates only the learners on its own node node-0: 0"]


def test_a_node_may_report_only_its_own_processes(made: Cluster) -> None:
    start(made, 0)
    made.turn(3)
    made.report("node-1", ev.Exited("trainer-0", 0, 1))
    saved = ev.Received("trainer-0", 0, Saved(path="x", env_steps=0, order=0))
    made.report("node-1", CopyDone("checkpoints/500", ["500"], saved))
    made.turn(3)
    assert not made.of(ev.Exited) and not made.of(ev.Received)
    said = [complaint.text for complaint in made.of(ProtocolWarning)]
    assert said == [
        "node node-1 reports an event of trainer-0.0, which does not run on it",
        "node node-1: checkpoints/500 does not belong to a trainer of this node",
    ]


def end(made: Cluster, monkeypatch: pytest.MonkeyPatch, cut_once_ended: bool = False) -> float:
    """Let the head end the run while the agents take turns; return the seconds that this takes."""
    receive, began_s = made.lines.recv, made.now_s

    def waited(timeout_ms: int = 0) -> tuple[str, bytes] | None:
        if timeout_ms:
            made.now_s += 0.02
            for name, agent in made.agents.items():
                agent.turn()
                if cut_once_ended and agent.epoch and agent.epoch.ending_s is not None:
                    made.lines.cut.add(name)
        return receive()

    with monkeypatch.context() as patched:
        patched.setattr(made.lines, "recv", waited)
        made.head.end()
    return made.now_s - began_s


def test_at_the_end_agents_send_what_is_left_and_leave(made: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    end(made, monkeypatch)
    assert [agent.exit_status for agent in made.agents.values()] == [0, 0]


def test_the_end_does_not_wait_for_the_copy_of_a_checkpoint(made: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = (FileChunk("checkpoints/500", "weights.bin", offset, b"x") for offset in itertools.count())
    made.head.nodes["node-0"].put(slow, 0)
    made.turn(3)
    assert end(made, monkeypatch) < 5.0
    assert [agent.exit_status for agent in made.agents.values()] == [0, 0]


def test_a_start_that_arrives_after_the_end_starts_nothing(made: Cluster) -> None:
    made.head.nodes["node-1"].outbox.put("learner-0", End())
    made.head.do(Start(TRAINER[1], 1))
    made.turn(10)
    assert made.agents["node-1"].exit_status == 0 and not made.of(ev.Spawned)


def test_an_agent_whose_last_messages_are_not_acknowledged_leaves_all_the_same(
    made: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.turn(5)
    end(made, monkeypatch, cut_once_ended=True)
    agent = made.agents["node-1"]
    for _ in range(300):
        made.now_s += 0.1
        if agent.exit_status is None:
            agent.turn()
    assert agent.exit_status == 0 and made.told["node-1"] == [made.told["node-1"][0], "the run is over"]


def test_a_node_that_joins_during_the_end_is_refused_and_not_awaited(
    made: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.agent("node-2").turn()
    assert end(made, monkeypatch) < 1.0
    assert made.agents["node-2"].exit_status == 1 and made.told["node-2"] == [
        "the head refused this node: the run is over"
    ]


@pytest.mark.parametrize("lost", [False, True])
def test_at_the_end_nothing_stays_of_an_incomplete_copy(
    made: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    root = tmp_path / "run" / "checkpoints"
    start(made, 1)
    send(made, 1, 500, [500], parts=1)
    assert list(root.glob("**/.arriving*"))
    if lost:
        made.lines.cut.add("node-1")
        made.turn(10)
    end(made, monkeypatch)
    assert not list(root.glob("**/.arriving*"))
