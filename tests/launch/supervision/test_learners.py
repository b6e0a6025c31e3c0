"""Histories of runs with several learners, and of learners that are attached and detached."""

from __future__ import annotations

import pytest

from actorlearn.address import Tcp
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import Endpoint, Left, Listens, Reply
from launch.plan.plan import PlannedProcess, Start
from launch.supervision import events as ev
from tests.identities import trainer
from tests.launch.supervision.story import (
    BOTH,
    KILL,
    RESTARTS,
    TERM,
    TWO,
    Story,
    asked,
    exits,
    failed,
    finished,
    hello,
    lose,
    member,
    received,
    spawned,
    two,
    up,
)

# Several learners -----------------------------------------------------------------------------------------------------


def test_learners_are_listed_when_all_trainers_have_said_hello() -> None:
    story = Story(TWO).at(0, ev.Begin(), *up(*(name for name in TWO if name != "trainer-1")))
    assert story.supervisor.order.learners == story.supervisor.order.members == []
    story.at(1, *up("trainer-1"))
    assert story.supervisor.order.learners == BOTH
    assert {member.id.name for member in story.supervisor.order.members} == {"simulator-0", "simulator-1"}


def test_a_learner_that_dies_before_its_hello_fails_the_run() -> None:
    story = Story(TWO).at(0, ev.Begin(), *up("trainer-0", "simulator-0"), spawned("trainer-1"))
    story.at(1, failed("trainer-1", "ValueError: x"), ev.Exited("trainer-1", 0, 1))
    story.at(2, *exits(["trainer-0", "simulator-0", "simulator-1"]))
    assert story.done is not None and (story.done.status, story.done.error) == ("failed", "trainer-1: ValueError: x")


def test_the_others_learn_of_a_dead_learner_and_of_its_next_incarnation() -> None:
    story = two().at(2, ev.Exited("trainer-1", 0, -9))
    assert story.orders["trainer-0.0"].learners == [trainer("trainer-0")]
    story.at(3, ev.Tick()).then(spawned("trainer-1", 1), hello("trainer-1", 1))
    assert story.orders["trainer-0.0"].learners == [trainer("trainer-0"), trainer("trainer-1", 1)]
    assert next(spawn for spawn in story.ever(Start) if spawn.incarnation == 1).resume


def test_a_learner_that_has_left_the_others_is_not_listed_while_it_saves() -> None:
    """Once the others waited for it to exit, and failed after a minute."""
    story = two().at(2, received("trainer-1", Left()))
    assert story.orders["trainer-0.0"].learners == [trainer("trainer-0")]
    assert story.at(600, ev.Tick()).state("trainer-1") == "running"
    story.then(finished("trainer-1", "stopped"), ev.Exited("trainer-1", 0, 0))
    story.at(601, ev.Tick()).then(spawned("trainer-1", 1), hello("trainer-1", 1))
    assert story.orders["trainer-0.0"].learners == [trainer("trainer-0"), trainer("trainer-1", 1)]


def test_simulators_are_attached_only_to_learners_that_continue() -> None:
    """No trainer would use simulators of a learner that was given up or is leaving."""
    story = lose(two(), "trainer-1").then(asked("attach", simulators=2))
    assert story.last == [ev.Enlarge("cli-1", 2, without=(1,))]
    gossip = two("gossip").at(1, asked("detach", "cli-2", names=["trainer-0"]))
    assert gossip.at(2, asked("attach", simulators=1)).did(ev.Enlarge) == [ev.Enlarge("cli-1", 1, without=(0,))]


def test_simulators_are_not_attached_while_no_learner_continues() -> None:
    story = two("gossip").at(1, asked("attach", learners=1))
    new = ProcessId("trainer", 2, 2), ProcessId("simulator", 2, 2)
    story.then(ev.Enlarged("cli-1", tuple(PlannedProcess(own, 4 + row) for row, own in enumerate(new))))
    lose(lose(story, "trainer-0"), "trainer-1").then(asked("attach", "cli-2", simulators=1))
    said = "attach 1 simulators: each learner is being attached or detached, or has failed; try again when one is ready"
    assert story.reply == Reply(ok=False, text=said)


