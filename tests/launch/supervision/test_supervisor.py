"""Histories of runs: processes start, die, are restarted or given up, and their messages are reported."""

from __future__ import annotations

import pytest

from actorlearn.parameters.chosen_checkpoints import Best
from actorlearn.wire.messages import MOST_NAMES, Evaluated, Order, Released, Report, Saved, Warned, encode
from launch.plan.plan import Start
from launch.supervision import events as ev
from tests.launch.supervision.story import (
    KILL,
    OTHERS,
    RESTARTS,
    ROLES,
    TERM,
    UNSAVED_RESTARTS,
    Story,
    attaching,
    exits,
    failed,
    finished,
    hello,
    lose,
    member,
    received,
    running,
    spawned,
    up,
)

# Starting -------------------------------------------------------------------------------------------------------------


def test_all_processes_are_spawned_at_the_beginning() -> None:
    story = Story().at(0, ev.Begin())
    assert story.started == [(name, 0, False) for name in ROLES] and len(story.last) == len(ROLES)


def test_only_the_trainer_of_a_resumed_run_starts_from_a_checkpoint() -> None:
    story = Story(resume=True).at(0, ev.Begin())
    assert [spawn.name for spawn in story.did(Start) if spawn.resume] == ["trainer"]


def test_the_first_order_after_a_hello_lists_no_members() -> None:
    story = Story().at(0, ev.Begin()).at(1, *up("trainer"))
    assert story.orders == {"trainer.0": Order(version=1)}
    assert story.notes == [("spawned", "trainer", 0, ""), ("ready", "trainer", 0, "")]


def test_members_are_listed_when_all_initial_simulators_have_said_hello() -> None:
    story = Story().at(0, ev.Begin()).at(1, *up("trainer", "inference-0", "simulator-1"))
    assert all(order.members == [] for order in story.orders.values())
    story.at(5, *up("simulator-0"))
    expected = Order(version=2, members=[member("simulator-0"), member("simulator-1")])
    assert story.orders["trainer.0"] == story.orders["inference-0.0"] == expected


def test_the_first_list_of_members_does_not_wait_for_a_simulator_that_was_given_up() -> None:
    story = Story().at(0, ev.Begin()).at(1, *up("trainer", "simulator-1"))
    for i in range(RESTARTS + 1):
        story.at(10.0 * i + 2, ev.Exited("simulator-0", i, 1)).at(10.0 * i + 10, ev.Tick())
    assert story.state("simulator-0") == "fatal"
    assert story.supervisor.order.members == [member("simulator-1")]
    assert story.done is None


def test_a_process_that_stalls_before_its_hello_is_killed_and_counts_as_dead() -> None:
    story = Story().at(0, ev.Begin()).at(1, spawned("simulator-0")).at(1000, ev.Tick())
    assert story.did(ev.Kill) == []  # time alone kills no process: it may be restoring a replay
    story.at(1001, ev.Stalled("simulator-0", 0, 120.6))
    assert ev.Kill("simulator-0", 0, KILL) in story.last
    story.at(1001.1, ev.Exited("simulator-0", 0, -9))
    assert story.notes == [
        ("died", "simulator-0", 0, "the process did not report that it runs, and showed no sign of life for 121 s")
    ]
    assert story.state("simulator-0") == "backoff"


def test_a_process_that_cannot_be_spawned_counts_as_dead() -> None:
    story = Story().at(0, ev.Begin()).at(1, ev.NotSpawned("simulator-0", 0, "cannot be started: no memory"))
    assert story.notes == [("died", "simulator-0", 0, "cannot be started: no memory")]
    assert story.state("simulator-0") == "backoff"


FULL = "cannot be started: No space left on device"


def no_room(name: str, incarnation: int = 0) -> ev.NotSpawned:
    return ev.NotSpawned(name, incarnation, FULL, passing=True)


