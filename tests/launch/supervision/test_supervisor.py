"""Histories of runs: what happened, when, and what the supervisor did about it. No process, no socket, no sleep."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actorlearn import __version__
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import (
    MOST_NAMES,
    PROTOCOL_VERSION,
    Applied,
    Evaluated,
    Order,
    Refused,
    Released,
    Reply,
    Report,
    Request,
    Saved,
    Warned,
    encode,
)
from launch.plan.processes import PlannedProcess
from launch.supervision import events as ev
from tests.examples import examples
from tests.identities import process, trainer
from tests.launch.supervision.story import (
    KILL,
    NO_EVALUATOR,
    OTHERS,
    REST,
    RESTARTS,
    ROLES,
    SHAPE,
    TERM,
    TWO,
    UNSAVED_RESTARTS,
    WINDOW_S,
    Story,
    asked,
    exits,
    failed,
    finished,
    hello,
    member,
    received,
    running,
    spawned,
    up,
)

# Starting -------------------------------------------------------------------------------------------------------------


def test_everybody_is_spawned_at_the_beginning() -> None:
    story = Story().at(0, ev.Begin())
    assert story.last == [ev.Spawn(name, 0, False) for name in ROLES]


def test_a_resumed_run_tells_only_the_trainer() -> None:
    story = Story(resume=True).at(0, ev.Begin())
    assert [spawn.name for spawn in story.did(ev.Spawn) if spawn.resume] == ["trainer"]


def test_whoever_says_hello_gets_an_order_with_an_empty_members_first() -> None:
    story = Story().at(0, ev.Begin()).at(1, *up("trainer"))
    assert story.orders == {"trainer.0": Order(version=1)}
    assert story.notes == [("spawned", "trainer", 0, ""), ("ready", "trainer", 0, "")]


def test_the_first_members_waits_for_all_first_simulators() -> None:
    story = Story().at(0, ev.Begin()).at(1, *up("trainer", "inference-0", "simulator-1"))
    assert all(order.members == [] for order in story.orders.values())
    story.at(5, *up("simulator-0"))
    expected = Order(version=2, members=[member("simulator-0"), member("simulator-1")])
    assert story.orders["trainer.0"] == story.orders["inference-0.0"] == expected


def test_the_first_members_does_not_wait_for_a_simulator_that_was_given_up() -> None:
    story = Story().at(0, ev.Begin()).at(1, *up("trainer", "simulator-1"))
    for i in range(RESTARTS + 1):
        story.at(10.0 * i + 2, ev.Exited("simulator-0", i, 1)).at(10.0 * i + 10, ev.Tick())
    assert story.state("simulator-0") == "fatal"
    assert story.supervisor.order.members == [member("simulator-1")]
    assert story.done is None


def test_silence_before_hello_counts_as_a_death() -> None:
    story = Story().at(0, ev.Begin()).at(1, spawned("simulator-0")).at(1000, ev.Tick())
    assert story.did(ev.Kill) == []  # it may be restoring a replay: that it is alive is not for us to see
    story.at(1001, ev.Stalled("simulator-0", 0, 120.6))
    assert ev.Kill("simulator-0", 0, KILL) in story.last
    story.at(1001.1, ev.Exited("simulator-0", 0, -9))
    assert story.notes == [("died", "simulator-0", 0, "no Hello, and no sign of life for 121 s")]
    assert story.state("simulator-0") == "backoff"


def test_what_cannot_be_spawned_has_died() -> None:
    story = Story().at(0, ev.Begin()).at(1, ev.NotSpawned("simulator-0", 0, "cannot be started: no memory"))
    assert story.notes == [("died", "simulator-0", 0, "cannot be started: no memory")]
    assert story.state("simulator-0") == "backoff"


FULL = "cannot be started: No space left on device"


def no_room(name: str, incarnation: int = 0) -> ev.NotSpawned:
    return ev.NotSpawned(name, incarnation, FULL, passing=True)


@pytest.mark.parametrize("name", ROLES)
def test_what_finds_no_room_on_a_full_disk_is_tried_until_it_does(name: str) -> None:
    """For longer than any budget of restarts lasts, at the beginning of a run and in it; a trainer too."""
    for incarnation in (0, 1):
        story = Story().at(0, ev.Begin())
        if incarnation:
            story.at(1, *up(*ROLES)).at(2, ev.Exited(name, 0, -9)).at(3, ev.Tick())
        story.then(no_room(name, incarnation))
        assert story.notes == [("warned", name, incarnation, f"{FULL}; it is tried again until it can be")]
        tries = 0
        for now_s in range(4, 1000):
            story.at(now_s, ev.Tick())
            if spawn := story.did(ev.Spawn):
                tries += 1
                assert [(s.name, s.incarnation) for s in spawn] == [(name, incarnation)]
                story.then(no_room(name, incarnation))
                assert story.notes == []
        assert tries > 30 and story.done is None
        story.at(2000, ev.Tick(), *up(name, incarnation=incarnation))
        assert story.state(name) == "running"


def test_who_waits_for_room_goes_with_the_run() -> None:
    story = Story().at(0, ev.Begin()).at(1, *up(*ROLES)).at(2, ev.Exited("trainer", 0, -9)).at(3, ev.Tick())
    story.then(no_room("trainer", 1), ev.Interrupted())
    story.then(*(ev.Exited(name, 0, 0) for name in ROLES if name != "trainer"))
    assert story.done is not None and story.done.status == "stopped"


def test_a_guest_that_finds_no_room_is_told_so() -> None:
    story = attaching().then(no_room("simulator-2"))
    assert not story.reply.ok and FULL in story.reply.text


# Admission ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "field", "said", "expected"),
    [
        ({"protocol": 99}, "protocol", "99", str(PROTOCOL_VERSION)),
        ({"version": "0.0.1"}, "version", "0.0.1", __version__),
        ({"run_id": "run-2"}, "run_id", "run-2", "run-1"),
        ({"id": process("simulator-9")}, "name", "simulator-9.0", "simulator-0.0"),
        ({"shape": {**SHAPE, "env.id": "Acrobot-v1"}}, "env.id", "Acrobot-v1", "CartPole-v1"),
        ({"shape": {"env.id": "CartPole-v1", "algorithm.horizon": "16"}}, "observation", "not said", "float32[4]"),
        ({"shape": {**SHAPE, "colour": "red"}}, "colour", "red", "no such field"),
    ],
)
def test_a_stranger_is_refused_with_both_values(other: dict[str, Any], field: str, said: str, expected: str) -> None:
    story = Story().at(0, ev.Begin()).at(1, spawned("simulator-0")).at(2, hello("simulator-0", **other))
    (send,) = story.did(ev.Send)
    assert isinstance(send.message, Refused)
    assert send.message.reason.startswith(f"simulator-0: {field} is {said}, this run has {expected}; ")
    assert story.notes == [("refused", "simulator-0", 0, send.message.reason)]
    story.at(2.5, ev.Exited("simulator-0", 0, 3)).at(60, ev.Tick())
    assert story.state("simulator-0") == "fatal"
    assert story.did(ev.Spawn) == []


def test_a_refused_process_that_stays_is_killed_after_2_s() -> None:
    story = Story().at(0, ev.Begin()).at(1, spawned("simulator-0"), hello("simulator-0", run_id="x"))
    assert story.at(2.9, ev.Tick()).did(ev.Kill) == []
    assert story.at(3.0, ev.Tick()).did(ev.Kill) == [ev.Kill("simulator-0", 0, KILL)]


def test_only_simulators_are_asked_for_their_shape() -> None:
    story = Story().at(0, ev.Begin()).at(1, spawned("trainer"), hello("trainer", shape={"env.id": "other"}))
    assert story.state("trainer") == "running"


def test_a_refused_trainer_fails_the_run() -> None:
    story = Story().at(0, ev.Begin()).at(1, spawned("trainer"), hello("trainer", version="0"))
    story.at(1.5, ev.Exited("trainer", 0, 3)).at(2, *exits(n for n in ROLES if n != "trainer"))
    assert story.done is not None
    assert "version is 0" in story.done.error


# Orders ---------------------------------------------------------------------------------------------------------------


def test_an_order_is_said_again_until_it_is_applied() -> None:
    story = running()
    version = story.supervisor.order.version
    applied = [received(n, Applied(order=version)) for n in ROLES if n != "trainer"]
    story.at(1.4, *applied, ev.Tick())
    assert story.orders == {}
    assert set(story.at(1.5, ev.Tick()).orders) == {"trainer.0"}
    assert story.at(1.9, ev.Tick()).orders == {}
    assert set(story.at(2.0, ev.Tick()).orders) == {"trainer.0"}
    story.at(2.1, received("trainer", Applied(order=version)))
    assert story.at(9.0, ev.Tick()).orders == {}


def test_an_old_version_applied_is_not_the_newest_applied() -> None:
    story = running().at(1.2, received("trainer", Applied(order=1)))
    assert "trainer.0" in story.at(2, ev.Tick()).orders


def test_versions_only_rise() -> None:
    story = running().at(2, ev.Exited("simulator-0", 0, -9)).at(3, ev.Tick())
    story.at(4, *up("simulator-0", incarnation=1), asked("save"), ev.Interrupted())
    versions = [send.message.version for send in story.ever(ev.Send) if isinstance(send.message, Order)]
    assert versions == sorted(versions)
    assert len(set(versions)) == 6


# Deaths ---------------------------------------------------------------------------------------------------------------


def test_a_dead_simulator_leaves_the_members_and_its_successor_takes_the_place() -> None:
    story = running().at(2, ev.Exited("simulator-0", 0, -9))
    assert story.notes == [("died", "simulator-0", 0, "signal 9")]
    assert story.orders["trainer.0"].members == [member("simulator-1")]
    assert story.at(2.1, ev.Tick()).did(ev.Spawn) == []
    assert story.at(2.2, ev.Tick()).did(ev.Spawn) == [ev.Spawn("simulator-0", 1, False)]
    story.at(3, *up("simulator-0", incarnation=1))
    assert story.notes[-1] == ("restarted", "simulator-0", 1, "")
    assert story.orders["trainer.0"].members == [member("simulator-0", 1), member("simulator-1")]


def test_the_member_of_a_dead_simulator_is_listed_until_its_trainer_has_released_it() -> None:
    story = running().at(2, ev.Exited("simulator-0", 0, -9))
    assert story.orders["trainer.0"].gone == [member("simulator-0")]
    story.at(3, ev.Exited("trainer", 0, -9)).at(4, ev.Tick(), *up("trainer", incarnation=1))
    assert story.orders["trainer.1"].gone == [member("simulator-0")], "who comes back needs what its predecessor did"
    released = Released(peers=["simulator-0.0", "simulator-9.9"])
    story.at(5, received("simulator-1", released))
    assert story.supervisor.order.gone == [member("simulator-0")], "nobody else can say so"
    story.at(6, received("trainer", released, 1))
    assert story.orders["trainer.1"].gone == []


def test_an_order_lists_no_more_of_the_dead_than_a_message_may() -> None:
    story = running()
    for incarnation in range(MOST_NAMES + 4):
        now_s = 1000.0 * (incarnation + 1)
        story.at(now_s, ev.Exited("simulator-0", incarnation, -9)).at(now_s + 500, ev.Tick())
        story.at(now_s + 501, *up("simulator-0", incarnation=incarnation + 1))
    order = story.orders["trainer.0"]
    assert order.gone == [member("simulator-0", incarnation) for incarnation in range(MOST_NAMES)]
    encode(order)  # which refuses one that is too large
    assert len(story.supervisor.gone_members()) == MOST_NAMES + 4
    story.at(1e6, received("trainer", Released(peers=[f"simulator-0.{dead}" for dead in range(MOST_NAMES)])))
    assert story.orders["trainer.0"].gone == [member("simulator-0", MOST_NAMES + more) for more in range(4)]


def test_the_member_of_one_that_never_took_part_is_not_listed() -> None:
    story = running().at(2, ev.Exited("simulator-0", 0, -9)).at(2.2, ev.Tick(), spawned("simulator-0", 1))
    assert story.at(3, ev.Exited("simulator-0", 1, -9)).supervisor.order.gone == [member("simulator-0")]


@pytest.mark.parametrize("name", ["inference-0", "evaluator-0"])
def test_servers_and_evaluators_come_back_too(name: str) -> None:
    story = running().at(2, failed(name, "ValueError: nan"), ev.Exited(name, 0, 1)).at(3, ev.Tick())
    assert ev.Spawn(name, 1, False) in story.last
    story.at(4, *up(name, incarnation=1))
    assert story.notes[-1] == ("restarted", name, 1, "")


def test_a_death_carries_what_the_process_said_of_it() -> None:
    story = running().at(2, failed("simulator-0", "ValueError: bad\nreward"), ev.Exited("simulator-0", 0, 1))
    assert story.notes == [("failed", "simulator-0", 0, "reward"), ("died", "simulator-0", 0, "exit 1")]
    assert story.did(ev.Note)[1].fields == {"error": "reward"}


def test_an_exit_with_0_that_nobody_asked_for_is_a_death() -> None:
    story = running().at(2, ev.Exited("simulator-1", 0, 0))
    assert story.notes == [("died", "simulator-1", 0, "exit 0")]
    assert story.state("simulator-1") == "backoff"


def test_a_hang_is_killed_and_called_by_its_name() -> None:
    story = running().at(2, ev.Stalled("simulator-0", 0, 10.0), ev.Stalled("simulator-0", 0, 10.1))
    assert story.did(ev.Kill) == [ev.Kill("simulator-0", 0, KILL)]
    story.at(2.1, ev.Exited("simulator-0", 0, -9))
    assert story.notes == [("died", "simulator-0", 0, "hang")]


@pytest.mark.parametrize("hangs", [False, True])
def test_who_is_silent_is_told_of_and_asked_for_its_stack(hangs: bool) -> None:
    story = running().at(40, ev.Silent("trainer", 0, 31.4, "it computes; the limit is x: 1800", hangs, stack=True))
    said = "no sign of life for 31 s: it computes; the limit is x: 1800"
    kind = "silent" if hangs else "slow"
    assert story.notes == [(kind, "trainer", 0, f"{said}; its stack is in logs/trainer.log")]
    assert story.did(ev.ShowStack) == [ev.ShowStack("trainer", 0, said)]
    assert story.did(ev.Kill) == []


def test_who_cannot_show_its_stack_yet_is_not_asked() -> None:
    story = Story().at(0, ev.Begin()).at(1, spawned("trainer"))
    story.at(130, ev.Silent("trainer", 0, 120.1, "it waits", True, stack=False))
    assert story.notes == [("silent", "trainer", 0, "no sign of life for 120 s: it waits")]
    assert story.did(ev.ShowStack) == []


def test_a_silence_that_nobody_waits_for_is_not_told() -> None:
    story = running().at(2, ev.Stalled("trainer", 0, 30.0)).then(ev.Silent("trainer", 0, 60.0, "it waits", True, True))
    assert story.notes == [] and story.did(ev.ShowStack) == []
    assert story.then(ev.Silent("trainer", 1, 60.0, "it waits", True, True)).last == []


def test_the_trainer_goes_on_from_its_checkpoint() -> None:
    story = running().at(2, ev.Exited("trainer", 0, -9)).at(3, ev.Tick())
    assert story.did(ev.Spawn) == [ev.Spawn("trainer", 1, True)]
    story.at(4, *up("trainer", incarnation=1))
    assert story.orders["trainer.1"].members == [member("simulator-0"), member("simulator-1")]


def diverge(story: Story, times: int, first: int = 0) -> Story:
    """Let the trainer die every 14 s, which no window of a minute finds too often."""
    for i in range(first, first + times):
        story.at(story.now_s + 14, failed("trainer", "FloatingPointError: nan", i), ev.Exited("trainer", i, 1))
        story.at(story.now_s + 4, ev.Tick()).then(*up("trainer", incarnation=i + 1))
    return story


def saved(env_steps: int, incarnation: int = 0) -> ev.Received:
    return received("trainer", Saved(path="c", env_steps=env_steps, order=0), incarnation)


def test_a_trainer_that_never_gets_beyond_its_checkpoint_fails_the_run() -> None:
    story = diverge(running().at(2, saved(0), saved(500)), UNSAVED_RESTARTS)
    assert story.state("trainer") == "running"
    story.then(saved(500, UNSAVED_RESTARTS))  # the same once more is no progress
    story.at(story.now_s + 14, ev.Exited("trainer", UNSAVED_RESTARTS, 1))
    assert story.state("trainer") == "fatal"
    assert story.notes[-1][3] == "died too often without a newer checkpoint; FloatingPointError: nan"
    story.then(*exits(OTHERS))
    assert story.done == ev.Done("failed", 1, "trainer: FloatingPointError: nan")


def test_a_trainer_that_saves_between_its_deaths_may_die_for_ever() -> None:
    story = running().at(2, saved(0))
    for i in range(3 * RESTARTS):
        diverge(story, 1, first=i).then(saved(100 + i, i + 1))
    assert story.state("trainer") == "running"
    assert story.done is None


def test_a_trainer_told_to_end_by_a_stranger_comes_back() -> None:
    story = running().at(2, finished("trainer", "stopped"), ev.Exited("trainer", 0, 0)).at(3, ev.Tick())
    assert story.did(ev.Spawn) == [ev.Spawn("trainer", 1, True)]


def test_a_trainer_that_never_came_fails_the_run_with_its_error() -> None:
    story = Story().at(0, ev.Begin()).at(1, failed("trainer", "RuntimeError: no GPU"), ev.Exited("trainer", 0, 1))
    others = [name for name in ROLES if name != "trainer"]
    assert {(kill.name, kill.signal) for kill in story.did(ev.Kill)} == {(name, TERM) for name in others}
    story.at(2, *exits(others))
    assert story.done == ev.Done("failed", 1, "trainer: RuntimeError: no GPU")


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


def lose(story: Story, name: str) -> Story:
    """Let a simulator die until it is given up."""
    for i in range(RESTARTS + 1):
        story.at(story.now_s + 4, ev.Exited(name, i, 1)).at(story.now_s + 4, ev.Tick())
    assert story.state(name) == "fatal"
    return story


def test_one_simulator_given_up_leaves_the_run_degraded() -> None:
    story = lose(running(), "simulator-0")
    assert story.done is None
    assert story.supervisor.phase == "running"


def test_all_simulators_given_up_fail_the_run() -> None:
    story = lose(lose(running(), "simulator-0"), "simulator-1")
    story.then(*exits(["trainer", "inference-0", "evaluator-0"]))
    assert story.done == ev.Done("failed", 1, "simulator-0: exit 1")


def test_an_evaluator_given_up_touches_nothing() -> None:
    assert lose(running(), "evaluator-0").done is None


# Fencing --------------------------------------------------------------------------------------------------------------


def test_nothing_from_an_old_incarnation_counts() -> None:
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


def test_a_dead_trainer_finishes_nothing() -> None:
    story = running().at(2, ev.Exited("trainer", 0, -9), finished("trainer", "total_steps"))
    assert story.supervisor.phase == "running"


def test_a_process_nobody_wants_is_killed() -> None:
    assert running().at(2, ev.Spawned("simulator-7", 0, 9)).last == [ev.Kill("simulator-7", 0, KILL)]


# Reports --------------------------------------------------------------------------------------------------------------


def test_reports_become_rows_and_the_rest_notes() -> None:
    evaluated = Evaluated(policy_version=7, env_steps=1_000_000, returns=[1.0, 3.0])
    warned = Warned(text="update 3 skipped")
    story = running().at(2, received("trainer", Report(row={"env_steps": 5})), received("trainer", warned))
    assert story.did(ev.Row) == [ev.Row("trainer", {"env_steps": 5})]
    assert story.notes == [("warned", "trainer", 0, "update 3 skipped")]
    story.at(3, received("evaluator-0", evaluated))
    assert story.notes == [("evaluated", "evaluator-0", 0, "2.0 over 2 games at 1,000,000 steps")]
    assert story.did(ev.Note)[0].fields == {
        "mean": 2.0,
        "policy_version": 7,
        "env_steps": 1_000_000,
        "returns": [1.0, 3.0],
    }


# The end --------------------------------------------------------------------------------------------------------------


def test_a_run_that_is_done() -> None:
    story = running(NO_EVALUATOR).at(2, finished("trainer", "total_steps", env_steps=500))
    assert {(kill.name, kill.signal) for kill in story.did(ev.Kill)} == {(name, TERM) for name in REST}
    story.at(2.1, ev.Exited("trainer", 0, 0), *exits(REST[1:]))
    assert story.done is None
    story.at(2.2, *exits(REST[:1]))
    assert story.done == ev.Done("finished", 0, summary={"env_steps": 500})
    assert story.all[-1] == story.done
    assert [note.kind for note in story.ever(ev.Note)].count("ended") == 4


def test_whoever_does_not_end_is_killed_after_5_s() -> None:
    story = running(NO_EVALUATOR).at(2, finished("trainer", "total_steps"), ev.Exited("trainer", 0, 0))
    story.then(*exits(REST[1:]))
    assert story.at(6.9, ev.Tick()).did(ev.Kill) == []
    assert story.at(7.0, ev.Tick()).did(ev.Kill) == [ev.Kill(REST[0], 0, KILL)]
    assert story.at(7.1, *exits(REST[:1], -9)).did(ev.Done) == [ev.Done("finished", 0)]


def test_a_process_that_not_even_the_kernel_ends_keeps_nobody() -> None:
    story = running(NO_EVALUATOR).at(2, finished("trainer", "total_steps")).at(7, ev.Tick()).at(12, ev.Tick())
    assert story.done == ev.Done("finished", 0)


def test_a_process_in_backoff_is_not_waited_for() -> None:
    story = running(NO_EVALUATOR).at(2, ev.Exited("simulator-0", 0, -9), finished("trainer", "total_steps"))
    story.at(2.1, *exits(name for name in NO_EVALUATOR if name != "simulator-0")).at(9, ev.Tick())
    assert story.done == ev.Done("finished", 0)
    assert len(story.ever(ev.Spawn)) == len(NO_EVALUATOR)


def test_ctrl_c_lets_the_trainer_finish() -> None:
    story = running().at(2, ev.Interrupted())
    assert story.notes == [("stopping", "", 0, "interrupted")]
    assert story.did(ev.Kill) == []
    assert {order.phase for order in story.orders.values()} == {"drain"}
    story.at(3, finished("trainer", "drained", env_steps=9))
    assert {kill.name for kill in story.did(ev.Kill)} == set(OTHERS)
    story.at(3.1, ev.Exited("trainer", 0, 0), *exits(OTHERS))
    assert story.done == ev.Done("stopped", 130, summary={"env_steps": 9})


def test_deaths_while_the_trainer_finishes_are_told_and_not_mended() -> None:
    story = running().at(2, ev.Interrupted()).at(2.1, ev.Exited("simulator-0", 0, -9))
    assert story.notes == [("died", "simulator-0", 0, "signal 9")]
    assert story.at(10, ev.Tick()).did(ev.Spawn) == []
    assert story.done is None


def test_a_stop_request_ends_with_0() -> None:
    story = running().at(2, asked("stop"))
    assert story.reply.ok
    story.at(3, finished("trainer", "drained"), ev.Exited("trainer", 0, 0), *exits(OTHERS))
    assert story.done == ev.Done("stopped", 0)


def test_a_run_that_reaches_its_end_while_it_stops_is_finished() -> None:
    story = running().at(2, asked("stop")).at(3, finished("trainer", "total_steps"))
    story.at(3.1, ev.Exited("trainer", 0, 0), *exits(OTHERS))
    assert story.done == ev.Done("finished", 0)


def test_a_trainer_that_beats_may_take_minutes_to_save_what_it_has() -> None:
    story = running().at(2, ev.Interrupted())
    for now_s in (61, 121, 600, 901):
        assert story.at(now_s, ev.Tick()).did(ev.Kill) == []
    story.at(901.5, finished("trainer", "drained", env_steps=9), ev.Exited("trainer", 0, 0), *exits(OTHERS))
    assert story.done == ev.Done("stopped", 130, summary={"env_steps": 9})


def test_a_trainer_that_beats_but_does_not_finish_in_15_minutes_fails_the_run() -> None:
    story = running().at(2, ev.Interrupted())
    assert story.at(901.9, ev.Tick()).did(ev.Kill) == []
    assert ev.Kill("trainer", 0, KILL) in story.at(902, ev.Tick()).did(ev.Kill)
    story.at(902.1, ev.Exited("trainer", 0, -9), *exits(OTHERS))
    assert story.done == ev.Done("failed", 1, "the trainer did not finish in 900 s and was killed")


def test_a_trainer_that_stands_still_while_it_finishes_fails_the_run_at_once() -> None:
    story = running().at(2, ev.Interrupted()).at(40, ev.Stalled("trainer", 0, 30.0))
    assert story.did(ev.Kill) == [ev.Kill("trainer", 0, KILL)]
    story.at(40.1, ev.Exited("trainer", 0, -9))
    assert story.notes == [("died", "trainer", 0, "hang")]
    story.at(40.2, *exits(OTHERS))
    assert story.done == ev.Done("failed", 1, "the trainer died before it had finished: hang")


def test_a_trainer_that_dies_while_it_finishes_fails_the_run() -> None:
    story = running().at(2, ev.Interrupted()).at(3, ev.Exited("trainer", 0, -9)).at(3.1, *exits(OTHERS))
    assert story.done == ev.Done("failed", 1, "the trainer died before it had finished: signal 9")


def test_ctrl_c_before_the_trainer_runs_ends_at_once() -> None:
    story = Story().at(0, ev.Begin()).at(1, ev.Interrupted())
    assert {(kill.name, kill.signal) for kill in story.did(ev.Kill)} == {(name, TERM) for name in ROLES}
    assert story.at(1.1, *exits(ROLES)).did(ev.Done) == [ev.Done("stopped", 130)]


def test_ctrl_c_twice_ends_everything_now() -> None:
    story = running().at(2, ev.Interrupted()).at(2.1, ev.Interrupted())
    assert {(kill.name, kill.signal) for kill in story.did(ev.Kill)} == {(name, KILL) for name in ROLES}
    assert story.last[-1] == ev.Done("stopped", 130)


def test_ctrl_c_a_hundred_times_is_twice() -> None:
    story = running().at(2, *[ev.Interrupted()] * 100)
    assert len(story.ever(ev.Done)) == 1
    assert story.at(3, *exits(ROLES, -9), ev.Tick()).last == []


def test_stop_asked_twice_is_still_stopping() -> None:
    story = running().at(2, asked("stop")).at(2.1, asked("stop"))
    assert story.reply == Reply(ok=True, text="already stopping: the run is draining")
    assert story.did(ev.Kill) == []
    story.at(3, finished("trainer", "drained")).at(3.1, ev.Exited("trainer", 0, 0), *exits(OTHERS))
    assert story.done == ev.Done("stopped", 0)


@pytest.mark.parametrize("before", [[], [asked("stop")]])
def test_kill_asked_ends_everything_now(before: list[ev.Event]) -> None:
    story = running().at(2, *before).at(2.1, asked("kill"))
    assert story.reply.ok
    assert {(kill.name, kill.signal) for kill in story.did(ev.Kill)} == {(name, KILL) for name in ROLES}
    assert story.last[-1] == ev.Done("stopped", 0)


def test_one_ctrl_c_after_a_stop_request_is_not_the_second() -> None:
    story = running().at(2, asked("stop")).at(2.1, ev.Interrupted())
    assert story.last == []
    assert story.at(2.2, ev.Interrupted()).last[-1] == ev.Done("stopped", 130)


@pytest.mark.parametrize("hangups", [(0, 1, 2), (0, 2), (1, 2)])
def test_a_hangup_is_never_the_second_interrupt(hangups: tuple[int, ...]) -> None:
    """A closed terminal and a machine that goes down say both, in any order."""
    story = running()
    for i in range(3):
        story.at(2.0 + i, ev.Interrupted(hangup=i in hangups))
    assert story.ever(ev.Kill) == []
    assert [note.cause for note in story.ever(ev.Note) if note.kind == "stopping"] == [
        "hung up" if 0 in hangups else "interrupted"
    ]
    story.at(6, finished("trainer", "drained"), ev.Exited("trainer", 0, 0), *exits(OTHERS))
    assert story.done == ev.Done("stopped", 130)


def test_a_finished_run_stays_finished_whatever_is_pressed() -> None:
    story = running(NO_EVALUATOR).at(2, finished("trainer", "total_steps")).at(2.1, ev.Interrupted(), ev.Interrupted())
    assert story.done == ev.Done("finished", 0)


# Requests -------------------------------------------------------------------------------------------------------------


def test_status_says_who_is_there() -> None:
    story = running().at(2, ev.Exited("simulator-1", 0, -9), asked("status"))
    data = story.reply.data
    assert (data["phase"], data["order"]) == ("running", story.supervisor.order.version)
    assert data["processes"][0] == {
        "name": "trainer",
        "role": "trainer",
        "state": "running",
        "incarnation": 0,
        "pid": 100,
    }
    assert data["processes"][-1]["state"] == "backoff"


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (Request(protocol=99, version=__version__, command="status"), "protocol 99"),
        (Request(protocol=PROTOCOL_VERSION, version="0.0", command="stop"), "version 0.0 asks"),
        (Request(protocol=PROTOCOL_VERSION, version=__version__, command="atach"), "did you mean attach?"),
        (Request(protocol=PROTOCOL_VERSION, version=__version__, command="attach"), "attach 0 simulators"),
        (Request(protocol=PROTOCOL_VERSION, version=__version__, command="detach"), "simulator-0, simulator-1"),
    ],
)
def test_requests_that_cannot_be_met_are_answered_at_once(request_: Request, text: str) -> None:
    story = running().at(2, ev.Asked("cli-1", request_))
    assert not story.reply.ok
    assert text in story.reply.text
    assert story.supervisor.phase == "running"


def attaching(simulators: int = 1) -> Story:
    story = running().at(2, asked("attach", simulators=simulators, overrides=["env.id=X"]))
    assert story.last == [ev.Enlarge("cli-1", simulators, ("env.id=X",))]
    new = tuple(PlannedProcess(ProcessId("simulator", 2 + i), 5 + i) for i in range(simulators))
    return story.then(ev.Enlarged("cli-1", new))


def test_attach() -> None:
    story = attaching(2)
    assert story.did(ev.Spawn) == [ev.Spawn("simulator-2", 0), ev.Spawn("simulator-3", 0)]
    assert story.at(3, *up("simulator-2")).did(ev.Answer) == []
    story.at(4, *up("simulator-3"))
    assert story.reply.ok
    assert story.reply.data["names"] == ["simulator-2", "simulator-3"]
    assert story.reply.data["seconds"] == 2.0
    assert ("attached", "simulator-3", 0, "") in story.notes
    assert [taken.id.name for taken in story.orders["trainer.0"].members][2:] == ["simulator-2", "simulator-3"]


def test_an_attach_that_the_plan_cannot_take() -> None:
    story = running().at(2, asked("attach", simulators=500), ev.NotEnlarged("cli-1", "a run has at most 256 processes"))
    assert story.reply == Reply(ok=False, text="a run has at most 256 processes")


def test_an_attached_simulator_that_is_refused_leaves_no_trace() -> None:
    story = attaching().at(3, spawned("simulator-2"), hello("simulator-2", shape={**SHAPE, "env.id": "X"}))
    order = story.supervisor.order
    story.at(3.1, ev.Exited("simulator-2", 0, 3))
    assert not story.reply.ok
    assert "env.id is X, this run has CartPole-v1" in story.reply.text
    assert story.state("simulator-2") is None
    assert story.supervisor.order == order


def test_an_attached_simulator_that_dies_before_it_runs_is_answered_not_restarted() -> None:
    story = attaching(2).at(3, *up("simulator-3"), failed("simulator-2", "KeyError: 'x'"))
    story.at(3.1, ev.Exited("simulator-2", 0, 1))
    assert not story.reply.ok
    assert "KeyError: 'x'" in story.reply.text
    assert "simulator-3 can go on" in story.reply.text
    assert story.at(9, ev.Tick()).did(ev.Spawn) == []
    assert story.state("simulator-3") == "running"


def test_an_attached_simulator_that_came_once_is_mended_like_any_other() -> None:
    story = attaching().at(3, *up("simulator-2")).at(4, ev.Exited("simulator-2", 0, -9)).at(5, ev.Tick())
    assert story.did(ev.Spawn) == [ev.Spawn("simulator-2", 1)]


def test_an_attach_that_takes_too_long_is_given_up() -> None:
    story = attaching(2).at(3, *up("simulator-2"), spawned("simulator-3")).at(61.9, ev.Tick())
    assert story.did(ev.Answer) == []
    story.at(62, ev.Tick())
    assert not story.reply.ok
    assert "simulator-3 did not come to run within 60 s" in story.reply.text
    assert ev.Kill("simulator-3", 0, KILL) in story.did(ev.Kill)
    story.at(62.1, ev.Exited("simulator-3", 0, -9))
    assert story.state("simulator-3") is None
    assert story.state("simulator-2") == "running"


def test_detach_drains_and_takes_off_the_list() -> None:
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
        (["simulator-9"], "'simulator-9' is no simulator of this run; did you mean simulator-"),
        (["trainer"], "detach trainer: a run in mode sync keeps the learners it began with; detach simulators"),
    ],
)
def test_a_detach_that_is_refused_changes_nothing(names: list[str], text: str) -> None:
    story = running()
    order = story.supervisor.order
    story.at(2, asked("detach", names=names))
    assert not story.reply.ok
    assert text in story.reply.text
    assert story.supervisor.order == order


def test_whoever_is_leaving_cannot_be_detached_again_nor_counted_as_staying() -> None:
    story = running().at(2, asked("detach", names=["simulator-1"])).at(3, asked("detach", names=["simulator-1"]))
    assert story.reply.text == "simulator-1 is already leaving; wait until it is gone"
    story.at(4, asked("detach", names=["simulator-0"]))
    assert "needs at least one simulator" in story.reply.text


def test_the_last_good_simulator_stays_even_beside_given_up_ones() -> None:
    story = lose(running(), "simulator-0")
    assert not story.then(asked("detach", names=["simulator-1"])).reply.ok
    assert story.then(asked("detach", names=["simulator-0"])).reply.ok
    assert story.state("simulator-0") is None


def test_a_leaving_simulator_that_dies_is_gone_all_the_same() -> None:
    story = running().at(2, asked("detach", names=["simulator-1"])).at(3, ev.Exited("simulator-1", 0, -9))
    assert [note[0] for note in story.notes] == ["died", "detached"]
    assert story.reply.ok
    assert "died before it was drained: signal 9" in story.reply.text
    assert story.at(9, ev.Tick()).did(ev.Spawn) == []


def test_a_detach_that_takes_too_long_is_answered_and_done_by_force() -> None:
    story = running().at(2, asked("detach", names=["simulator-1"])).at(62, ev.Tick())
    assert not story.reply.ok
    assert ev.Kill("simulator-1", 0, KILL) in story.did(ev.Kill)
    story.at(62.1, ev.Exited("simulator-1", 0, -9))
    assert story.state("simulator-1") is None


def test_save_is_answered_when_the_checkpoint_is_there() -> None:
    story = running().at(2, asked("save", "cli-1"), asked("save", "cli-2"))
    assert story.supervisor.order.save == 2
    story.at(3, received("trainer", Saved(path="checkpoints/7", env_steps=7, order=1)))
    assert [answer.client for answer in story.did(ev.Answer)] == ["cli-1"]
    assert story.reply.data["path"] == "checkpoints/7"
    story.at(4, received("trainer", Saved(path="checkpoints/9", env_steps=9, order=2)))
    assert [answer.client for answer in story.did(ev.Answer)] == ["cli-2"]


def test_a_checkpoint_that_was_due_anyway_answers_nobody() -> None:
    story = running().at(2, asked("save")).at(3, received("trainer", Saved(path="c", env_steps=5, order=0)))
    assert story.did(ev.Answer) == []
    assert not story.at(62, ev.Tick()).reply.ok


def test_a_run_that_ends_answers_whoever_still_waits() -> None:
    story = attaching().then(asked("save", "cli-2")).at(3, finished("trainer", "total_steps"))
    assert [(answer.client, answer.reply.ok) for answer in story.did(ev.Answer)] == [("cli-1", False), ("cli-2", False)]


@pytest.mark.parametrize("command", ["attach", "detach", "save"])
def test_a_run_that_is_stopping_takes_no_changes(command: str) -> None:
    story = running().at(2, ev.Interrupted()).at(3, asked(command, simulators=1, names=["simulator-0"]))
    assert not story.reply.ok
    assert "the run is draining" in story.reply.text


# Several learners -----------------------------------------------------------------------------------------------------

BOTH = [trainer("trainer-0"), trainer("trainer-1")]


def two() -> Story:
    """A run of two learners in which everybody has come."""
    return Story(TWO).at(0, ev.Begin(), *up(*TWO))


def test_learners_begin_when_all_have_come() -> None:
    story = Story(TWO).at(0, ev.Begin(), *up(*(name for name in TWO if name != "trainer-1")))
    assert story.supervisor.order.learners == story.supervisor.order.members == []
    story.at(1, *up("trainer-1"))
    assert story.supervisor.order.learners == BOTH
    assert {member.id.name for member in story.supervisor.order.members} == {"simulator-0", "simulator-1"}


def test_a_learner_that_never_comes_ends_the_run_before_it_has_begun() -> None:
    story = Story(TWO).at(0, ev.Begin(), *up("trainer-0", "simulator-0"), spawned("trainer-1"))
    story.at(1, failed("trainer-1", "ValueError: x"), ev.Exited("trainer-1", 0, 1))
    story.at(2, *exits(["trainer-0", "simulator-0", "simulator-1"]))
    assert story.done is not None and (story.done.status, story.done.error) == ("failed", "trainer-1: ValueError: x")


def test_a_learner_that_dies_is_told_to_the_others_and_comes_back_as_another() -> None:
    story = two().at(2, ev.Exited("trainer-1", 0, -9))
    assert story.orders["trainer-0.0"].learners == [trainer("trainer-0")]
    story.at(3, ev.Tick()).then(spawned("trainer-1", 1), hello("trainer-1", 1))
    assert story.orders["trainer-0.0"].learners == [trainer("trainer-0"), trainer("trainer-1", 1)]
    assert next(spawn for spawn in story.ever(ev.Spawn) if spawn.incarnation == 1).resume


def test_the_same_list_of_learners_after_another_is_another_generation() -> None:
    """One that dies twice in the life of the other leaves it alone twice; an order that changes else is no other."""
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


def test_a_run_of_two_is_done_when_both_have_finished() -> None:
    story = two().at(2, finished("trainer-0", "total_steps", env_steps=90, episodes=3))
    assert story.did(ev.Kill) == []
    assert story.orders["trainer-1.0"].phase == "drain"
    story.at(2.1, ev.Exited("trainer-0", 0, 0))
    assert story.notes == [("ended", "trainer-0", 0, "exit 0")]
    assert story.supervisor.phase == "draining"
    story.at(3, finished("trainer-1", "drained", env_steps=100, episodes=4))
    story.at(4, *exits(["trainer-1", "simulator-0", "simulator-1"], 0))
    assert story.done is not None
    assert (story.done.status, story.done.exit_code) == ("finished", 0)
    assert {key: story.done.summary[key] for key in ("env_steps", "episodes")} == {"env_steps": 100, "episodes": 7}


def test_the_last_words_of_one_are_enough_when_the_other_dies_on_the_way_out() -> None:
    story = two().at(2, ev.Interrupted()).at(3, finished("trainer-0", "drained", env_steps=90))
    story.at(4, ev.Exited("trainer-1", 0, -9)).at(5, *exits(["trainer-0", "simulator-0", "simulator-1"], 0))
    assert story.done == ev.Done("stopped", 130, summary={"env_steps": 90})


def test_while_one_learner_is_left_the_run_goes_on() -> None:
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
def test_every_learner_keeps_a_simulator(name: str) -> None:
    story = two().at(2, asked("detach", names=[name]))
    assert f"detach {name}: trainer-{name[-1]} needs at least one simulator" in story.reply.text


# Learners that come and go --------------------------------------------------------------------------------------------

THIRD = (
    PlannedProcess(ProcessId("trainer", 2, 2), 4),
    PlannedProcess(ProcessId("inference", 2, 2), 5),
    PlannedProcess(ProcessId("simulator", 2, 2), 6),
)
NAMES = [process.name for process in THIRD]


def gossip(resume: bool = False) -> Story:
    """A run of two learners that gossip, in which everybody has come."""
    return Story(TWO, resume, "gossip").at(0, ev.Begin(), *up(*TWO))


def bringing(resume: bool = False) -> Story:
    """The same, while a third learner is being attached."""
    story = gossip(resume).at(2, asked("attach", learners=1, overrides=["env.id=X"]))
    assert story.last == [ev.Enlarge("cli-1", 0, ("env.id=X",), 1)]
    return story.then(ev.Enlarged("cli-1", THIRD))


def with_a_third() -> Story:
    return bringing().at(3, *up(*NAMES))


@pytest.mark.parametrize("resume", [False, True])
def test_a_learner_is_attached_with_all_its_own(resume: bool) -> None:
    story = bringing(resume)
    assert story.did(ev.Spawn) == [ev.Spawn(name, 0, False) for name in NAMES]
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
def test_in_other_modes_learners_stay(mode: str, request_: ev.Asked) -> None:
    story = Story(TWO, mode=mode).at(0, ev.Begin(), *up(*TWO)).at(2, request_)
    assert not story.reply.ok
    assert f"a run in mode {mode} keeps the learners it began with; " in story.reply.text
    assert len(story.last) == 1


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({}, "attach 0 simulators, 0 learners: at least 1; write --simulators 1, or --learners 1"),
        ({"learners": -1}, "attach 0 simulators, -1 learners: at least 1; "),
        ({"learners": 1, "simulators": 2}, "attach 1 learners and 2 simulators: one or the other, "),
    ],
)
def test_what_cannot_be_attached_is_answered_at_once(wanted: dict[str, int], text: str) -> None:
    story = gossip().at(2, asked("attach", **wanted))
    assert story.reply.text.startswith(text)
    assert len(story.last) == 1


def test_a_learner_whose_trainer_dies_before_it_runs_is_given_up_whole() -> None:
    story = bringing().at(3, *up("simulator-2"), spawned("inference-2"), failed("trainer-2", "KeyError: 'x'"))
    story.at(3.1, ev.Exited("trainer-2", 0, 1))
    why = "trainer-2 died before it came to run: KeyError: 'x'"
    assert story.reply.text == f"{why}; trainer-2 with inference-2, simulator-2 is not attached"
    assert story.did(ev.Kill) == [ev.Kill("inference-2", 0, TERM), ev.Kill("simulator-2", 0, TERM)]
    story.at(4, ev.Exited("inference-2", 0, -15), ev.Exited("simulator-2", 0, 0)).at(9, ev.Tick())
    assert [p["name"] for p in story.supervisor.processes()] == list(TWO)
    assert (story.supervisor.order.learners, story.supervisor.phase) == (BOTH, "running")
    assert story.did(ev.Spawn) == []


@pytest.mark.parametrize("victim", ["inference-2", "simulator-2"])
def test_a_learner_that_loses_one_before_it_runs_leaves_again(victim: str) -> None:
    other = next(name for name in NAMES[1:] if name != victim)
    story = bringing().at(3, *up("trainer-2", other), ev.Exited(victim, 0, 1))
    assert not story.reply.ok
    assert story.reply.text.startswith(f"{victim} died before it came to run: exit 1; trainer-2 with ")
    story.at(3.5, ev.Tick())
    assert story.supervisor.order.learners == BOTH
    assert story.supervisor.order.leaving == ["trainer-2"]
    story.at(4, finished("trainer-2", "drained"), ev.Exited("trainer-2", 0, 0), ev.Exited(other, 0, 0))
    assert [p["name"] for p in story.supervisor.processes()] == list(TWO)
    assert story.supervisor.phase == "running"


def test_a_learner_that_does_not_come_in_time_is_given_up() -> None:
    story = bringing().at(3, *up("inference-2", "simulator-2"), spawned("trainer-2")).at(62, ev.Tick())
    assert "trainer-2 did not come to run within 60 s" in story.reply.text
    assert story.did(ev.Kill)[-1] == ev.Kill("trainer-2", 0, KILL)
    story.at(62.1, ev.Exited("trainer-2", 0, -9))
    assert {kill.name for kill in story.did(ev.Kill)} == {"inference-2", "simulator-2"}


def test_an_attached_learner_that_is_killed_comes_back_from_its_checkpoint() -> None:
    story = with_a_third().at(4, ev.Exited("trainer-2", 0, -9))
    assert story.orders["trainer-0.0"].learners == BOTH
    story.at(5, ev.Tick())
    assert story.did(ev.Spawn) == [ev.Spawn("trainer-2", 1, True)]
    story.then(*up("trainer-2", incarnation=1))
    assert story.supervisor.order.learners == [*BOTH, trainer("trainer-2", 1)]


def test_a_learner_is_detached_with_all_its_own() -> None:
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


def test_the_learners_a_run_began_with_can_leave_but_not_the_last() -> None:
    story = gossip().at(2, asked("detach", names=["trainer-0", "trainer-1"]))
    assert story.reply.text.startswith("detach trainer-0, trainer-1: a run needs at least one learner; attach another")
    story.then(asked("detach", names=["trainer-0"])).at(3, finished("trainer-0", "drained"))
    assert story.then(asked("detach", names=["trainer-1"])).reply.text.startswith("detach trainer-1: a run needs at")
    story.at(4, ev.Exited("trainer-0", 0, 0), ev.Exited("simulator-0", 0, 0))
    assert story.reply.ok
    assert not story.then(asked("detach", names=["trainer-1"])).reply.ok
    assert story.supervisor.order.learners == [trainer("trainer-1")]


@pytest.mark.parametrize("there", ["attached", "given up"])
def test_a_learner_that_cannot_be_relied_on_is_no_reason_to_let_the_others_go(there: str) -> None:
    story = bringing().then(asked("detach", names=["trainer-1"]))
    if there == "given up":
        story = lose(gossip(), "trainer-1")
    story.then(asked("detach", names=["trainer-0"]))
    assert "a run needs at least one learner" in story.reply.text


@pytest.mark.parametrize("lost", ["inference-2", "simulator-2"])
def test_a_learner_that_plays_no_more_leaves_the_others(lost: str) -> None:
    story = lose(with_a_third(), lost)
    kinds = [(note.kind, note.process) for note in story.ever(ev.Note)]
    assert kinds[-2:] == [("gave up", lost), ("gave up", "trainer-2")]
    assert story.supervisor.order.leaving == ["trainer-2"]
    assert story.supervisor.order.learners == BOTH
    story.at(story.now_s + 1, finished("trainer-2", "drained"), *exits([n for n in NAMES if n != lost], 0))
    assert [p["name"] for p in story.supervisor.processes()] == list(TWO)
    assert story.supervisor.phase == "running"


def test_a_run_ends_when_the_last_learner_that_plays_plays_no_more() -> None:
    story = lose(gossip(), "simulator-1").at(90, *exits(["trainer-1"], 0))
    assert story.supervisor.phase == "running"
    lose(story, "simulator-0").at(200, *exits(["trainer-0"]))
    assert story.done == ev.Done("failed", 1, "simulator-0: exit 1")


def test_learners_in_step_do_not_wait_for_one_that_plays_no_more() -> None:
    story = lose(two(), "simulator-1").then(*exits(["trainer-0", "trainer-1", "simulator-0"]))
    assert story.done == ev.Done("failed", 1, "simulator-1: exit 1")


def test_a_simulator_of_a_learner_that_leaves_can_be_named_too() -> None:
    story = with_a_third().at(4, asked("detach", names=["simulator-2", "trainer-2"]))
    story.at(5, finished("trainer-2", "drained"), *exits(NAMES, 0))
    assert story.reply.text == "trainer-2 with simulator-2, inference-2 detached after 1.0 s"


def test_a_leaving_learner_that_dies_is_gone_all_the_same() -> None:
    story = with_a_third().at(4, asked("detach", names=["trainer-2"])).at(5, ev.Exited("trainer-2", 0, -9))
    assert [note[0] for note in story.notes] == ["died", "detached"]
    story.at(6, *exits(NAMES[1:], 0))
    assert story.reply.text.endswith("; trainer-2 died before it was drained: signal 9")
    assert story.at(9, ev.Tick()).did(ev.Spawn) == []


def test_a_learner_that_has_died_is_detached_at_once() -> None:
    story = with_a_third().at(4, ev.Exited("trainer-2", 0, -9), asked("detach", names=["trainer-2"]))
    assert ("detached", "trainer-2", 0, "backoff") in story.notes
    story.at(5, *exits(NAMES[1:], 0))
    assert story.reply.ok
    assert story.at(9, ev.Tick()).did(ev.Spawn) == []


def test_who_does_not_leave_with_its_trainer_is_killed_after_5_s() -> None:
    story = with_a_third().at(4, asked("detach", names=["simulator-2", "trainer-2"]))
    story.at(9.5, finished("trainer-2", "drained"), ev.Exited("trainer-2", 0, 0), ev.Exited("inference-2", 0, 0))
    assert story.at(14.4, ev.Tick()).did(ev.Kill) == []
    assert story.at(14.5, ev.Tick()).did(ev.Kill) == [ev.Kill("simulator-2", 0, KILL)]
    story.at(14.6, ev.Exited("simulator-2", 0, -9))
    assert story.reply.ok
    assert story.reply.text.endswith("simulator-2 died before it was drained: did not end in 5 s")


def test_what_a_detached_learner_has_counted_stays_in_the_summary() -> None:
    story = gossip().at(2, asked("detach", names=["trainer-0"]))
    story.at(3, finished("trainer-0", "drained", env_steps=90, episodes=3, episode_return_mean=9.0))
    story.then(ev.Exited("trainer-0", 0, 0), ev.Exited("simulator-0", 0, 0))
    assert story.supervisor.phase == "running"
    story.at(9, finished("trainer-1", "total_steps", env_steps=100, episodes=4, episode_return_mean=1.0))
    story.at(9.5, *exits(["trainer-1", "simulator-1"], 0))
    assert story.done == ev.Done("finished", 0, summary={"env_steps": 100, "episodes": 7, "episode_return_mean": 1.0})


def test_the_last_words_of_a_detached_learner_do_not_stand_for_one_that_dies_at_the_end() -> None:
    story = gossip().at(2, asked("detach", names=["trainer-0"])).at(3, finished("trainer-0", "drained"))
    story.then(ev.Exited("trainer-0", 0, 0), ev.Exited("simulator-0", 0, 0))
    story.at(4, ev.Interrupted(), ev.Exited("trainer-1", 0, -9), ev.Exited("simulator-1", 0, 0))
    assert story.done == ev.Done("failed", 1, "the trainer died before it had finished: signal 9")


# Anything at all ------------------------------------------------------------------------------------------------------


class AnyHistory(RuleBasedStateMachine):
    """Random events in random order: whatever happens, the fences and the budget hold, and two Ctrl-C end it."""

    roles = ROLES
    mode = "sync"

    @initialize()
    def begin(self) -> None:
        self.story = Story(self.roles, mode=self.mode)
        self.living: set[tuple[str, int]] = set()
        self.spawns: dict[str, list[float]] = {}
        self.questions = 0
        self.happen(ev.Begin())

    def happen(self, event: ev.Event) -> None:
        self.questions += isinstance(event, ev.Asked) and self.story.done is None
        self.story.then(event)
        events = []
        for action in self.story.last:
            if isinstance(action, ev.Spawn):
                assert action.name not in {name for name, _ in self.living}, "two living incarnations of one name"
                self.living.add((action.name, action.incarnation))
                if action.incarnation > 0:
                    self.spawns.setdefault(action.name, []).append(self.story.now_s)
                events.append(spawned(action.name, action.incarnation))
            elif isinstance(action, ev.Enlarge):
                events.append(ev.Enlarged(action.client, self.more(action)))
        for event in events:
            self.happen(event)

    def more(self, action: ev.Enlarge) -> tuple[PlannedProcess, ...]:
        there = self.story.supervisor._children.trainers()  # as the plan, which forgets those that are gone
        number = len(self.seen("simulator"))
        if not action.learners:
            return (PlannedProcess(ProcessId("simulator", number, there[0].id.learner), 0),)
        learner = len(self.seen("trainer"))
        ids = ProcessId("trainer", learner, learner), ProcessId("simulator", number, learner)
        return tuple(PlannedProcess(own, 0) for own in ids)

    def seen(self, *roles: str) -> set[str]:
        return {spawn.name for spawn in self.story.ever(ev.Spawn) if spawn.name.startswith(roles)}

    @rule(seconds=st.sampled_from([0.05, 0.2, 1.0, 5.0, 61.0, 121.0]))
    def time_passes(self, seconds: float) -> None:
        self.story.now_s += seconds
        self.happen(ev.Tick())

    @precondition(lambda self: self.living)
    @rule(data=st.data(), returncode=st.sampled_from([-9, -15, 0, 1, 3]))
    def one_dies(self, data: st.DataObject, returncode: int) -> None:
        key = data.draw(st.sampled_from(sorted(self.living)))
        self.living.discard(key)
        self.happen(ev.Exited(*key, returncode))

    @rule(
        data=st.data(),
        incarnation=st.integers(0, 3),
        say=st.sampled_from([hello, lambda n, i: hello(n, i, run_id="x"), lambda n, i: failed(n, "E: x", i)]),
    )
    def one_speaks(self, data: st.DataObject, incarnation: int, say: Any) -> None:
        known = sorted(self.living) + [(name, incarnation) for name in self.roles]
        self.happen(say(*data.draw(st.sampled_from(known))))

    @precondition(lambda self: self.living)
    @rule(data=st.data(), reason=st.sampled_from(["drained", "stopped", "stopped", "total_steps"]))
    def one_finishes(self, data: st.DataObject, reason: str) -> None:
        name, incarnation = data.draw(st.sampled_from(sorted(self.living)))
        self.happen(finished(name, reason, incarnation))

    @rule(data=st.data())
    def one_hangs(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.roles)))
        self.happen(ev.Silent(name, 0, 30.0, "it waits", data.draw(st.booleans()), data.draw(st.booleans())))
        if data.draw(st.booleans()):
            self.happen(ev.Stalled(name, 0, 30.0))

    @rule(command=st.sampled_from(["attach", "save", "status", "stop"]))
    def someone_asks(self, command: str) -> None:
        self.happen(asked(command, simulators=1))

    @rule()
    def someone_brings_a_learner(self) -> None:
        self.happen(asked("attach", learners=1))

    @rule(data=st.data())
    def someone_detaches(self, data: st.DataObject) -> None:
        self.happen(asked("detach", names=[data.draw(st.sampled_from(sorted(self.seen("simulator", "trainer"))))]))

    @invariant()
    def the_budget_is_kept(self) -> None:
        for times in getattr(self, "spawns", {}).values():
            for then_s, now_s in zip(times, times[RESTARTS:], strict=False):
                assert now_s - then_s >= WINDOW_S

    @invariant()
    def the_members_sits_on_the_living(self) -> None:
        if hasattr(self, "story"):
            order, phase = self.story.supervisor.order, self.story.supervisor.phase
            ending = phase in ("ending", "over")  # orders are not renewed for processes that are all told to go
            assert ending or {(member.id.name, member.id.incarnation) for member in order.members} <= self.living

    @invariant()
    def whoever_has_no_trainer_is_on_the_way_out(self) -> None:
        if hasattr(self, "story"):
            children = self.story.supervisor._children
            learners = {trainer.id.learner for trainer in children.trainers()}
            assert all(
                c.leaving or c.id.learner in learners or c.id.role == "evaluator" for c in children.named.values()
            )
            assert learners, "a run has a learner for as long as it goes on"

    def teardown(self) -> None:
        if hasattr(self, "story"):
            self.happen(ev.Interrupted())
            self.happen(ev.Interrupted())
            assert len(self.story.ever(ev.Done)) == 1
            assert isinstance(self.story.all[-1], ev.Done)
            assert len(self.story.ever(ev.Answer)) == self.questions, "every question gets one answer"


class AnyHistoryOfTwo(AnyHistory):
    """The same with two learners."""

    roles = TWO


class AnyHistoryOfGossip(AnyHistoryOfTwo):
    """The same with learners that come and go."""

    mode = "gossip"


ANYTHING = settings(max_examples=examples(40), stateful_step_count=40, suppress_health_check=list(HealthCheck))
AnyHistory.TestCase.settings = AnyHistoryOfTwo.TestCase.settings = AnyHistoryOfGossip.TestCase.settings = ANYTHING
TestAnyHistory, TestAnyHistoryOfTwo = AnyHistory.TestCase, AnyHistoryOfTwo.TestCase
TestAnyHistoryOfGossip = AnyHistoryOfGossip.TestCase


def test_a_trainer_whose_last_words_are_wrong_has_finished_all_the_same() -> None:
    story = Story().at(0.0, ev.Begin(), *up(*ROLES))
    with pytest.raises(ValueError, match=r"env_steps is 'many'; it must be a number"):
        story.at(1.0, finished("trainer", "total_steps", env_steps="many"))
    story.at(1.1, ev.Tick())
    assert story.supervisor.phase == "scoring"
