"""Processes of a lost node count as dead at once; they are restarted elsewhere or left out, as the topology says."""

from __future__ import annotations

import pytest

from actorlearn.wire.messages import Saved
from launch.plan.plan import Start
from launch.supervision import events as ev
from tests.identities import trainer
from tests.launch.supervision.story import (
    RESTARTS,
    TERM,
    TWO,
    Story,
    asked,
    exits,
    finished,
    hello,
    received,
    spawned,
    two,
    up,
)

ON_THE_NODE = (("trainer-1", 0), ("simulator-1", 0))


def test_processes_of_a_lost_node_are_restarted() -> None:
    story = two("gossip").at(2, ev.Lost("n1", ON_THE_NODE, True))
    assert story.notes == [
        ("died", "trainer-1", 0, "node n1 was lost"),
        ("died", "simulator-1", 0, "node n1 was lost"),
    ]
    assert story.supervisor.order.gone == story.ever(ev.DropMembers) == [], "its segment went with the node"
    story.at(4, ev.Tick())
    assert [(spawn.name, spawn.incarnation, spawn.resume) for spawn in story.did(Start)] == [
        ("trainer-1", 1, True),
        ("simulator-1", 1, False),
    ]


@pytest.mark.parametrize("mode", ["sync", "gossip"])
def test_a_trainer_whose_node_is_lost_before_its_hello_is_restarted_elsewhere(mode: str) -> None:
    story = Story(TWO, mode=mode).at(0, ev.Begin(), *(spawned(name) for name in TWO), *up("trainer-0", "simulator-0"))
    story.at(2, ev.Lost("n1", ON_THE_NODE, True)).at(4, ev.Tick())
    assert story.started == [("trainer-1", 1, False), ("simulator-1", 1, False)]
    story.at(5, *up("trainer-1", "simulator-1", incarnation=1))
    assert story.supervisor.phase == "running" and story.done is None


def test_learners_of_a_lost_node_are_left_out_where_the_topology_says_so() -> None:
    story = two("gossip").at(2, ev.Lost("n1", ON_THE_NODE, False))
    assert (
        "gave up",
        "trainer-1",
        0,
        "node n1 was lost, and nodes.lost: leave out forbids a restart on another node",
    ) in story.notes
    story.at(60, ev.Tick())
    assert not [spawn for spawn in story.ever(Start) if spawn.incarnation]
    assert story.supervisor.order.learners == [trainer("trainer-0")] and story.done is None


@pytest.mark.parametrize("mode", ["sync", "gossip"])
@pytest.mark.parametrize("waits", ["trainer-1", "simulator-1"])
def test_a_process_that_waits_for_its_restart_is_left_out_with_its_learner(mode: str, waits: str) -> None:
    members = {name: spawned(name).member for name in TWO}
    on_nodes = [ev.Spawned(name, 0, 100, members[name], f"n{name[-1]}") for name in TWO]
    story = Story(TWO, mode=mode).at(0, ev.Begin(), *on_nodes, *(hello(name) for name in TWO))
    story.at(2, ev.Exited(waits, 0, 1))
    story.at(2.1, ev.Lost("n1", tuple(own for own in ON_THE_NODE if own[0] != waits), False)).at(60, ev.Tick())
    assert story.started == [] and story.done is None
    assert {note.process for note in story.ever(ev.Note) if note.kind == "gave up"} == {"trainer-1", "simulator-1"}


def test_a_process_that_waits_for_its_restart_on_a_node_that_is_lost_restarts_elsewhere() -> None:
    story = two("gossip").at(2, ev.Exited("simulator-1", 0, 1)).at(2.1, ev.Lost("n1", (("trainer-1", 0),), True))
    story.at(60, ev.Tick())
    assert {name for name, *_ in story.started} == {"trainer-1", "simulator-1"}


SERVED = {**TWO, "parameter_server-0": "parameter_server"}


def test_a_parameter_server_of_a_lost_node_is_restarted_even_if_learners_are_left_out() -> None:
    story = Story(SERVED, mode="served").at(0, ev.Begin(), *up(*SERVED))
    story.at(2, ev.Lost("n1", (*ON_THE_NODE, ("parameter_server-0", 0)), False)).at(4, ev.Tick())
    assert [(spawn.name, spawn.incarnation) for spawn in story.did(Start)] == [("parameter_server-0", 1)]
    assert story.done is None


