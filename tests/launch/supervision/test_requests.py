"""Histories of requests: status, attach, detach and save, and the one answer that each gets."""

from __future__ import annotations

import pytest

from actorlearn import __version__
from actorlearn.wire.messages import PROTOCOL_VERSION, Reply, Request, Saved
from launch.plan.plan import Start
from launch.supervision import events as ev
from tests.launch.supervision.story import (
    KILL,
    ROLES,
    SHAPE,
    UNSAVED_RESTARTS,
    Story,
    asked,
    attaching,
    failed,
    finished,
    hello,
    lose,
    received,
    running,
    spawned,
    two,
    up,
)


def test_status_lists_the_processes() -> None:
    story = running().at(2, ev.Exited("simulator-1", 0, -9), asked("status"))
    data = story.reply.data
    assert (data["phase"], data["order"]) == ("running", story.supervisor.order.version)
    assert data["processes"][0] == {
        "name": "trainer",
        "role": "trainer",
        "learner": 0,
        "state": "running",
        "incarnation": 0,
        "pid": 100,
    }
    assert data["processes"][-1]["state"] == "backoff"


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (Request(protocol=99, version=__version__, command="status"), "protocol 99"),
        (
            Request(protocol=PROTOCOL_VERSION, version="0.0", command="stop"),
            "of version 0.0, and the run uses protocol",
        ),
        (Request(protocol=PROTOCOL_VERSION, version=__version__, command="atach"), "did you mean attach?"),
        (Request(protocol=PROTOCOL_VERSION, version=__version__, command="attach"), "attach 0 simulators"),
        (Request(protocol=PROTOCOL_VERSION, version=__version__, command="detach"), "simulator-0, simulator-1"),
    ],
)
def test_requests_that_cannot_be_met_are_answered_at_once(request_: Request, text: str) -> None:
    story = running().at(2, ev.ClientRequest("cli-1", request_))
    assert not story.reply.ok
    assert text in story.reply.text
    assert story.supervisor.phase == "running"


def test_attach_is_answered_when_all_new_simulators_run() -> None:
    story = attaching(2)
    assert story.started == [("simulator-2", 0, False), ("simulator-3", 0, False)]
    assert story.at(3, *up("simulator-2")).did(ev.Answer) == []
    story.at(4, *up("simulator-3"))
    assert story.reply.ok
    assert story.reply.data["names"] == ["simulator-2", "simulator-3"]
    assert story.reply.data["seconds"] == 2.0
    assert ("attached", "simulator-3", 0, "") in story.notes
    assert [taken.id.name for taken in story.orders["trainer.0"].members][2:] == ["simulator-2", "simulator-3"]


def test_an_attach_that_the_plan_refuses_is_answered_with_its_reason() -> None:
    story = running().at(2, asked("attach", simulators=500), ev.NotEnlarged("cli-1", "a run has at most 256 processes"))
    assert story.reply == Reply(ok=False, text="a run has at most 256 processes")


def test_an_attached_simulator_that_is_refused_leaves_no_trace() -> None:
    story = attaching().at(3, spawned("simulator-2"), hello("simulator-2", shape={**SHAPE, "env.id": "X"}))
    order = story.supervisor.order
    story.at(3.1, ev.Exited("simulator-2", 0, 3))
    assert not story.reply.ok
    assert "env.id is X, but the run needs CartPole-v1" in story.reply.text
    assert story.state("simulator-2") is None
    assert story.supervisor.order == order


def test_an_attached_simulator_that_dies_before_it_runs_is_reported_and_not_restarted() -> None:
    story = attaching(2).at(3, *up("simulator-3"), failed("simulator-2", "KeyError: 'x'"))
    story.at(3.1, ev.Exited("simulator-2", 0, 1))
    assert not story.reply.ok
    assert "KeyError: 'x'" in story.reply.text
    assert "simulator-3 continues" in story.reply.text
    assert story.at(9, ev.Tick()).did(Start) == []
    assert story.state("simulator-3") == "running"


def test_an_attached_simulator_that_has_run_is_restarted_like_any_other() -> None:
    story = attaching().at(3, *up("simulator-2")).at(4, ev.Exited("simulator-2", 0, -9)).at(5, ev.Tick())
    assert story.started == [("simulator-2", 1, False)]