def test_orders_list_the_endpoint_of_a_learner_while_it_runs() -> None:
    key, address = "ab" * 32, Tcp("10.0.0.1", 5555)
    story = two().at(2, ev.Received("trainer-1", 0, Listens(key=key)))
    assert story.orders["trainer-0.0"].endpoints == [Endpoint(id=trainer("trainer-1"), key=key)]
    story.at(3, ev.Received("trainer-1", 0, Listens(key=key, address=address)))
    assert story.orders["trainer-0.0"].endpoints == [Endpoint(id=trainer("trainer-1"), key=key, address=address)]
    story.at(4, ev.Exited("trainer-1", 0, -9))
    assert story.orders["trainer-0.0"].endpoints == []
    story.at(5, ev.Tick()).then(spawned("trainer-1", 1), ev.Received("trainer-1", 1, Listens(key=key)))
    assert story.supervisor.order.endpoints == []
    story.at(6, hello("trainer-1", 1))
    assert story.orders["trainer-0.0"].endpoints == [Endpoint(id=trainer("trainer-1", 1), key=key)]


def test_each_change_of_the_list_of_learners_is_a_new_generation() -> None:
    """A list that returns after another one gets a new generation; other changes of an order do not."""
    story = two()
    seen = [(order := story.supervisor.order).generation]
    assert (order.learners, order.generation) == (BOTH, order.version)
    for incarnation in range(2):
        story.at(10 * incarnation + 2, ev.Exited("trainer-1", incarnation, -9))
        seen.append((order := story.supervisor.order).generation)
        assert (order.learners, order.generation) == ([trainer("trainer-0")], order.version)
        story.at(10 * incarnation + 8, ev.Tick()).then(*up("trainer-1", incarnation=incarnation + 1))
        seen.append(story.supervisor.order.generation)
    assert seen == sorted(set(seen))
    story.at(30, ev.Exited("simulator-1", 0, -9))
    assert story.supervisor.order.version > seen[-1] == story.supervisor.order.generation


def test_a_run_continues_while_one_learner_is_left() -> None:
    story = two()
    for incarnation in range(RESTARTS + 1):
        story.at(story.now_s + 1, ev.Exited("trainer-1", incarnation, 1))
        story.at(story.now_s + 31, ev.Tick())
        if story.state("trainer-1") == "starting":
            story.then(*up("trainer-1", incarnation=incarnation + 1))
    assert story.state("trainer-1") == "fatal"
    assert story.supervisor.phase == "running"
    story.at(story.now_s + 1, ev.Exited("trainer-0", 0, -9))
    assert story.state("trainer-0") == "backoff"


@pytest.mark.parametrize("name", ["simulator-0", "simulator-1"])
def test_the_last_simulator_of_a_learner_is_not_detached(name: str) -> None:
    story = two().at(2, asked("detach", names=[name]))
    assert f"detach {name}: trainer-{name[-1]} needs at least one simulator" in story.reply.text


# Learners that are attached and detached ------------------------------------------------------------------------------


THIRD = (
    PlannedProcess(ProcessId("trainer", 2, 2), 4),
    PlannedProcess(ProcessId("inference", 2, 2), 5),
    PlannedProcess(ProcessId("simulator", 2, 2), 6),
)
NAMES = [process.name for process in THIRD]


def bringing(resume: bool = False) -> Story:
    """A run of two learners that gossip, while a third one is being attached."""
    story = two("gossip", resume).at(2, asked("attach", learners=1, overrides=["env.id=X"]))
    assert story.last == [ev.Enlarge("cli-1", 0, ("env.id=X",), 1)]
    return story.then(ev.Enlarged("cli-1", THIRD))


def with_a_third() -> Story:
    return bringing().at(3, *up(*NAMES))