def test_a_run_fails_when_a_parameter_server_is_given_up() -> None:
    story = Story(SERVED, mode="served").at(0, ev.Begin(), *up(*SERVED))
    for incarnation in range(RESTARTS + 1):
        story.at(story.now_s + 1, ev.Exited("parameter_server-0", incarnation, 1))
        story.at(story.now_s + 8, ev.Tick(), *up("parameter_server-0", incarnation=incarnation + 1))
    story.at(story.now_s + 1, *exits(TWO))
    assert story.done is not None and story.done.status == "failed" and "parameter_server-0" in story.done.error


@pytest.mark.parametrize("late", [False, True])
def test_a_trainer_that_is_restarted_to_save_does_not_wait_for_a_dead_parameter_server(late: bool) -> None:
    story = Story(SERVED, mode="served").at(0, ev.Begin(), *up(*SERVED))
    server = ev.Exited("parameter_server-0", 0, -9)
    story.at(2, *(ev.Exited(f"trainer-{number}", 0, -9) for number in (0, 1)), *([] if late else [server]))
    story.then(ev.Interrupted())
    assert story.started == [("trainer-0", 1, True)]
    story.at(3, *up("trainer-0", incarnation=1), *([server] if late else []))
    assert story.did(ev.Kill) == [ev.Kill("trainer-0", 1, TERM)]
    story.at(4, finished("trainer-0", "stopped", incarnation=1), ev.Exited("trainer-0", 1, 0))
    story.then(*exits(["simulator-0", "simulator-1"]))
    assert story.done is not None and story.done.status == "stopped"


def test_the_loss_of_a_node_does_not_report_processes_that_had_died_before() -> None:
    story = two("gossip").at(2, ev.Exited("trainer-1", 0, -9)).then(ev.Lost("n1", (("trainer-1", 0),), True))
    assert story.notes == []


def test_processes_are_listed_with_their_nodes() -> None:
    story = Story(TWO).at(0, ev.Begin(), ev.Spawned("trainer-0", 0, 7, None, "n0"), spawned("trainer-1"))
    nodes = {process["name"]: process.get("node") for process in story.supervisor.processes()}
    assert nodes["trainer-0"] == "n0" and nodes["trainer-1"] is None


@pytest.mark.parametrize("mode", ["sync", "async", "gossip"])
def test_a_run_that_cannot_begin_ends_with_the_reason(mode: str) -> None:
    story = Story(TWO, mode=mode).at(0, ev.CannotRun("n1 is missing"))
    assert story.done == ev.Done("failed", 1, "n1 is missing", lacks_nodes=True)
    assert story.ever(Start) == []


def test_a_run_that_cannot_continue_ends_all_processes_with_the_reason() -> None:
    story = two("gossip").at(2, ev.CannotRun("all nodes are gone"))
    story.at(3, *exits(TWO))
    assert story.done == ev.Done("failed", 1, "all nodes are gone", lacks_nodes=True)


def test_a_run_whose_only_learner_is_lost_with_its_node_before_its_hello_lacks_nodes() -> None:
    one = {"trainer-0": "trainer", "simulator-0": "simulator"}
    story = Story(one).at(0, ev.Begin(), *(spawned(name) for name in one))
    story.at(1, ev.Lost("n0", (("trainer-0", 0), ("simulator-0", 0)), False))
    assert story.done == ev.Done("failed", 1, "trainer-0: node n0 was lost", lacks_nodes=True)
    story = Story(one).at(0, ev.Begin(), *(spawned(name) for name in one)).at(1, ev.Exited("trainer-0", 0, 1))
    assert story.at(2, *exits(["simulator-0"])).done == ev.Done(
        "failed", 1, "trainer-0: exit 1; its last output is in logs/trainer-0.log"
    )


def test_a_run_whose_learner_is_lost_with_its_node_as_it_drains_lacks_nodes() -> None:
    one = {"trainer-0": "trainer", "simulator-0": "simulator"}
    story = Story(one).at(0, ev.Begin(), *up(*one)).at(1, ev.Interrupted())
    story.at(2, ev.Lost("n0", (("trainer-0", 0), ("simulator-0", 0)), True))
    assert story.done is not None and story.done.lacks_nodes
    assert story.done.error == "trainer-0 ended before it finished its work: node n0 was lost"


def test_the_loss_of_all_nodes_does_not_change_how_an_ending_run_ends() -> None:
    story = two("gossip").at(2, ev.Interrupted(), ev.Interrupted(), ev.CannotRun("all nodes are gone"))
    assert story.done is not None and story.done.status == "stopped"