@pytest.mark.parametrize("name", ROLES)
def test_a_start_that_fails_on_a_full_disk_is_retried_until_it_succeeds(name: str) -> None:
    """Retries outlast the restart budget, at the beginning of a run and later, for a trainer too."""
    for incarnation in (0, 1):
        story = Story().at(0, ev.Begin())
        if incarnation:
            story.at(1, *up(*ROLES)).at(2, ev.Exited(name, 0, -9)).at(3, ev.Tick())
        story.then(no_room(name, incarnation))
        assert story.notes == [("warned", name, incarnation, f"{FULL}; the start is retried until it succeeds")]
        tries = 0
        for now_s in range(4, 1000):
            story.at(now_s, ev.Tick())
            if spawn := story.did(Start):
                tries += 1
                assert [(s.name, s.incarnation) for s in spawn] == [(name, incarnation)]
                story.then(no_room(name, incarnation))
                assert story.notes == []
        assert tries > 30 and story.done is None
        story.at(2000, ev.Tick(), *up(name, incarnation=incarnation))
        assert story.state(name) == "running"


def test_a_process_that_waits_for_disk_space_does_not_delay_the_end_of_the_run() -> None:
    story = Story().at(0, ev.Begin()).at(1, *up(*ROLES)).at(2, ev.Exited("trainer", 0, -9)).at(3, ev.Tick())
    story.then(no_room("trainer", 1), ev.Interrupted())
    story.then(*(ev.Exited(name, 0, 0) for name in ROLES if name != "trainer"))
    assert story.done is not None and story.done.status == "stopped"


def test_an_attach_that_finds_no_disk_space_is_answered_with_the_reason() -> None:
    story = attaching().then(no_room("simulator-2"))
    assert not story.reply.ok and FULL in story.reply.text


# Deaths ---------------------------------------------------------------------------------------------------------------


def test_a_dead_simulator_leaves_the_members_and_its_next_incarnation_joins_them() -> None:
    story = running().at(2, ev.Exited("simulator-0", 0, -9))
    assert story.notes == [("died", "simulator-0", 0, "signal 9")]
    assert story.orders["trainer.0"].members == [member("simulator-1")]
    assert story.at(2.1, ev.Tick()).did(Start) == []
    assert story.at(2.2, ev.Tick()).started == [("simulator-0", 1, False)]
    story.at(3, *up("simulator-0", incarnation=1))
    assert story.notes[-1] == ("restarted", "simulator-0", 1, "")
    assert story.orders["trainer.0"].members == [member("simulator-0", 1), member("simulator-1")]


def test_the_member_of_a_dead_simulator_is_listed_until_its_trainer_has_released_it() -> None:
    story = running().at(2, ev.Exited("simulator-0", 0, -9))
    assert story.orders["trainer.0"].gone == [member("simulator-0")]
    story.at(3, ev.Exited("trainer", 0, -9)).at(4, ev.Tick(), *up("trainer", incarnation=1))
    assert story.orders["trainer.1"].gone == [member("simulator-0")], (
        "a restarted trainer gets the list of its predecessor"
    )
    released = Released(peers=["simulator-0.0", "simulator-9.9"])
    story.at(5, received("simulator-1", released))
    assert story.supervisor.order.gone == [member("simulator-0")], "only its trainer can release it"
    assert story.ever(ev.DropMembers) == []
    story.at(6, received("trainer", released, 1))
    assert story.orders["trainer.1"].gone == []
    assert story.did(ev.DropMembers) == [ev.DropMembers(["simulator-0.0"])]


def test_segments_stay_for_trainers_that_still_count_while_the_run_ends() -> None:
    story = running().at(2, ev.Exited("simulator-0", 0, -9), ev.CannotRun("no nodes"))
    assert story.supervisor.phase == "ending"
    story.at(3, received("trainer", Released(peers=["simulator-0.0"])), *exits(OTHERS), ev.Exited("trainer", 0, -9))
    assert story.done is not None and story.ever(ev.DropMembers) == []