def test_an_attach_that_takes_too_long_is_given_up() -> None:
    story = attaching(2).at(3, *up("simulator-2"), spawned("simulator-3")).at(61.9, ev.Tick())
    assert story.did(ev.Answer) == []
    story.at(62, ev.Tick())
    assert not story.reply.ok
    assert "simulator-3 was not ready within 60 s" in story.reply.text
    assert ev.Kill("simulator-3", 0, KILL) in story.did(ev.Kill)
    story.at(62.1, ev.Exited("simulator-3", 0, -9))
    assert story.state("simulator-3") is None
    assert story.state("simulator-2") == "running"


def test_detach_drains_a_simulator_and_removes_it_from_the_list() -> None:
    story = running().at(2, asked("detach", names=["simulator-1"]))
    order = story.orders["trainer.0"]
    assert order.leaving == ["simulator-1"]
    assert [taken.id.name for taken in order.members] == ["simulator-0", "simulator-1"]
    assert story.did(ev.Kill) == []
    story.at(4, finished("simulator-1", "drained"), ev.Exited("simulator-1", 0, 0))
    assert story.notes == [("detached", "simulator-1", 0, "drained")]
    assert story.reply.ok
    assert story.reply.data == {"names": ["simulator-1"], "seconds": 2.0}
    assert story.orders["trainer.0"].leaving == []
    assert [taken.id.name for taken in story.orders["trainer.0"].members] == ["simulator-0"]
    assert story.state("simulator-1") is None


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["simulator-0", "simulator-1"], "needs at least one simulator"),
        (["simulator-9"], "'simulator-9' is not a simulator of this run; choose from simulator-0, simulator-1"),
        (["evaluator-0"], "'evaluator-0' is not a simulator of this run; choose from simulator-0, simulator-1"),
        (["simulator1"], "'simulator1' is not a simulator of this run; did you mean simulator-1?"),
        (["simlator-1"], "'simlator-1' is not a simulator of this run; did you mean simulator-1?"),
        (["trainer"], "detach trainer: the run needs its only learner; detach simulators, or stop the run"),
    ],
)
def test_a_detach_that_is_refused_changes_nothing(names: list[str], text: str) -> None:
    story = running()
    order = story.supervisor.order
    story.at(2, asked("detach", names=names))
    assert not story.reply.ok
    assert text in story.reply.text
    assert story.supervisor.order == order


def test_a_detach_of_a_simulator_that_was_detached_before_is_refused() -> None:
    story = running().at(2, asked("detach", names=["simulator-1"]))
    story.at(4, finished("simulator-1", "drained"), ev.Exited("simulator-1", 0, 0))
    said = "'simulator-1' is not a simulator of this run; choose from simulator-0"
    assert story.at(5, asked("detach", names=["simulator-1"])).reply.text == said


def test_a_leaving_simulator_is_not_detached_again_and_does_not_count_as_remaining() -> None:
    story = running().at(2, asked("detach", names=["simulator-1"])).at(3, asked("detach", names=["simulator-1"]))
    assert story.reply.text == "simulator-1 is already being detached; wait until it has ended"
    story.at(4, asked("detach", names=["simulator-0"]))
    assert "needs at least one simulator" in story.reply.text


def test_the_last_running_simulator_stays_even_if_others_were_given_up() -> None:
    story = lose(running(), "simulator-0")
    assert not story.then(asked("detach", names=["simulator-1"])).reply.ok
    assert story.then(asked("detach", names=["simulator-0"])).reply.ok
    assert story.state("simulator-0") is None


def test_a_simulator_that_dies_while_it_is_detached_is_not_restarted() -> None:
    story = running().at(2, asked("detach", names=["simulator-1"])).at(3, ev.Exited("simulator-1", 0, -9))
    assert [note[0] for note in story.notes] == ["died", "detached"]
    assert story.reply.ok
    assert "died before it was drained: signal 9" in story.reply.text
    assert story.at(9, ev.Tick()).did(Start) == []


def test_a_detach_that_takes_too_long_is_answered_and_the_simulator_is_killed() -> None:
    story = running().at(2, asked("detach", names=["simulator-1"])).at(62, ev.Tick())
    assert not story.reply.ok
    assert ev.Kill("simulator-1", 0, KILL) in story.did(ev.Kill)
    story.at(62.1, ev.Exited("simulator-1", 0, -9))
    assert story.state("simulator-1") is None


