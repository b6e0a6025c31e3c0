"""Ends of runs with evaluators: the final weights are evaluated before everything ends, and scores can end runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from actorlearn.wire.messages import Evaluated
from launch.plan.plan import Start
from launch.supervision import events as ev
from tests.identities import trainer
from tests.launch.supervision.story import (
    KILL,
    OTHERS,
    REST,
    ROLES,
    TERM,
    TWO,
    Story,
    asked,
    exits,
    finished,
    hello,
    lose,
    received,
    running,
    up,
)

SCORE = Evaluated(policy_version=9, env_steps=500, returns=[2.0])
SCORED = [received("evaluator-0", SCORE), finished("evaluator-0", "scored")]
FINISHED = ev.Done("finished", 0, summary={"env_steps": 500})
UNSCORED = replace(FINISHED, unscored=True)


def scoring() -> Story:
    """A run that has reached total_steps, in which only the evaluator still runs."""
    story = running().at(2, finished("trainer", "total_steps", env_steps=500))
    return story.at(2.1, ev.Exited("trainer", 0, 0), *exits(REST, 0))


def test_the_evaluator_evaluates_the_final_weights_while_all_others_end() -> None:
    story = running().at(2, finished("trainer", "total_steps", env_steps=500))
    assert {(kill.name, kill.signal) for kill in story.did(ev.Kill)} == {(name, TERM) for name in REST}
    order = story.orders["evaluator-0.0"]
    assert (order.phase, order.members) == ("score", [])
    said = "the final weights, by evaluator-0, for at most 30 minutes; Ctrl-C ends the run without their score"
    assert story.notes == [("scoring", "", 0, said)]
    story.at(2.1, ev.Exited("trainer", 0, 0), *exits(REST, 0))
    assert [note[0] for note in story.notes] == ["ended"] * len(OTHERS)
    assert story.at(300, ev.Tick()).did(ev.Kill) == []
    assert story.done is None
    story.at(301, *SCORED)
    assert story.notes == [("evaluated", "evaluator-0", 0, "2.0 over 1 games at 500 steps")]
    assert story.did(ev.Kill) == []
    assert story.at(301.1, ev.Exited("evaluator-0", 0, 0)).done == FINISHED


def test_an_evaluator_that_starts_late_is_awaited_and_evaluates_the_final_weights() -> None:
    story = Story().at(0, ev.Begin()).at(1, *up(*(name for name in ROLES if name != "evaluator-0")))
    story.at(2, finished("trainer", "total_steps", env_steps=500)).at(2.1, ev.Exited("trainer", 0, 0), *exits(REST))
    assert story.at(4, *up("evaluator-0")).orders["evaluator-0.0"].phase == "score"
    assert story.at(5, *SCORED, ev.Exited("evaluator-0", 0, 0)).done == FINISHED


def test_an_evaluator_that_waits_for_its_restart_evaluates_the_final_weights() -> None:
    story = running().at(2, ev.Exited("evaluator-0", 0, -9)).then(finished("trainer", "total_steps", env_steps=500))
    assert story.started == [("evaluator-0", 1, False)]
    assert story.supervisor.phase == "scoring"
    story.at(2.1, ev.Exited("trainer", 0, 0), *exits(REST)).at(4, *up("evaluator-0", incarnation=1))
    assert story.orders["evaluator-0.1"].phase == "score"
    story.at(5, received("evaluator-0", SCORE, 1), finished("evaluator-0", "scored", 1), ev.Exited("evaluator-0", 1, 0))
    assert story.done == FINISHED
    assert not [note for note in story.ever(ev.Note) if note.kind == "warned"]


def test_an_evaluator_that_dies_while_the_trainers_save_evaluates_the_final_weights() -> None:
    story = Story({**TWO, "evaluator-0": "evaluator"}).at(0, ev.Begin()).then(*up(*TWO, "evaluator-0"))
    story.at(2, finished("trainer-0", "total_steps", env_steps=500)).at(3, ev.Exited("evaluator-0", 0, -9))
    assert story.at(9, ev.Tick()).did(Start) == [], "it is started when there are final weights"
    story.at(10, finished("trainer-1", "total_steps", env_steps=500))
    assert story.started == [("evaluator-0", 1, False)]
    assert story.supervisor.phase == "scoring"


def on_nodes(first: str) -> Story:
    """Two learners on two nodes, and an evaluator on node a; trainer-0, on the node ``first``, has finished."""
    story = Story({**TWO, "evaluator-0": "evaluator"}).at(0, ev.Begin())
    for name, node in (("trainer-0", first), ("trainer-1", "a"), ("evaluator-0", "a")):
        story.then(ev.Spawned(name, 0, 1, None, node), hello(name))
    return story.at(2, finished("trainer-0", "total_steps", env_steps=500))


def test_an_evaluator_whose_node_is_lost_at_the_end_is_restarted_on_another() -> None:
    story = on_nodes("b").at(3, ev.Lost("a", (("evaluator-0", 0), ("trainer-1", 0)), True))
    assert [start[0] for start in story.started] == ["evaluator-0"]
    assert story.supervisor.phase == "scoring"


def test_the_run_ends_without_a_final_score_if_no_node_is_left_for_its_evaluator() -> None:
    story = on_nodes("a").at(3, ev.Exited("trainer-0", 0, 0))
    story.at(4, ev.Lost("a", (("evaluator-0", 0), ("trainer-1", 0)), True))
    assert story.did(Start) == []
    assert story.supervisor.phase == "ending"
    assert story.notes[-1][3].startswith("the final weights were not evaluated, because evaluator-0 has ended: node a")


def test_a_run_whose_evaluator_was_given_up_says_that_its_final_weights_were_not_evaluated() -> None:
    story = lose(running(), "evaluator-0").then(finished("trainer", "total_steps", env_steps=500))
    assert story.supervisor.phase == "ending"
    said = (
        "the final weights were not evaluated, because evaluator-0 has ended: exit 1; its last output is in "
        "logs/evaluator-0.log; `actorlearn eval RUN` evaluates them"
    )
    assert story.notes == [("warned", "", 0, said)]


def test_several_evaluators_are_all_awaited() -> None:
    story = running({**ROLES, "evaluator-1": "evaluator"}).at(2, finished("trainer", "total_steps", env_steps=500))
    story.at(3, ev.Exited("trainer", 0, 0), *exits(REST), *SCORED, ev.Exited("evaluator-0", 0, 0))
    assert story.notes[-1] == ("ended", "evaluator-0", 0, "exit 0")
    assert story.supervisor.phase == "scoring"
    assert story.at(4, finished("evaluator-1", "scored"), ev.Exited("evaluator-1", 0, 0)).done == FINISHED


@pytest.mark.parametrize("stalled", [False, True])
def test_an_evaluator_that_dies_during_the_final_evaluation_does_not_delay_the_end(stalled: bool) -> None:
    story = scoring()
    if stalled:
        assert story.at(40, ev.Stalled("evaluator-0", 0, 30.0)).did(ev.Kill) == [ev.Kill("evaluator-0", 0, KILL)]
    story.at(41, ev.Exited("evaluator-0", 0, -9))
    cause = "hang" if stalled else "signal 9"
    why = f"evaluator-0 has ended: {cause}"
    said = f"the final weights were not evaluated, because {why}; `actorlearn eval RUN` evaluates them"
    assert story.notes[:2] == [("died", "evaluator-0", 0, cause), ("warned", "", 0, said)]
    assert story.done == FINISHED
    assert story.at(60, ev.Tick()).did(Start) == []


def test_the_final_evaluation_is_awaited_for_half_an_hour() -> None:
    story = scoring()
    assert story.at(1801.9, ev.Tick()).did(ev.Kill) == []
    story.at(1802, ev.Tick())
    assert story.did(ev.Kill) == [ev.Kill("evaluator-0", 0, TERM)]
    assert story.notes == [
        ("warned", "", 0, "the final weights were not evaluated within 1800 s; the run has no final score")
    ]
    assert story.at(1802.1, ev.Exited("evaluator-0", 0, 0)).done == FINISHED


@pytest.mark.parametrize("event", [ev.Interrupted(), ev.Interrupted(hangup=True), asked("stop")])
def test_a_stop_during_the_final_evaluation_ends_the_run_as_finished(event: ev.Event) -> None:
    story = scoring().at(3, event)
    assert story.did(ev.Kill) == [ev.Kill("evaluator-0", 0, TERM)]
    assert [note[0] for note in story.notes] == ["stopping"]
    assert story.at(3.1, ev.Exited("evaluator-0", 0, 0)).done == UNSCORED


@pytest.mark.parametrize("events", [[ev.Interrupted()] * 2, [asked("kill")]])
def test_a_second_ctrl_c_or_a_kill_during_the_final_evaluation_kills_the_evaluator(events: list[ev.Event]) -> None:
    story = scoring().at(3, *events)
    assert story.did(ev.Kill)[-1] == ev.Kill("evaluator-0", 0, KILL)
    assert story.done == UNSCORED


@pytest.mark.parametrize("reason", ["drained", "total_steps"])
def test_a_run_that_was_told_to_stop_does_not_evaluate_its_final_weights(reason: str) -> None:
    story = running().at(2, ev.Interrupted()).at(3, finished("trainer", reason))
    assert {(kill.name, kill.signal) for kill in story.did(ev.Kill)} == {(name, TERM) for name in OTHERS}
    assert story.supervisor.phase == "ending"
    story.at(3.1, ev.Exited("trainer", 0, 0), *exits(OTHERS, 0))
    assert story.done is not None and story.done.unscored == (reason == "total_steps")


def test_a_stop_while_learners_finish_their_last_updates_leaves_the_run_unscored() -> None:
    story = Story({**TWO, "evaluator-0": "evaluator"}, mode="sync").at(0, ev.Begin()).then(*up(*TWO, "evaluator-0"))
    story.at(2, finished("trainer-0", "total_steps", env_steps=500)).at(2.1, asked("stop"))
    story.at(2.2, finished("trainer-1", "total_steps", env_steps=500))
    story.at(2.3, *exits([*TWO, "evaluator-0"], 0))
    assert story.done is not None and (story.done.status, story.done.unscored) == ("finished", True)


def test_saves_are_refused_while_the_final_weights_are_evaluated() -> None:
    story = running().at(1.5, asked("save")).at(2, finished("trainer", "total_steps"))
    assert [answer.reply.ok for answer in story.did(ev.Answer)] == [False]
    story.at(3, asked("save"))
    assert story.reply.text == "save: the run is scoring; when it has ended, resume it and try again"


def test_the_final_weights_are_those_of_all_learners_that_have_finished() -> None:
    story = Story({**TWO, "evaluator-0": "evaluator"}, mode="gossip").at(0, ev.Begin())
    story.then(*up(*TWO, "evaluator-0")).at(2, finished("trainer-1", "total_steps", env_steps=500))
    assert story.at(2.1, ev.Exited("trainer-1", 0, 0)).orders["evaluator-0.0"].learners == [trainer("trainer-0")]
    story.at(3, finished("trainer-0", "drained", env_steps=500))
    assert story.orders["evaluator-0.0"].learners == [trainer("trainer-0"), trainer("trainer-1")]
    order = story.supervisor.order
    story.at(3.1, *exits(["trainer-0", "simulator-0", "simulator-1"], 0))
    assert story.supervisor.order == order
    story.at(4, *SCORED, ev.Exited("evaluator-0", 0, 0))
    assert story.done is not None and (story.done.status, story.done.exit_code) == ("finished", 0)
    assert not [note for note in story.ever(ev.Note) if note.kind == "died"]


# Runs that end at a score ---------------------------------------------------------------------------------------------


def told(score: float) -> ev.Event:
    return received("evaluator-0", Evaluated(policy_version=4, env_steps=300, returns=[score - 1.0, score + 1.0]))


def test_a_run_ends_when_an_evaluation_reaches_the_score() -> None:
    """Trainers finish and save as at total_steps; the score is known, so the final weights are not evaluated."""
    story = running(stop_at_score=20.0).at(2, told(19.9))
    assert story.notes == [("evaluated", "evaluator-0", 0, "19.9 over 2 games at 300 steps")]
    assert story.supervisor.phase == "running"
    story.at(3, told(20.0))
    assert story.notes[1:] == [("stopping", "", 0, "the mean score 20 has reached evaluator.stop_at_score: 20")]
    assert story.orders["trainer.0"].phase == "drain"
    story.at(4, told(30.0))
    assert [note[0] for note in story.notes] == ["evaluated"], "the run is stopped once"
    story.at(5, finished("trainer", "drained", env_steps=310)).at(5.1, ev.Exited("trainer", 0, 0), *exits(OTHERS[:1]))
    story.at(6, *(ev.Exited(name, 0, 0) for name in OTHERS))
    cause = "the mean score 20 has reached evaluator.stop_at_score: 20"
    assert story.done == ev.Done("finished", 0, cause=cause, summary={"env_steps": 310})


def test_a_score_that_comes_while_no_trainer_runs_ends_the_run_at_once() -> None:
    story = running(stop_at_score=20.0).at(2, ev.Exited("trainer", 0, -9)).at(3, told(21.0))
    assert {kill.name for kill in story.did(ev.Kill)} == set(OTHERS)
    done = story.at(4, *exits(OTHERS)).done
    assert done is not None and (done.status, done.exit_code) == ("finished", 0)


def test_the_score_of_the_final_weights_stops_nothing() -> None:
    story = running(stop_at_score=20.0).at(2, finished("trainer", "total_steps", env_steps=500))
    story.at(2.1, ev.Exited("trainer", 0, 0), *exits(REST, 0)).at(3, told(21.0))
    assert [note[0] for note in story.notes] == ["evaluated"]
    assert story.at(4, finished("evaluator-0", "scored"), ev.Exited("evaluator-0", 0, 0)).done == FINISHED


def reported(score: float | None, games: int = 100) -> ev.Event:
    """A report of a run that has played 300 games, of which ``games`` are in the mean."""
    return ev.Reported({"episode_return_mean": score, "episodes": 300, "episodes_in_mean": games, "env_steps": 5_000})


def test_a_run_ends_when_training_games_reach_the_score_and_its_final_weights_are_evaluated() -> None:
    story = running(stop_at_training_score=18.0)
    for row in (reported(None), reported(17.99), reported(18.0, games=99)):
        story.at(2, row)
        assert story.notes == [] and story.supervisor.phase == "running"
    story.at(3, reported(18.0))
    cause = "the mean score 18.00 of the last 100 training games has reached stop_at_training_score: 18 at 5,000 steps"
    assert story.notes == [("stopping", "", 0, cause)]
    assert story.orders["trainer.0"].phase == "drain"
    assert story.at(4, reported(19.0)).notes == [], "the run is stopped once"
    story.at(5, finished("trainer", "drained", env_steps=5_100)).at(5.1, ev.Exited("trainer", 0, 0))
    assert story.supervisor.phase == "scoring"
    story.at(6, *exits(REST, 0)).at(7, told(19.5))
    done = story.at(8, finished("evaluator-0", "scored"), ev.Exited("evaluator-0", 0, 0)).done
    assert done == ev.Done("finished", 0, cause=cause, summary={"env_steps": 5_100})


def test_training_scores_end_nothing_without_stop_at_training_score() -> None:
    assert running().at(2, reported(1e9)).supervisor.phase == "running"
