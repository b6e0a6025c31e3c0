"""Histories of ends: budgets reached, Ctrl-C, requests to stop, and trainers that do not finish."""

from __future__ import annotations

import pytest

from actorlearn.wire.messages import Reply, Report
from launch.plan.plan import Start
from launch.supervision import events as ev
from tests.launch.supervision.story import (
    KILL,
    NO_EVALUATOR,
    OTHERS,
    REST,
    RESTARTS,
    ROLES,
    TERM,
    TWO,
    Story,
    asked,
    exits,
    finished,
    lose,
    received,
    running,
    two,
    up,
)


def test_a_run_that_reaches_total_steps_finishes() -> None:
    story = running(NO_EVALUATOR).at(2, finished("trainer", "total_steps", env_steps=500))
    assert {(kill.name, kill.signal) for kill in story.did(ev.Kill)} == {(name, TERM) for name in REST}
    story.at(2.1, ev.Exited("trainer", 0, 0), *exits(REST[1:]))
    assert story.done is None
    story.at(2.2, *exits(REST[:1]))
    assert story.done == ev.Done("finished", 0, summary={"env_steps": 500})
    assert story.all[-1] == story.done
    assert [note.kind for note in story.ever(ev.Note)].count("ended") == 4


def test_the_games_of_a_learner_that_was_given_up_count_in_the_summary() -> None:
    story = two().at(
        1, received("trainer-1", Report(row={"env_steps": 40, "episodes": 90, "episode_return_mean": 1.0}))
    )
    story = lose(story, "trainer-1").then(
        finished("trainer-0", "total_steps", env_steps=500, episodes=300, episode_return_mean=4.0)
    )
    story.then(ev.Exited("trainer-0", 0, 0), *exits(["simulator-0", "simulator-1"]))
    assert story.done is not None and story.done.status == "finished"
    summary = {key: story.done.summary[key] for key in ("env_steps", "episodes", "episode_return_mean")}
    assert summary == {"env_steps": 500, "episodes": 390, "episode_return_mean": 4.0}


def test_the_games_of_a_resumed_learner_that_was_given_up_before_its_first_report_count_in_the_summary() -> None:
    story = two(resume=True)
    story.supervisor.newest_rows |= {"trainer-0": {"episodes": 250}, "trainer-1": {"episodes": 90}}
    story = lose(story, "trainer-1").then(finished("trainer-0", "total_steps", episodes=300))
    story.then(ev.Exited("trainer-0", 0, 0), *exits(["simulator-0", "simulator-1"]))
    assert story.done is not None and story.done.summary["episodes"] == 390


def test_the_newest_games_of_a_learner_that_was_restarted_and_given_up_count_in_the_summary() -> None:
    story = two().at(1, finished("trainer-1", "stopped", episodes=100), ev.Exited("trainer-1", 0, 0))
    story.at(5, ev.Tick(), *up("trainer-1", incarnation=1))
    story.then(received("trainer-1", Report(row={"episodes": 200, "episode_return_mean": 1.0}), 1))
    for incarnation in range(1, RESTARTS + 1):
        story.at(story.now_s + 4, ev.Exited("trainer-1", incarnation, 1)).at(story.now_s + 4, ev.Tick())
    assert story.state("trainer-1") == "fatal"
    story.then(finished("trainer-0", "total_steps", episodes=300), ev.Exited("trainer-0", 0, 0))
    story.then(*exits(["simulator-0", "simulator-1"]))
    assert story.done is not None and story.done.summary["episodes"] == 500


def test_a_process_that_does_not_end_is_killed_after_5_s() -> None:
    story = running(NO_EVALUATOR).at(2, finished("trainer", "total_steps"), ev.Exited("trainer", 0, 0))
    story.then(*exits(REST[1:]))
    assert story.at(6.9, ev.Tick()).did(ev.Kill) == []
    assert story.at(7.0, ev.Tick()).did(ev.Kill) == [ev.Kill(REST[0], 0, KILL)]
    assert story.at(7.1, *exits(REST[:1], -9)).did(ev.Done) == [ev.Done("finished", 0)]
    late = "killed, because it had not ended 5 s after it was told to"
    assert ("ended", REST[0], 0, late) in story.notes


def test_an_exit_by_the_signal_that_was_sent_is_reported_as_an_end_and_no_death() -> None:
    story = running(NO_EVALUATOR).at(2, finished("trainer", "total_steps"), *exits(REST[:1], -15))
    assert ("ended", REST[0], 0, "as told, by SIGTERM") in story.notes


