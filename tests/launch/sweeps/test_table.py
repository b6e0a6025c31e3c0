"""The table of trials: whole trials first, the best of them first, and what the other trials lack."""

from __future__ import annotations

import pytest
from rich.console import Console

from launch.sweeps.decisions import Listed, Population
from launch.sweeps.history import AnyFact, Begun, Dropped, Ended, History, Trial
from launch.sweeps.keys import PopulationKeys, SweepKeys
from launch.sweeps.table import as_json, lineage, rows, table

VALUES = [{"optimizer.learning_rate": rate} for rate in (0.1, 0.2, 0.3, 0.4, 0.5)]
SEARCH = Listed(VALUES, [1, 2])


def made(*facts: AnyFact) -> History:
    history = History()
    for fact in (Begun(format=1, version="0", keys={}, topology=""), *facts):
        history.add(fact)
    return history


def end(trial: int, seed: int, score: float | None = None, status: str = "finished", error: str = "") -> Ended:
    return Ended(trial=trial, seed=seed, status=status, score=score, env_steps=10, error=error)  # type: ignore[arg-type]


HISTORY = made(
    *(Trial(number=number, values=values) for number, values in enumerate(VALUES)),
    *(end(0, 1, 1.0), end(0, 2, 3.0)),
    *(end(1, 1, 4.0), end(1, 2, 5.0)),
    *(end(2, 1, 9.0), end(2, 2, status="failed", error="[red]a simulator fell over")),
    *(Dropped(trial=3, env_steps=5, score=0.0, bound=1.0), end(3, 1, 0.0, "dropped")),
    *(end(4, 1, 7.0),),
)


def test_whole_trials_come_first_with_the_best_at_the_top() -> None:
    found = rows(SEARCH, HISTORY, 1)
    assert [(row.trial, row.status) for row in found] == [
        (1, "whole"),
        (0, "whole"),
        (2, "failed"),
        (4, "open"),
        (3, "dropped"),
    ]
    assert (found[0].score, found[0].deviation, found[0].env_steps) == (4.5, 0.5**0.5, 20)
    assert (found[4].score, found[4].finished, found[4].runs) == (None, 0, 2)
    assert [row.trial for row in rows(SEARCH, HISTORY, -1)][:2] == [0, 1]


def test_the_table_shows_values_scores_and_what_a_trial_lacks() -> None:
    console = Console(width=200, markup=False)
    with console.capture() as told:
        console.print(table(rows(SEARCH, HISTORY, 1), SweepKeys(topology=""), 200))
    lines = told.get().splitlines()
    assert lines[0].split()[:3] == ["trial", "learning_rate", "episode_return_mean"]
    assert lines[1].split() == ["1", "0.2", "4.500", "0.707", "4.000", "5.000", "2/2", "20"]
    assert "failed: [red]a simulator fell over" in lines[3]
    assert [row["status"] for row in as_json(rows(SEARCH, HISTORY, 1))] == [
        "whole",
        "whole",
        "failed",
        "open",
        "dropped",
    ]


@pytest.mark.parametrize("width", [50, 60, 80])
def test_numbers_are_never_broken_in_a_narrow_terminal(width: int) -> None:
    values = [{"optimizer.learning_rate": 0.000123456, "algorithm.entropy_cost": 0.0123456}]
    history = made(Trial(number=0, values=values[0]), end(0, 1, 1234.5), end(0, 2, -0.000123))
    console = Console(width=width, markup=False)
    with console.capture() as told:
        console.print(table(rows(Listed(values, [1, 2]), history, 1), SweepKeys(topology=""), width))
    lines = told.get().splitlines()
    (row,) = [line.split() for line in lines if "0.000123456" in line]
    assert row[:4] == ["0", "0.000123456", "0.0123456", "617.2"] and "2/2" in row
    assert ("1,234" in row) == (width == 80)  # the highest score
    assert max(map(len, lines)) <= width


def test_a_population_shows_its_last_generation_and_the_lineage_of_each_member() -> None:
    search = Population([], PopulationKeys(every_steps=1), [1, 2], 1, 2)
    history = made(
        *(Trial(number=0, values={"a": 1}), Trial(number=1, values={"a": 2})),
        *(end(0, 1, 1.0), end(1, 2, 2.0)),
        *(Trial(number=2, values={"a": 3}, parent=1), Trial(number=3, values={"a": 2}, parent=1)),
        *(end(2, 1, 5.0), end(3, 2, 4.0)),
    )
    assert [row.trial for row in rows(search, history, 1)] == [2, 3]
    assert [trial.number for trial in lineage(history, 2)] == [1, 2]