@pytest.mark.parametrize("resume", [False, True])
def test_a_learner_is_attached_with_all_its_processes(resume: bool) -> None:
    story = bringing(resume)
    assert story.started == [(name, 0, False) for name in NAMES]
    story.at(3, *up("trainer-2"))
    assert story.orders["trainer-0.0"].learners == [*BOTH, trainer("trainer-2", 0)]
    assert story.at(4, *up("inference-2")).did(ev.Answer) == []
    story.at(5.1, *up("simulator-2"))
    assert story.reply == Reply(
        ok=True,
        text="trainer-2 with inference-2, simulator-2 running after 3.1 s",
        data={"names": NAMES, "running": NAMES, "seconds": 3.1},
    )
    attached = [(note.process, note.cause) for note in story.ever(ev.Note) if note.kind == "attached"]
    assert attached == [("trainer-2", ""), ("inference-2", "with trainer-2"), ("simulator-2", "with trainer-2")]
    assert story.orders["trainer-2.0"].members == [member(f"simulator-{i}") for i in range(3)]


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("request_", [asked("attach", learners=2), asked("detach", names=["trainer-1"])])
def test_learners_are_neither_attached_nor_detached_in_other_modes(mode: str, request_: ev.ClientRequest) -> None:
    story = two(mode).at(2, request_)
    assert not story.reply.ok
    verb = {"attach": "add", "detach": "remove"}[request_.request.command]
    assert f"a run in mode {mode} cannot {verb} learners; " in story.reply.text
    assert len(story.last) == 1


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({}, "attach 0 simulators, 0 learners: attach at least one; write --simulators 1, or --learners 1"),
        ({"learners": -1}, "attach 0 simulators, -1 learners: attach at least one; "),
        ({"learners": 1, "simulators": 2}, "attach 1 learners and 2 simulators: a request attaches either learners, "),
    ],
)
def test_an_invalid_attach_is_refused_at_once(wanted: dict[str, int], text: str) -> None:
    story = two("gossip").at(2, asked("attach", **wanted))
    assert story.reply.text.startswith(text)
    assert len(story.last) == 1


def test_a_learner_whose_trainer_dies_before_it_runs_is_removed_with_all_its_processes() -> None:
    story = bringing().at(3, *up("simulator-2"), spawned("inference-2"), failed("trainer-2", "KeyError: 'x'"))
    story.at(3.1, ev.Exited("trainer-2", 0, 1))
    why = "trainer-2 died before it was ready: KeyError: 'x'"
    assert story.reply.text == f"{why}; trainer-2 with inference-2, simulator-2 is not attached"
    assert story.did(ev.Kill) == [ev.Kill("inference-2", 0, TERM), ev.Kill("simulator-2", 0, TERM)]
    story.at(4, ev.Exited("inference-2", 0, -15), ev.Exited("simulator-2", 0, 0)).at(9, ev.Tick())
    assert [p["name"] for p in story.supervisor.processes()] == list(TWO)
    assert (story.supervisor.order.learners, story.supervisor.phase) == (BOTH, "running")
    assert story.did(Start) == []


@pytest.mark.parametrize("victim", ["inference-2", "simulator-2"])
def test_an_attached_learner_that_loses_a_process_before_all_run_is_removed(victim: str) -> None:
    other = next(name for name in NAMES[1:] if name != victim)
    story = bringing().at(3, *up("trainer-2", other), ev.Exited(victim, 0, 1))
    assert not story.reply.ok
    assert story.reply.text.startswith(
        f"{victim} died before it was ready: exit 1; its last output is in logs/{victim}.log; trainer-2 with "
    )
    story.at(3.5, ev.Tick())
    assert story.supervisor.order.learners == BOTH
    assert story.supervisor.order.leaving == ["trainer-2"]
    story.at(4, finished("trainer-2", "drained"), ev.Exited("trainer-2", 0, 0), ev.Exited(other, 0, 0))
    assert [p["name"] for p in story.supervisor.processes()] == list(TWO)
    assert story.supervisor.phase == "running"


def test_an_attached_learner_that_is_not_ready_in_time_is_removed() -> None:
    story = bringing().at(3, *up("inference-2", "simulator-2"), spawned("trainer-2")).at(62, ev.Tick())
    assert "trainer-2 was not ready within 60 s" in story.reply.text
    assert story.did(ev.Kill)[-1] == ev.Kill("trainer-2", 0, KILL)
    story.at(62.1, ev.Exited("trainer-2", 0, -9))
    assert {kill.name for kill in story.did(ev.Kill)} == {"inference-2", "simulator-2"}


def test_an_attached_learner_that_is_killed_is_restarted_from_its_checkpoint() -> None:
    story = with_a_third().at(4, ev.Exited("trainer-2", 0, -9))
    assert story.orders["trainer-0.0"].learners == BOTH
    story.at(5, ev.Tick())
    assert story.started == [("trainer-2", 1, True)]
    story.then(*up("trainer-2", incarnation=1))
    assert story.supervisor.order.learners == [*BOTH, trainer("trainer-2", 1)]