def test_save_is_answered_when_the_checkpoint_is_saved() -> None:
    story = running().at(2, asked("save", "cli-1"), asked("save", "cli-2"))
    assert story.supervisor.order.save == 2
    story.at(3, received("trainer", Saved(path="checkpoints/7", env_steps=7, order=1)))
    assert [answer.client for answer in story.did(ev.Answer)] == ["cli-1"]
    assert story.reply.data["path"] == "checkpoints/7"
    story.at(4, received("trainer", Saved(path="checkpoints/9", env_steps=9, order=2)))
    assert [answer.client for answer in story.did(ev.Answer)] == ["cli-2"]


def on_disk(name: str, env_steps: int, order: int = 1) -> ev.Received:
    return received(name, Saved(path=f"{name}/{env_steps}", env_steps=env_steps, order=order))


def test_save_is_answered_when_all_learners_have_saved() -> None:
    story = two().at(2, asked("save")).at(3, on_disk("trainer-1", 8))
    assert story.did(ev.Answer) == []
    story.at(4, on_disk("trainer-1", 9), on_disk("trainer-0", 7))
    assert story.reply.ok
    assert (story.reply.data["path"], story.reply.data["env_steps"]) == ("trainer-0/7", 7)
    assert story.reply.text == "checkpoint at 7 steps: trainer-0/7; trainer-1 at 8 steps"


def test_save_does_not_wait_for_a_learner_that_died_while_the_run_drains() -> None:
    story = two().at(2, asked("save")).at(3, ev.Exited("trainer-1", 0, -9))
    story.at(3.01, on_disk("trainer-0", 7), finished("trainer-0", "total_steps", env_steps=7))
    assert story.ever(ev.Answer)[0].reply.text == "checkpoint at 7 steps: trainer-0/7"


def test_save_does_not_wait_for_a_learner_that_was_given_up() -> None:
    story = two().at(2, asked("save")).at(3, on_disk("trainer-0", 7))
    for i in range(UNSAVED_RESTARTS):
        story.at(story.now_s + 4, ev.Exited("trainer-1", i, 1)).at(story.now_s + 4, ev.Tick())
        assert story.ever(ev.Answer) == [], "it saves when it has restarted"
    story.at(story.now_s + 4, ev.Exited("trainer-1", UNSAVED_RESTARTS, 1))
    assert story.state("trainer-1") == "fatal"
    assert story.reply.text == "checkpoint at 7 steps: trainer-0/7"


def test_a_save_that_takes_too_long_names_the_learners_without_a_checkpoint() -> None:
    story = two().at(2, asked("save")).at(3, on_disk("trainer-0", 7)).at(62, ev.Tick())
    said = "trainer-1 saved no checkpoint within 60 s; learners in mode sync save at their next update"
    assert story.reply == Reply(ok=False, text=said)


def test_a_scheduled_checkpoint_answers_no_save_request() -> None:
    story = running().at(2, asked("save")).at(3, received("trainer", Saved(path="c", env_steps=5, order=0)))
    assert story.did(ev.Answer) == []
    assert not story.at(62, ev.Tick()).reply.ok


def test_a_run_that_ends_answers_all_open_requests() -> None:
    story = attaching().then(asked("save", "cli-2")).at(3, finished("trainer", "total_steps"))
    assert [(answer.client, answer.reply.ok) for answer in story.did(ev.Answer)] == [("cli-1", False), ("cli-2", False)]


@pytest.mark.parametrize("command", ["attach", "detach", "save"])
def test_a_run_that_is_stopping_takes_no_changes(command: str) -> None:
    story = running().at(2, ev.Interrupted()).at(3, asked(command, simulators=1, names=["simulator-0"]))
    assert not story.reply.ok
    assert "the run is draining" in story.reply.text


@pytest.mark.parametrize("command", ["attach", "detach", "save"])
def test_a_run_that_waits_for_its_nodes_takes_no_changes_and_then_begins(command: str) -> None:
    """On several machines the run answers command lines before its nodes have joined: nothing is started yet."""
    story = Story().at(0, asked(command, simulators=1, names=["simulator-0"]))
    assert not story.reply.ok
    assert story.reply.text == f"{command}: the run waits for its nodes; try again when they have joined"
    assert story.did(ev.Enlarge) == []
    story.at(5, ev.Begin())
    assert sorted(name for name, _, _ in story.started) == sorted(ROLES)
    story.at(6, *up(*ROLES), asked("attach", simulators=1))
    assert story.did(ev.Enlarge) == [ev.Enlarge("cli-1", 1)]


def test_a_run_that_waits_for_its_nodes_can_be_stopped() -> None:
    story = Story().at(0, asked("stop"))
    assert story.reply.ok
    assert story.done is not None and story.done.status == "stopped"