def test_an_order_lists_no_more_dead_members_than_a_message_may_hold() -> None:
    story = running()
    for incarnation in range(MOST_NAMES + 4):
        now_s = 1000.0 * (incarnation + 1)
        story.at(now_s, ev.Exited("simulator-0", incarnation, -9)).at(now_s + 500, ev.Tick())
        story.at(now_s + 501, *up("simulator-0", incarnation=incarnation + 1))
    order = story.orders["trainer.0"]
    assert order.gone == [member("simulator-0", incarnation) for incarnation in range(MOST_NAMES)]
    encode(order)  # it refuses an order that is too large
    assert story.ever(ev.DropMembers) == []
    story.at(1e6, received("trainer", Released(peers=[f"simulator-0.{dead}" for dead in range(MOST_NAMES)])))
    assert story.orders["trainer.0"].gone == [member("simulator-0", MOST_NAMES + more) for more in range(4)]
    dropped = [word for action in story.did(ev.DropMembers) for word in action.ids]
    assert dropped == [f"simulator-0.{dead}" for dead in range(MOST_NAMES)]


def test_a_simulator_that_died_before_its_hello_is_not_listed() -> None:
    story = running().at(2, ev.Exited("simulator-0", 0, -9)).at(2.2, ev.Tick(), spawned("simulator-0", 1))
    assert story.at(3, ev.Exited("simulator-0", 1, -9)).supervisor.order.gone == [member("simulator-0")]
    assert story.did(ev.DropMembers) == [ev.DropMembers(["simulator-0.1"])]


@pytest.mark.parametrize("name", ["inference-0", "evaluator-0"])
def test_inference_servers_and_evaluators_are_restarted(name: str) -> None:
    story = running().at(2, failed(name, "ValueError: nan"), ev.Exited(name, 0, 1)).at(3, ev.Tick())
    assert (name, 1, False) in story.started
    story.at(4, *up(name, incarnation=1))
    assert story.notes[-1] == ("restarted", name, 1, "")


def test_a_death_is_reported_with_the_error_that_the_process_sent() -> None:
    story = running().at(2, failed("simulator-0", "ValueError: bad\nreward"), ev.Exited("simulator-0", 0, 1))
    assert story.notes == [("failed", "simulator-0", 0, "reward"), ("died", "simulator-0", 0, "exit 1")]
    assert story.did(ev.Note)[1].fields == {"error": "reward"}


def test_an_exit_with_0_that_nobody_asked_for_is_a_death() -> None:
    story = running().at(2, ev.Exited("simulator-1", 0, 0))
    assert story.notes == [("died", "simulator-1", 0, "exit 0")]
    assert story.state("simulator-1") == "backoff"


def test_a_stalled_process_is_killed_and_its_death_is_reported_as_a_hang() -> None:
    story = running().at(2, ev.Stalled("simulator-0", 0, 10.0), ev.Stalled("simulator-0", 0, 10.1))
    assert story.did(ev.Kill) == [ev.Kill("simulator-0", 0, KILL)]
    story.at(2.1, ev.Exited("simulator-0", 0, -9))
    assert story.notes == [("died", "simulator-0", 0, "hang")]


@pytest.mark.parametrize("hangs", [False, True])
def test_a_silent_process_is_reported_and_asked_for_its_stack(hangs: bool) -> None:
    story = running().at(
        40, ev.Silent("trainer", 0, 31.4, "the process computes; the limit is x: 1800", hangs, stack=True)
    )
    said = "no sign of life for 31 s: the process computes; the limit is x: 1800"
    kind = "silent" if hangs else "slow"
    assert story.notes == [(kind, "trainer", 0, f"{said}; its stack is in logs/trainer.log")]
    assert story.did(ev.ShowStack) == [ev.ShowStack("trainer", 0, said)]
    assert story.did(ev.Kill) == []


def test_a_process_that_cannot_show_its_stack_yet_is_not_asked_for_it() -> None:
    story = Story().at(0, ev.Begin()).at(1, spawned("trainer"))
    story.at(130, ev.Silent("trainer", 0, 120.1, "it waits", True, stack=False))
    assert story.notes == [("silent", "trainer", 0, "no sign of life for 120 s: it waits")]
    assert story.did(ev.ShowStack) == []