def test_a_learner_is_detached_with_all_its_processes() -> None:
    story = with_a_third().at(4, asked("detach", names=["trainer-2"]))
    order = story.orders["trainer-2.0"]
    assert (order.phase, order.leaving, order.learners) == ("run", ["trainer-2"], BOTH)
    assert story.did(ev.Kill) == []
    story.at(5, finished("trainer-2", "drained"))
    assert story.did(ev.Kill) == story.did(ev.Answer) == []
    story.at(5.1, ev.Exited("trainer-2", 0, 0))
    assert story.notes == [("detached", "trainer-2", 0, "drained")]
    assert story.did(ev.Kill) == [ev.Kill("inference-2", 0, TERM), ev.Kill("simulator-2", 0, TERM)]
    story.at(5.2, ev.Exited("simulator-2", 0, 0))
    assert story.did(ev.Answer) == []
    story.at(5.5, ev.Exited("inference-2", 0, 0))
    assert story.notes == [("detached", "inference-2", 0, "with trainer-2")]
    assert story.reply.text == "trainer-2 with inference-2, simulator-2 detached after 1.5 s"
    assert story.reply.data == {"names": NAMES, "seconds": 1.5}
    assert [p["name"] for p in story.supervisor.processes()] == list(TWO)
    assert story.supervisor.order.leaving == []
    assert story.supervisor.phase == "running"


def test_initial_learners_can_be_detached_but_not_the_last_one() -> None:
    story = two("gossip").at(2, asked("detach", names=["trainer-0", "trainer-1"]))
    assert story.reply.text.startswith("detach trainer-0, trainer-1: a run needs at least one learner; attach another")
    story.then(asked("detach", names=["trainer-0"])).at(3, finished("trainer-0", "drained"))
    assert story.then(asked("detach", names=["trainer-1"])).reply.text.startswith("detach trainer-1: a run needs at")
    story.at(4, ev.Exited("trainer-0", 0, 0), ev.Exited("simulator-0", 0, 0))
    assert story.reply.ok
    assert not story.then(asked("detach", names=["trainer-1"])).reply.ok
    assert story.supervisor.order.learners == [trainer("trainer-1")]


@pytest.mark.parametrize("there", ["attached", "given up"])
def test_learners_that_are_not_ready_or_were_given_up_do_not_count_as_remaining(there: str) -> None:
    story = bringing().then(asked("detach", names=["trainer-1"]))
    if there == "given up":
        story = lose(two("gossip"), "trainer-1")
    story.then(asked("detach", names=["trainer-0"]))
    assert "a run needs at least one learner" in story.reply.text


@pytest.mark.parametrize("lost", ["inference-2", "simulator-2"])
def test_a_learner_without_simulators_or_inference_servers_leaves_the_run(lost: str) -> None:
    story = lose(with_a_third(), lost)
    kinds = [(note.kind, note.process) for note in story.ever(ev.Note)]
    assert kinds[-2:] == [("gave up", lost), ("gave up", "trainer-2")]
    assert story.supervisor.order.leaving == ["trainer-2"]
    assert story.supervisor.order.learners == BOTH
    story.at(story.now_s + 1, finished("trainer-2", "drained"), *exits([n for n in NAMES if n != lost], 0))
    assert [p["name"] for p in story.supervisor.processes()] == list(TWO)
    assert story.supervisor.phase == "running"


def test_a_run_fails_when_no_learner_has_simulators_left() -> None:
    story = lose(two("gossip"), "simulator-1").at(90, *exits(["trainer-1"], 0))
    assert story.supervisor.phase == "running"
    lose(story, "simulator-0").at(200, *exits(["trainer-0"]))
    assert story.done == ev.Done("failed", 1, "simulator-0: exit 1; its last output is in logs/simulator-0.log")


def test_a_run_in_sync_fails_when_a_learner_has_no_simulators_left() -> None:
    story = lose(two(), "simulator-1").then(*exits(["trainer-0", "trainer-1", "simulator-0"]))
    assert story.done == ev.Done("failed", 1, "simulator-1: exit 1; its last output is in logs/simulator-1.log")


@pytest.mark.parametrize("quorum", [2, 3])
def test_a_run_fails_when_fewer_learners_than_the_quorum_have_simulators_left(quorum: int) -> None:
    story = lose(two("served", quorum=quorum), "simulator-1")
    story.then(*exits(["trainer-0", "trainer-1", "simulator-0"]))
    assert story.done == ev.Done("failed", 1, "simulator-1: exit 1; its last output is in logs/simulator-1.log")


@pytest.mark.parametrize("quorum", [0, 1])
def test_a_run_continues_while_enough_learners_for_the_quorum_have_simulators(quorum: int) -> None:
    story = lose(two("served", quorum=quorum), "simulator-1")
    assert story.supervisor.phase == "running" and story.done is None


