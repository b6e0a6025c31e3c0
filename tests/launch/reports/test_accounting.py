"""The account of a run with learners that had left before a resume; `tests/system/test_accounting.py` has the rest."""

from __future__ import annotations

from actorlearn.memory.account import LearnerSteps, StepCounts
from launch.reports.accounting import SavedSteps, account, counters_of, row_of

LEFT = {"account": {"used": 50, "dropped": {"stale": 3}}, "in_flight": 5, "episodes_finished": 4}


def test_the_steps_of_a_learner_that_has_left_count_as_used_or_dropped() -> None:
    row = counters_of(LEFT)
    assert (row["episodes"], row["steps_made"], row["steps_used"], row["steps_dropped"]) == (4, 58, 50, 8)
    assert (row["dropped_stale"], row["dropped_not_resumed"]) == (3, 5)
    assert set(counters_of({}).values()) == {0}


def test_a_learner_that_is_resumed_begins_with_the_steps_and_games_of_its_checkpoint() -> None:
    row = row_of({**LEFT, "recent_returns": [1.0, 0.0], "recent_lengths": [6, 8]})
    assert (row["episodes"], row["episodes_in_mean"], row["episode_return_mean"]) == (4, 2, 0.5)
    assert row["episode_length_mean"] == 7.0
    assert (row["steps_made"], row["steps_used"], row["steps_dropped"]) == (58, 50, 3), "5 steps are still in flight"
    other_task = row_of({**LEFT, "recent_returns": [1.0], "recent_lengths": [6]}, same_task=False)
    assert (other_task["episodes"], other_task["episodes_in_mean"], other_task["episode_return_mean"]) == (4, 0, None)
    assert row_of({**LEFT, "recent_returns": [float("inf")]})["episode_return_mean"] is None


def test_a_rollback_drops_no_steps_of_a_learner_that_has_left() -> None:
    """The shared weights contain 140 steps; the learner that has left learned 50 of them and can lose none."""
    own = LearnerSteps(counts=StepCounts(used=100), in_flight=7, commits=1)
    found = account({0: own}, {0: SavedSteps(env_steps=140)}, shared=True, finished=0, left=[counters_of(LEFT)])
    row = found.row
    assert (row["steps_made"], row["steps_used"], row["steps_in_flight"]) == (165, 140, 7)
    assert (row["dropped_rolled_back"], row["dropped_stale"], row["dropped_not_resumed"]) == (10, 3, 5)
    assert "of 165 steps made, 140 are used, 18 dropped and 7 in flight" in found.said