def test_the_silence_of_a_killed_process_or_another_incarnation_is_not_reported() -> None:
    story = running().at(2, ev.Stalled("trainer", 0, 30.0)).then(ev.Silent("trainer", 0, 60.0, "it waits", True, True))
    assert story.notes == [] and story.did(ev.ShowStack) == []
    assert story.then(ev.Silent("trainer", 1, 60.0, "it waits", True, True)).last == []


def test_a_restarted_trainer_continues_from_its_checkpoint() -> None:
    story = running().at(2, ev.Exited("trainer", 0, -9)).at(3, ev.Tick())
    assert story.started == [("trainer", 1, True)]
    story.at(4, *up("trainer", incarnation=1))
    assert story.orders["trainer.1"].members == [member("simulator-0"), member("simulator-1")]


def diverge(story: Story, times: int, first: int = 0) -> Story:
    """Let the trainer die every 14 s, which the restart budget of a minute allows."""
    for i in range(first, first + times):
        story.at(story.now_s + 14, failed("trainer", "FloatingPointError: nan", i), ev.Exited("trainer", i, 1))
        story.at(story.now_s + 4, ev.Tick()).then(*up("trainer", incarnation=i + 1))
    return story


def saved(env_steps: int, incarnation: int = 0) -> ev.Received:
    return received("trainer", Saved(path="c", env_steps=env_steps, order=0), incarnation)


def test_a_trainer_that_never_gets_beyond_its_checkpoint_fails_the_run() -> None:
    story = diverge(running().at(2, saved(0), saved(500)), UNSAVED_RESTARTS)
    assert story.state("trainer") == "running"
    story.then(saved(500, UNSAVED_RESTARTS))  # saving the same steps again is no progress
    story.at(story.now_s + 14, ev.Exited("trainer", UNSAVED_RESTARTS, 1))
    assert story.state("trainer") == "fatal"
    limit = "supervision.unsaved_restarts (3) allows without a newer checkpoint"
    assert story.notes[-1][3] == f"died more often than {limit}; FloatingPointError: nan"
    story.then(*exits(OTHERS))
    assert story.done == ev.Done("failed", 1, "trainer: FloatingPointError: nan")


def test_a_trainer_that_saves_between_its_deaths_may_die_for_ever() -> None:
    story = running().at(2, saved(0))
    for i in range(3 * RESTARTS):
        diverge(story, 1, first=i).then(saved(100 + i, i + 1))
    assert story.state("trainer") == "running"
    assert story.done is None


def test_a_trainer_that_stops_without_an_order_is_restarted() -> None:
    story = running().at(2, finished("trainer", "stopped"), ev.Exited("trainer", 0, 0)).at(3, ev.Tick())
    assert story.started == [("trainer", 1, True)]


def test_a_trainer_that_dies_before_its_hello_fails_the_run_with_its_error() -> None:
    story = Story().at(0, ev.Begin()).at(1, failed("trainer", "RuntimeError: no GPU"), ev.Exited("trainer", 0, 1))
    others = [name for name in ROLES if name != "trainer"]
    assert {(kill.name, kill.signal) for kill in story.did(ev.Kill)} == {(name, TERM) for name in others}
    story.at(2, *exits(others))
    assert story.done == ev.Done("failed", 1, "trainer: RuntimeError: no GPU")


def test_a_trainer_that_is_killed_before_its_hello_ends_the_run() -> None:
    story = Story().at(0, ev.Begin()).at(1, spawned("trainer"), ev.Exited("trainer", 0, -KILL))
    story.at(2, *exits([name for name in ROLES if name != "trainer"]))
    assert story.done == ev.Done("failed", 1, "trainer: signal 9; its last output is in logs/trainer.log")