@pytest.mark.parametrize("names", [["simulator-2", "trainer-2"], NAMES], ids=["two", "all that attach returned"])
def test_a_detach_may_also_name_the_other_processes_of_its_learner(names: list[str]) -> None:
    story = with_a_third().at(4, asked("detach", names=names))
    story.at(5, finished("trainer-2", "drained"), *exits(NAMES, 0))
    assert set(story.reply.data["names"]) == set(NAMES)
    assert story.reply.text.startswith("trainer-2 with ") and story.reply.text.endswith(" detached after 1.0 s")


def test_an_evaluator_is_not_detached_with_a_learner() -> None:
    roles = {**TWO, "evaluator": "evaluator"}
    story = Story(roles, mode="gossip").at(0, ev.Begin(), *up(*roles))
    story.at(2, asked("detach", names=["trainer-0", "evaluator"]))
    assert not story.reply.ok and "'evaluator' is not a simulator or trainer of this run" in story.reply.text
    assert story.supervisor.order.leaving == []
    story.at(3, asked("detach", names=["trainer-0"]))
    story.at(4, finished("trainer-0", "drained"), *exits(["trainer-0", "simulator-0"], 0))
    assert story.reply.text == "trainer-0 with simulator-0 detached after 1.0 s"
    assert story.state("evaluator") == "running"


def test_a_learner_that_dies_while_it_is_detached_is_not_restarted() -> None:
    story = with_a_third().at(4, asked("detach", names=["trainer-2"])).at(5, ev.Exited("trainer-2", 0, -9))
    assert [note[0] for note in story.notes] == ["died", "detached"]
    story.at(6, *exits(NAMES[1:], 0))
    assert story.reply.text.endswith("; trainer-2 died before it was drained: signal 9")
    assert story.at(9, ev.Tick()).did(Start) == []


def test_a_learner_that_has_died_is_detached_at_once() -> None:
    story = with_a_third().at(4, ev.Exited("trainer-2", 0, -9), asked("detach", names=["trainer-2"]))
    assert ("detached", "trainer-2", 0, "backoff") in story.notes
    story.at(5, *exits(NAMES[1:], 0))
    assert story.reply.ok
    assert story.at(9, ev.Tick()).did(Start) == []


def test_a_process_that_does_not_end_with_its_detached_trainer_is_killed_after_5_s() -> None:
    story = with_a_third().at(4, asked("detach", names=["simulator-2", "trainer-2"]))
    story.at(9.5, finished("trainer-2", "drained"), ev.Exited("trainer-2", 0, 0), ev.Exited("inference-2", 0, 0))
    assert story.at(14.4, ev.Tick()).did(ev.Kill) == []
    assert story.at(14.5, ev.Tick()).did(ev.Kill) == [ev.Kill("simulator-2", 0, KILL)]
    story.at(14.6, ev.Exited("simulator-2", 0, -9))
    assert story.reply.ok
    assert story.reply.text.endswith("simulator-2 died before it was drained: did not end in 5 s")


def test_the_games_of_a_detached_learner_count_in_the_summary() -> None:
    story = two("gossip").at(2, asked("detach", names=["trainer-0"]))
    story.at(3, finished("trainer-0", "drained", env_steps=90, episodes=3, episode_return_mean=9.0))
    story.then(ev.Exited("trainer-0", 0, 0), ev.Exited("simulator-0", 0, 0))
    assert story.supervisor.phase == "running"
    story.at(9, finished("trainer-1", "total_steps", env_steps=100, episodes=4, episode_return_mean=1.0))
    story.at(9.5, *exits(["trainer-1", "simulator-1"], 0))
    assert story.done == ev.Done("finished", 0, summary={"env_steps": 100, "episodes": 7, "episode_return_mean": 1.0})


def test_a_run_whose_last_learner_dies_at_the_end_fails_although_a_detached_one_finished() -> None:
    story = two("gossip").at(2, asked("detach", names=["trainer-0"])).at(3, finished("trainer-0", "drained"))
    story.then(ev.Exited("trainer-0", 0, 0), ev.Exited("simulator-0", 0, 0))
    story.at(4, ev.Interrupted(), ev.Exited("trainer-1", 0, -9), ev.Exited("simulator-1", 0, 0))
    assert story.done == ev.Done("failed", 1, "trainer-1 ended before it finished its work: signal 9")