@pytest.mark.parametrize("end", [ev.Interrupted(), finished("trainer-0", "total_steps")])
def test_a_trainer_that_waits_for_a_node_is_not_awaited_when_the_run_ends(end: ev.Event) -> None:
    story = two("gossip").at(2, ev.Lost("n1", ON_THE_NODE, True)).at(4, ev.Tick())
    assert ("trainer-1", 1, True) in story.started, "it is told to start, and no node has started it"
    story.at(5, end)
    assert ev.Kill("trainer-1", 1, TERM) in story.last
    story.then(ev.Exited("trainer-1", 1, -TERM))
    assert ("ended", "trainer-1", 1, "as told, by SIGTERM") in story.notes
    story.then(finished("trainer-0", "drained"), *exits(["simulator-0"]), ev.Exited("simulator-1", 1, -TERM))
    story.then(ev.Exited("trainer-0", 0, 0))
    assert story.done is not None and story.done.status != "failed"


def test_a_learner_whose_node_leaves_restarts_and_is_in_the_summary_if_the_run_is_stopped() -> None:
    story = two("gossip").at(2, finished("trainer-1", "stopped", env_steps=50))
    assert story.done is None and story.supervisor.phase == "running"
    story.at(3, ev.Lost("n1", ON_THE_NODE, True)).at(4, ev.Tick())
    assert story.started == [("trainer-1", 1, True), ("simulator-1", 1, False)]
    story = two("gossip").at(2, finished("trainer-1", "stopped", env_steps=50)).at(3, ev.Interrupted())
    story.at(4, finished("trainer-0", "drained", env_steps=60), ev.Exited("trainer-0", 0, 0), *exits(["simulator-0"]))
    story.at(5, ev.Lost("n1", ON_THE_NODE, True))
    assert story.done is not None and story.done.status == "stopped"
    assert set(story.done.summary["learners"]) == {"trainer-0", "trainer-1"}
    assert "died" not in [note.kind for note in story.ever(ev.Note)]


@pytest.mark.parametrize("lost_first", [True, False])
def test_a_run_that_is_stopped_after_its_only_learner_has_left_with_its_node_has_its_summary(lost_first: bool) -> None:
    one = {"trainer-0": "trainer", "simulator-0": "simulator"}
    story = Story(one).at(0, ev.Begin(), *up(*one)).at(2, finished("trainer-0", "stopped", env_steps=50))
    lost = ev.Lost("n0", (("trainer-0", 0), ("simulator-0", 0)), True)
    events = [lost, ev.Interrupted()] if lost_first else [ev.Interrupted(), lost]
    story.at(3, events[0]).at(3.1, events[1])
    assert story.done is not None and story.done.status == "stopped"
    assert story.done.summary["env_steps"] == 50


def test_a_learner_at_work_moves_to_a_node_with_fewer_learners_and_this_is_no_death() -> None:
    story = two("gossip").at(2, ev.Uneven(1, "n2", "node n1 has 2 learners and node n2 has no learners"))
    assert story.did(ev.Move) == [ev.Move(1, "n2")]
    assert story.notes == [
        ("moving", "trainer-1", 0, "to node n2, because node n1 has 2 learners and node n2 has no learners")
    ]
    story.at(3, ev.Lost("n1", ON_THE_NODE, True, "n2"))
    assert [(kind, cause) for kind, _, _, cause in story.notes] == 2 * [("ended", "moved to node n2")]
    story.at(3.1, ev.Tick())
    assert story.started == [("trainer-1", 1, True), ("simulator-1", 1, False)]


def test_no_learner_moves_while_a_run_ends() -> None:
    story = two("gossip").at(2, ev.Interrupted()).then(ev.Uneven(1, "n2", "it has fewer"))
    assert story.did(ev.Move) == []


def moving(mode: str = "gossip") -> Story:
    """A run of two learners, of which one is moving to another node, and has saved."""
    story = two(mode).at(2, ev.Uneven(1, "n2", "it has fewer")).at(3, finished("trainer-1", "stopped", env_steps=50))
    assert story.done is None and story.notes == []
    return story


def test_a_learner_that_moves_restarts_although_its_trainer_has_finished() -> None:
    story = moving().at(4, ev.Lost("n1", ON_THE_NODE, True, "n2")).at(4.1, ev.Tick())
    assert story.started == [("trainer-1", 1, True), ("simulator-1", 1, False)]