def test_a_crash_loop_of_an_inference_server_fails_the_run() -> None:
    story, now_s = running(), 2.0
    for i in range(RESTARTS + 1):
        story.at(now_s, failed("inference-0", f"ValueError: {i}", i), ev.Exited("inference-0", i, 1))
        now_s += 4.0
        story.at(now_s, ev.Tick())
        if i < RESTARTS:
            story.then(*up("inference-0", incarnation=i + 1))
    kinds = [note.kind for note in story.ever(ev.Note) if note.process == "inference-0"]
    assert kinds.count("died") == RESTARTS + 1
    assert kinds.count("restarted") == RESTARTS
    assert kinds.count("gave up") == 1
    story.then(*exits(name for name in ROLES if name != "inference-0"))
    assert story.done == ev.Done("failed", 1, "inference-0: ValueError: 0")


def test_a_run_continues_when_one_simulator_is_given_up() -> None:
    story = lose(running(), "simulator-0")
    assert story.done is None
    assert story.supervisor.phase == "running"


def test_a_run_fails_when_all_simulators_are_given_up() -> None:
    story = lose(lose(running(), "simulator-0"), "simulator-1")
    story.then(*exits(["trainer", "inference-0", "evaluator-0"]))
    assert story.done == ev.Done("failed", 1, "simulator-0: exit 1; its last output is in logs/simulator-0.log")


def test_a_run_continues_when_its_evaluator_is_given_up() -> None:
    assert lose(running(), "evaluator-0").done is None


# Fencing --------------------------------------------------------------------------------------------------------------


def test_events_of_an_old_incarnation_are_ignored() -> None:
    story = running().at(2, ev.Exited("simulator-0", 0, -9)).at(3, ev.Tick()).at(4, *up("simulator-0", incarnation=1))
    story.at(
        5,
        hello("simulator-0", 0),
        finished("simulator-0", "drained", 0),
        failed("simulator-0", "late", 0),
        ev.Exited("simulator-0", 0, -9),
        ev.Stalled("simulator-0", 0, 99.0),
    )
    assert story.last == []
    assert story.state("simulator-0") == "running"


def test_a_finished_message_after_the_death_of_the_trainer_is_ignored() -> None:
    story = running().at(2, ev.Exited("trainer", 0, -9), finished("trainer", "total_steps"))
    assert story.supervisor.phase == "running"


def test_a_spawned_process_that_is_not_listed_is_killed() -> None:
    assert running().at(2, ev.Spawned("simulator-7", 0, 9)).last == [ev.Kill("simulator-7", 0, KILL)]


# Reports --------------------------------------------------------------------------------------------------------------


def test_orders_name_the_steps_of_the_best_evaluation_whose_checkpoint_trainers_keep() -> None:
    story = running()
    for at_s, (env_steps, score) in enumerate([(100, 3.0), (200, 2.0), (300, 3.0), (400, 4.0)], 2):
        story.at(at_s, received("evaluator-0", Evaluated(policy_version=7, env_steps=env_steps, returns=[score])))
        best = 400 if env_steps == 400 else 100
        assert story.supervisor.order.best_steps == best
        told = [action.best for action in story.did(ev.NewBest)]
        assert told == ([Best(env_steps, score, "evaluation")] if best == env_steps else [])


def test_reports_become_metric_rows_and_other_messages_become_notes() -> None:
    evaluated = Evaluated(policy_version=7, env_steps=1_000_000, returns=[1.0, 3.0])
    warned = Warned(text="update 3 skipped")
    story = running().at(2, received("trainer", Report(row={"env_steps": 5})), received("trainer", warned))
    assert story.did(ev.MetricsRow) == [ev.MetricsRow("trainer", {"env_steps": 5})]
    assert story.notes == [("warned", "trainer", 0, "update 3 skipped")]
    story.at(3, received("evaluator-0", evaluated))
    assert story.notes == [("evaluated", "evaluator-0", 0, "2.0 over 2 games at 1,000,000 steps")]
    assert story.did(ev.Note)[0].fields == {
        "mean": 2.0,
        "policy_version": 7,
        "env_steps": 1_000_000,
        "returns": [1.0, 3.0],
    }