def test_a_process_that_even_sigkill_does_not_end_does_not_delay_the_end() -> None:
    story = running(NO_EVALUATOR).at(2, finished("trainer", "total_steps")).at(7, ev.Tick()).at(12, ev.Tick())
    assert story.done == ev.Done("finished", 0)


def test_a_process_in_backoff_is_not_waited_for() -> None:
    story = running(NO_EVALUATOR).at(2, ev.Exited("simulator-0", 0, -9), finished("trainer", "total_steps"))
    story.at(2.1, *exits(name for name in NO_EVALUATOR if name != "simulator-0")).at(9, ev.Tick())
    assert story.done == ev.Done("finished", 0)
    assert len(story.ever(Start)) == len(NO_EVALUATOR)


def test_ctrl_c_lets_the_trainer_finish() -> None:
    story = running().at(2, ev.Interrupted())
    assert story.notes == [("stopping", "", 0, "interrupted")]
    assert story.did(ev.Kill) == []
    assert {order.phase for order in story.orders.values()} == {"drain"}
    story.at(3, finished("trainer", "drained", env_steps=9))
    assert {kill.name for kill in story.did(ev.Kill)} == set(OTHERS)
    story.at(3.1, ev.Exited("trainer", 0, 0), *exits(OTHERS))
    assert story.done == ev.Done("stopped", 130, summary={"env_steps": 9})


def test_a_run_that_stops_before_its_first_update_reports_the_steps_it_made() -> None:
    story = running().at(2, ev.Interrupted())
    story.at(3, finished("trainer", "drained", env_steps=0, updates=0, steps_made=1212, steps_in_flight=1212))
    story.at(3.1, ev.Exited("trainer", 0, 0), *exits(OTHERS))
    said = "before the first update: 1,212 steps were made and not learned from"
    assert story.notes[-1] == ("stopped", "", 0, said)


def test_deaths_while_the_trainer_finishes_are_reported_and_not_followed_by_restarts() -> None:
    story = running().at(2, ev.Interrupted()).at(2.1, ev.Exited("simulator-0", 0, -9))
    assert story.notes == [("died", "simulator-0", 0, "signal 9")]
    assert story.at(10, ev.Tick()).did(Start) == []
    assert story.done is None


def test_a_run_that_is_stopped_by_a_request_has_exit_status_0() -> None:
    story = running().at(2, asked("stop"))
    assert story.reply.ok
    story.at(3, finished("trainer", "drained"), ev.Exited("trainer", 0, 0), *exits(OTHERS))
    assert story.done == ev.Done("stopped", 0)


def test_a_run_that_reaches_its_end_while_it_stops_is_finished() -> None:
    story = running().at(2, asked("stop")).at(3, finished("trainer", "total_steps"))
    story.at(3.1, ev.Exited("trainer", 0, 0), *exits(OTHERS))
    assert story.done == ev.Done("finished", 0, unscored=True)


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
    assert story.done == ev.Done(
        "failed", 1, "the trainer did not finish within supervision.drain_s: 900, and was killed"
    )


def test_a_trainer_that_hangs_while_it_finishes_fails_the_run_at_once() -> None:
    story = running().at(2, ev.Interrupted()).at(40, ev.Stalled("trainer", 0, 30.0))
    assert story.did(ev.Kill) == [ev.Kill("trainer", 0, KILL)]
    story.at(40.1, ev.Exited("trainer", 0, -9))
    assert story.notes == [("died", "trainer", 0, "hang")]
    story.at(40.2, *exits(OTHERS))
    assert story.done == ev.Done("failed", 1, "trainer ended before it finished its work: hang")


def test_a_trainer_that_dies_while_it_finishes_fails_the_run() -> None:
    story = running().at(2, ev.Interrupted()).at(3, ev.Exited("trainer", 0, -9)).at(3.1, *exits(OTHERS))
    assert story.done == ev.Done("failed", 1, "trainer ended before it finished its work: signal 9")


def test_ctrl_c_before_the_trainer_runs_ends_at_once() -> None:
    story = Story().at(0, ev.Begin()).at(1, ev.Interrupted())
    assert {(kill.name, kill.signal) for kill in story.did(ev.Kill)} == {(name, TERM) for name in ROLES}
    assert story.at(1.1, *exits(ROLES)).did(ev.Done) == [ev.Done("stopped", 130)]