@pytest.mark.parametrize("mode", ["sync", "gossip"])
def test_a_learner_whose_node_is_lost_as_it_moves_is_left_out_where_the_topology_says_so(mode: str) -> None:
    story = moving(mode).at(4, ev.Exited("simulator-1", 0, 1)).at(8, ev.Tick())
    assert story.started == [("simulator-1", 1, False)]  # the head delays this start until the move is over
    story.at(9, ev.Lost("n1", (("trainer-1", 0), ("simulator-1", 1)), False)).at(60, ev.Tick())
    assert story.started == [] and story.done is None and story.supervisor.phase == "running"
    assert story.supervisor.order.learners == [trainer("trainer-0")]
    assert [note.process for note in story.ever(ev.Note) if note.kind == "gave up"] == ["trainer-1", "simulator-1"]


def test_a_learner_that_could_not_move_restarts_on_its_node() -> None:
    story = moving().at(4, ev.Lost("n1", ON_THE_NODE, True, "n1"))
    assert [(kind, cause) for kind, _, _, cause in story.notes] == 2 * [("ended", "restarts on node n1")]


@pytest.mark.parametrize("late", [True, False], ids=["interrupted after the trainer finished", "before"])
def test_a_learner_that_moves_while_the_run_is_stopped_has_not_died_and_is_in_the_summary(late: bool) -> None:
    story = moving() if late else two("gossip").at(2, ev.Uneven(1, "n2", "it has fewer"))
    story.at(3, ev.Interrupted())
    if not late:
        story.at(3, finished("trainer-1", "stopped", env_steps=50))
    story.at(4, ev.Lost("n1", ON_THE_NODE, True, "n2"))
    assert [(kind, process) for kind, process, _, _ in story.notes] == [
        ("ended", "trainer-1"),
        ("ended", "simulator-1"),
    ]
    story.at(5, finished("trainer-0", "drained", env_steps=60), ev.Exited("trainer-0", 0, 0), *exits(["simulator-0"]))
    assert story.done is not None and story.done.status == "stopped"
    assert set(story.done.summary["learners"]) == {"trainer-0", "trainer-1"}
    assert "died" not in [note.kind for note in story.ever(ev.Note)]


@pytest.mark.parametrize("late", [True, False], ids=["after the trainer finished", "before"])
@pytest.mark.parametrize("order", [ON_THE_NODE, ON_THE_NODE[::-1]], ids=["trainer first", "simulator first"])
def test_a_learner_that_is_detached_as_it_moves_has_drained(order: tuple[tuple[str, int], ...], late: bool) -> None:
    detach, drained = asked("detach", names=["trainer-1"]), finished("trainer-1", "drained")
    story = two("gossip").at(2, ev.Uneven(1, "n2", "it has fewer"))
    story.at(3, *([drained, detach] if late else [detach, drained])).at(4, ev.Lost("n1", order, True, "n2"))
    assert story.reply.text == "trainer-1 with simulator-1 detached after 1.0 s"
    assert "died" not in [note.kind for note in story.ever(ev.Note)]
    assert [process["name"] for process in story.supervisor.processes()] == ["trainer-0", "simulator-0"]


def test_a_learner_that_dies_as_it_moves_and_the_run_is_stopped_has_died() -> None:
    story = two("gossip").at(2, ev.Uneven(1, "n2", "it has fewer"), ev.Interrupted())
    story.at(4, ev.Lost("n1", ON_THE_NODE, True, "n2"))
    assert story.notes == [
        ("died", "trainer-1", 0, "ended to move from node n1"),
        ("ended", "simulator-1", 0, "ended to move from node n1"),
    ]


def test_a_move_to_a_node_that_is_full_for_a_while_is_retried_and_is_still_no_restart() -> None:
    story = moving().at(4, ev.Lost("n1", ON_THE_NODE, True, "n2")).at(4.1, ev.Tick())
    for _ in range(3):
        story.then(ev.NotSpawned("trainer-1", 1, "cannot be started: no space left", passing=True))
        assert story.state("trainer-1") == "backoff"
        story.at(story.now_s + 4, ev.Tick())
        assert ("trainer-1", 1, True) in story.started
    story.then(*up("trainer-1", "simulator-1", incarnation=1))
    for incarnation in range(1, RESTARTS + 1):
        story.at(story.now_s + 0.1, ev.Exited("trainer-1", incarnation, 1)).at(story.now_s + 8, ev.Tick())
        assert story.started == [("trainer-1", incarnation + 1, True)]
        story.then(received("trainer-1", Saved(path="x", env_steps=incarnation, order=0), incarnation + 1))
        story.then(*up("trainer-1", incarnation=incarnation + 1))
    story.at(story.now_s + 0.1, ev.Exited("trainer-1", RESTARTS + 1, 1))
    assert story.state("trainer-1") == "fatal"
