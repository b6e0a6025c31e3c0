"""The comparison of the time to a score: its rows, its script's answer, and its table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers import scores
from benchmarks.request import BenchmarkRequest
from launch.bench import zoo
from launch.bench.seed_table import Moment
from launch.errors import RunError

BOTH_ROWS = ("cartpole-ppo", "lunarlander-ppo")


def request(*names: str, repetitions: int = 3) -> BenchmarkRequest:
    return BenchmarkRequest("", (), repetitions, 1.0, names=names)


def moment(minutes: float, steps: int = 1_000) -> Moment:
    return Moment(minutes=minutes, steps=steps, score=1.0)


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, int]]:
    """Programs that reach the score at once; returns what is trained: program, row and seed, in order."""
    trained: list[tuple[str, str, int]] = []

    def train(program: str, minutes: float) -> Any:
        def run(name: str, seed: int, python: Path | None = None) -> Moment:
            trained.append((program, name, seed))
            return moment(minutes)

        return run

    monkeypatch.setattr(scores, "environment", lambda name: Path("python"))
    monkeypatch.setattr(scores, "packages", lambda python: ["stable_baselines3==2.9.0"])
    monkeypatch.setattr(scores, "ours", train(scores.OURS, 1.0))
    monkeypatch.setattr(scores, "theirs", train(scores.THEIRS, 3.0))
    return trained


def test_each_row_is_a_row_of_the_zoo_and_names_arguments_that_fall() -> None:
    assert set(scores.rows()) <= set(zoo.rows())
    for row in scores.rows().values():
        assert set(row.linear) <= set(row.arguments)
        assert isinstance(row.arguments["n_steps"], int), "Stable-Baselines3 takes no 1024.0"


def test_both_programs_run_with_each_seed_in_alternating_order(programs: list[tuple[str, str, int]]) -> None:
    scores.scores(request(*BOTH_ROWS))
    for row in BOTH_ROWS:
        mine = [(program, seed) for program, name, seed in programs if name == row]
        assert [program for program, _ in mine] == [
            *(scores.OURS, scores.THEIRS),
            *(scores.THEIRS, scores.OURS),
            *(scores.OURS, scores.THEIRS),
        ]
        seeds = [seed for _, seed in mine]
        assert seeds[::2] == seeds[1::2] and len(set(seeds)) == 3, "each repetition has its own seed"


def test_the_report_has_the_ratio_of_the_medians_and_the_seeds(programs: list[tuple[str, str, int]]) -> None:
    told = scores.scores(request("cartpole-ppo"))
    assert [(row[2], row[3], row[4], row[7]) for row in told.rows] == [
        (scores.OURS, "3 of 3", "1.00", "3.00"),
        (scores.THEIRS, "3 of 3", "3.00", "-"),
    ]
    assert all(str(seed) in " ".join(told.notes) for _, _, seed in programs)


def test_a_seed_without_the_score_counts_as_the_longest() -> None:
    found = {"cartpole-ppo": {scores.OURS: [moment(1), None, moment(2)], scores.THEIRS: [None, None, moment(1)]}}
    ours, theirs = scores.report(found, {"cartpole-ppo": [1, 2, 3]}, []).rows
    assert (ours[3], ours[4], ours[5]) == ("2 of 3", "2.00", "1.00 to 2.00")
    assert (theirs[3], theirs[4], theirs[5]) == ("1 of 3", "never", "1.00 to 1.00")
    assert ours[7] == "-", "no ratio to a program that did not reach the score"


def test_an_unknown_row_is_refused_with_the_nearest(programs: list[tuple[str, str, int]]) -> None:
    with pytest.raises(RunError, match="no row 'cartpole-pp'.*cartpole-ppo"):
        scores.scores(request("cartpole-pp"))
    assert programs == []
