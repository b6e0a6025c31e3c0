"""Optuna's proposals depend on the history alone, lie on the axes, and approach the best scores."""

from __future__ import annotations

import pytest

from launch.sweeps.axes import Axis, Choices, Range, written
from launch.sweeps.decisions import OVER
from launch.sweeps.history import FORMAT, Begun, Dropped, Ended, History, Trial
from launch.sweeps.keys import OptunaKeys

pytest.importorskip("optuna", reason="it is an extra; the extra dev has it")

from launch.sweeps.optuna_search import OptunaSearch

AXES: list[Axis] = [Range("rate", 1e-4, 1.0, log=True), Choices("kind", ([1], None, "x")), Range("horizon", 1, 9)]


def begun() -> History:
    history = History()
    history.add(Begun(format=FORMAT, version="0", keys={}, topology=""))
    return history


def search_on(search: OptunaSearch, history: History, trials: int, sign: int = 1) -> list[Trial]:
    """Add trials up to the number ``trials``; of six, one is dropped, one still runs, and the others are finished."""
    for number in range(len(history.trials), trials):
        trial = search.choose(history)
        assert isinstance(trial, Trial) and trial.number == number
        history.add(trial)
        score = -sign * abs(trial.values["rate"] - 0.01)
        if number % 6 == 4:
            history.add(Dropped(trial=number, env_steps=10, score=score, bound=0.0))
        elif number % 6 != 5:
            history.add(Ended(trial=number, seed=1, status="finished", score=score))
    return [*history.trials.values()]


def test_the_same_history_gives_the_same_next_trial() -> None:
    keys = OptunaKeys(trials=30, startup_trials=4)
    history = begun()
    one = search_on(OptunaSearch(AXES, keys, [1], 1), history, 12)
    again = search_on(OptunaSearch(AXES, keys, [1], 1), begun(), 12)
    assert [trial.values for trial in one] == [trial.values for trial in again]
    fresh = OptunaSearch(AXES, keys, [1], 1)
    assert fresh.choose(history) == fresh.choose(history) == OptunaSearch(AXES, keys, [1], 1).choose(history)


@pytest.mark.parametrize("sign", [1, -1])
def test_later_trials_come_nearer_to_the_best_than_the_drawn_ones(sign: int) -> None:
    keys = OptunaKeys(trials=40, startup_trials=10)
    trials = search_on(OptunaSearch(AXES, keys, [1], sign), begun(), 40, sign)
    far = [abs(trial.values["rate"] - 0.01) for trial in trials]
    assert sorted(far[20:])[10] < sorted(far[:10])[5]
    for trial in trials:
        assert 1e-4 <= trial.values["rate"] <= 1.0 and trial.values["kind"] in ([1], None, "x")
        assert trial.values["horizon"] in range(1, 10)
    assert len({written(trial.values) for trial in trials}) == 40


def test_the_search_is_over_after_its_trials_or_when_no_new_values_are_left() -> None:
    history = begun()
    search_on(OptunaSearch(AXES, OptunaKeys(trials=3), [1], 1), history, 3)
    assert OptunaSearch(AXES, OptunaKeys(trials=3), [1], 1).choose(history) is OVER
    few, history = OptunaSearch([Choices("rate", (0.1, 0.2))], OptunaKeys(trials=9), [1], 1), begun()
    search_on(few, history, 2)
    assert few.choose(history) is OVER and few.choose(history) is OVER
