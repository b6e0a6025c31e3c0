"""Facts are taken in once and in order; those that contradict others are refused."""

from __future__ import annotations

import pytest

from launch.sweeps.history import AnyFact, Begun, Dropped, Ended, History, Retried, RunId, Started, Trial

BEGUN = Begun(format=1, version="0", keys={}, topology="")
FIRST: list[AnyFact] = [BEGUN, Trial(number=0, values={"a": 1}), Started(trial=0, seed=1)]


def made(*facts: AnyFact) -> History:
    history = History()
    for fact in (*FIRST, *facts):
        history.add(fact)
    return history


def test_a_trials_score_is_the_mean_of_its_finished_runs() -> None:
    history = made(
        Ended(trial=0, seed=1, status="finished", score=1.0),
        Ended(trial=0, seed=2, status="failed", score=9.0),
        Ended(trial=0, seed=3, status="finished", score=3.0),
        Ended(trial=0, seed=4, status="finished"),
        Ended(trial=0, seed=5, status="dropped", score=9.0),
    )
    assert (history.scores(0), history.score(0), history.score(1)) == ([1.0, 3.0], 2.0, None)
    assert history.has_ended([RunId(0, 1), RunId(0, 2)]) and not history.has_ended([RunId(0, 9)])


@pytest.mark.parametrize(
    ("facts", "rule"),
    [
        ([BEGUN], "must be recorded exactly once"),
        ([Trial(number=2, values={})], "not the next trial"),
        ([Trial(number=0, values={})], "not the next trial"),
        ([Trial(number=1, values={}, parent=1)], "trial 1 is unknown"),
        ([Started(trial=1, seed=1)], "trial 1 is unknown"),
        ([Ended(trial=0, seed=1, status="finished")] * 2, "has already ended"),
        ([Ended(trial=0, seed=1, status="finished"), Started(trial=0, seed=1)], "has already ended"),
        ([Dropped(trial=0, env_steps=1, score=0.0, bound=1.0)] * 2, "already been dropped"),
        ([Retried(trial=0, seed=1)], "has not failed"),
        ([Ended(trial=0, seed=1, status="finished"), Retried(trial=0, seed=1)], "has not failed"),
    ],
)
def test_a_fact_that_contradicts_others_is_refused(facts: list[AnyFact], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        made(*facts)


def test_the_first_fact_must_be_the_beginning() -> None:
    with pytest.raises(ValueError, match="must be recorded exactly once"):
        History().add(FIRST[1])


def test_a_run_that_is_tried_again_counts_as_never_begun() -> None:
    history = made(Ended(trial=0, seed=1, status="failed"), Retried(trial=0, seed=1))
    assert (history.ended, history.starts) == ({}, {})
    history.add(Started(trial=0, seed=1))
    history.add(Ended(trial=0, seed=1, status="finished"))