def test_two_ctrl_c_end_everything_at_once() -> None:
    story = running().at(2, ev.Interrupted()).at(2.1, ev.Interrupted())
    assert {(kill.name, kill.signal) for kill in story.did(ev.Kill)} == {(name, KILL) for name in ROLES}
    assert story.last[-1] == ev.Done("stopped", 130)


def test_a_hundred_ctrl_c_have_the_effect_of_two() -> None:
    story = running().at(2, *[ev.Interrupted()] * 100)
    assert len(story.ever(ev.Done)) == 1
    assert story.at(3, *exits(ROLES, -9), ev.Tick()).last == []


def test_a_second_stop_request_changes_nothing() -> None:
    story = running().at(2, asked("stop")).at(2.1, asked("stop"))
    assert story.reply == Reply(ok=True, text="already stopping: the run is draining")
    assert story.did(ev.Kill) == []
    story.at(3, finished("trainer", "drained")).at(3.1, ev.Exited("trainer", 0, 0), *exits(OTHERS))
    assert story.done == ev.Done("stopped", 0)


@pytest.mark.parametrize("before", [[], [asked("stop")]])
def test_a_kill_request_ends_everything_at_once(before: list[ev.Event]) -> None:
    story = running().at(2, *before).at(2.1, asked("kill"))
    assert story.reply.ok
    assert {(kill.name, kill.signal) for kill in story.did(ev.Kill)} == {(name, KILL) for name in ROLES}
    assert story.last[-1] == ev.Done("stopped", 0)


def test_one_ctrl_c_after_a_stop_request_does_not_count_as_the_second() -> None:
    story = running().at(2, asked("stop")).at(2.1, ev.Interrupted())
    assert story.last == []
    assert story.at(2.2, ev.Interrupted()).last[-1] == ev.Done("stopped", 130)


@pytest.mark.parametrize("hangups", [(0, 1, 2), (0, 2), (1, 2)])
def test_a_hangup_is_never_the_second_interrupt(hangups: tuple[int, ...]) -> None:
    """A closed terminal and a shutdown send SIGHUP and SIGINT, in any order."""
    story = running()
    for i in range(3):
        story.at(2.0 + i, ev.Interrupted(hangup=i in hangups))
    assert story.ever(ev.Kill) == []
    assert [note.cause for note in story.ever(ev.Note) if note.kind == "stopping"] == [
        "the terminal was closed (SIGHUP)" if 0 in hangups else "interrupted"
    ]
    story.at(6, finished("trainer", "drained"), ev.Exited("trainer", 0, 0), *exits(OTHERS))
    assert story.done == ev.Done("stopped", 130)


def test_ctrl_c_after_the_last_step_leaves_a_run_finished() -> None:
    story = running(NO_EVALUATOR).at(2, finished("trainer", "total_steps")).at(2.1, ev.Interrupted(), ev.Interrupted())
    assert story.done == ev.Done("finished", 0)


def test_a_run_of_two_learners_finishes_when_both_have_finished() -> None:
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


def test_the_summary_of_one_learner_suffices_when_the_other_dies_at_the_end() -> None:
    story = two().at(2, ev.Interrupted()).at(3, finished("trainer-0", "drained", env_steps=90))
    story.at(4, ev.Exited("trainer-1", 0, -9)).at(5, *exits(["trainer-0", "simulator-0", "simulator-1"], 0))
    assert story.done == ev.Done("stopped", 130, summary={"env_steps": 90})


def test_a_trainer_with_an_invalid_summary_has_finished_all_the_same() -> None:
    story = Story().at(0.0, ev.Begin(), *up(*ROLES))
    with pytest.raises(ValueError, match=r"env_steps is 'many'; it must be a number"):
        story.at(1.0, finished("trainer", "total_steps", env_steps="many"))
    story.at(1.1, ev.Tick())
    assert story.supervisor.phase == "scoring"


def test_one_restarted_trainer_saves_the_store_if_all_trainers_have_died() -> None:
    story = Story(TWO, mode="async").at(0, ev.Begin()).at(1, *up(*TWO))
    story.at(2, *exits(["trainer-0", "trainer-1"], -9)).at(2.1, ev.Interrupted())
    assert story.started == [("trainer-0", 1, True)] and story.done is None
    story.at(2.5, ev.Tick()).at(30, ev.Tick())
    assert story.did(Start) == []  # the other is not needed
