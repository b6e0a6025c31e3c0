"""The table of seeds: it is written before the first run, continued by the same command, and shows failed runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from launch.bench import SuiteRequest
from launch.bench.seed_table import (
    FILE,
    LARGEST_SEED,
    Moment,
    Question,
    SeedRun,
    draw,
    open_table,
    read_seeds,
    record,
    write,
)
from launch.bench.time_to_score import time_to_score
from launch.errors import RunError

QUESTION = Question(topology="pong.yaml", overrides=["total_steps=9"], score=18.0, whole=False)


def at(minutes: float, steps: int) -> Moment:
    return Moment(minutes=minutes, steps=steps, score=18.1)


def test_seeds_are_drawn_from_the_clock_and_written_before_the_first_run(tmp_path: Path) -> None:
    table = open_table(tmp_path / "new", QUESTION, "20")
    assert len(set(table.seeds)) == 20 and all(0 <= seed <= LARGEST_SEED for seed in table.seeds)
    assert set(draw(20)).isdisjoint(table.seeds)
    found = json.loads((tmp_path / "new" / FILE).read_text())
    assert found["seeds"] == table.seeds and found["runs"] == [] and found["drawn_at"]


def test_the_same_command_goes_on_with_the_seeds_that_have_no_record(tmp_path: Path) -> None:
    table = open_table(tmp_path, QUESTION, "3")
    table.runs.append(SeedRun(seed=table.seeds[0], reached=at(3.0, 500)))
    write(table, tmp_path)
    again = open_table(tmp_path, QUESTION, "3")
    assert again == table and again.missing == table.seeds[1:]


@pytest.mark.parametrize(
    ("changed", "wanted", "said"),
    [
        ({"score": 17.0}, "3", "another command: pong.yaml total_steps=9 --score 18"),
        ({"overrides": []}, "3", "another command"),
        ({"whole": True}, "3", "another command"),
        ({}, "4", "write --seeds 3 to continue with them"),
        ({}, "1,2,3", "write --seeds 3 to continue with them"),
    ],
)
def test_another_question_or_other_seeds_are_refused(
    tmp_path: Path, changed: dict[str, Any], wanted: str, said: str
) -> None:
    open_table(tmp_path, QUESTION, "3")
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(RunError, match="name another folder with -o") as refused:
        open_table(tmp_path, msgspec.structs.replace(QUESTION, **changed), wanted)
    assert said in str(refused.value)
    assert (tmp_path / FILE).read_bytes() == before


def test_a_changed_topology_is_refused_in_the_same_folder_and_has_another_default_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trained: list[str] = []

    def run_to_score(topology: str, overrides: Any, seed: int, *_: Any) -> SeedRun:
        trained.append(topology)
        return SeedRun(seed=seed, reached=at(3.0, 500))

    monkeypatch.setattr("launch.bench.time_to_score.run_to_score", run_to_score)

    def measure(file: str, output: Path | None = None) -> None:
        time_to_score(SuiteRequest(file, (), 1, 1.0, score=18.0, seeds_wanted="7,", output=output))

    for folder, environments in (("configs", 4), ("mine", 8)):
        (tmp_path / folder).mkdir()
        text = f"name: {folder}\nseed: {environments}\nenv: {{id: CartPole-v1}}\nsimulators: {{envs: {environments}}}\n"
        (tmp_path / folder / "pong.yaml").write_text(text)
    for _ in range(2):
        measure("configs/pong.yaml")
        measure("mine/pong.yaml")
    assert trained == ["configs/pong.yaml", "mine/pong.yaml"], "each is measured once"
    measure("mine/pong.yaml", tmp_path / "out")
    with pytest.raises(RunError, match=r"pong\.yaml has other values than when .* -o"):
        measure("configs/pong.yaml", tmp_path / "out")
    (tmp_path / "mine" / "pong.yaml").write_text(
        "name: a\nseed: 1\nenv: {id: CartPole-v1}\nsimulators: {envs: 8} # 8\n"
    )
    measure("mine/pong.yaml", tmp_path / "out")
    assert len(trained) == 3, "seed, name and comments are no part of the question"


def test_a_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("{")
    with pytest.raises(RunError, match="remove it, or name another folder"):
        open_table(tmp_path, QUESTION, "3")


@pytest.mark.parametrize("wanted", ["0", "1001", "", "a", "1,1", "-1,2", f"{LARGEST_SEED + 1},", "1.5"])
def test_invalid_seeds_are_refused(wanted: str) -> None:
    with pytest.raises(RunError, match="the number of seeds to draw, from 1 to 1000"):
        read_seeds(wanted)


def test_seeds_are_a_number_or_a_list() -> None:
    assert (read_seeds("10"), read_seeds("7,"), read_seeds("4711, 11")) == (10, [7], [4711, 11])


def test_a_run_that_did_not_reach_the_score_counts_as_the_longest(tmp_path: Path) -> None:
    table = open_table(tmp_path, QUESTION, "1,2,3,4")
    table.runs += [SeedRun(seed=1, reached=at(3.0, 500)), SeedRun(seed=2, error="out of memory")]
    table.runs += [SeedRun(seed=3, reached=at(5.0, 900))]
    notes = table.notes()
    assert "2 of 3 runs reached 18" in notes
    assert "median: 5.00 minutes, 900 steps" in notes and "worst: never minutes, never steps" in notes
    assert "seed 2 failed: out of memory" in notes and "seeds to run: 4" in notes and "seeds given" in notes
    assert [row[:3] for row in table.rows()] == [("1", "3.00 min", "500"), ("2", "-", "-"), ("3", "5.00 min", "900")]


def test_a_record_has_the_best_and_the_last_score_and_the_rate_after_the_start() -> None:
    rows = [
        {"time_s": 10.0, "env_steps": 0, "episodes": 0, "episode_return_mean": None},
        {"time_s": 15.0, "env_steps": 500, "episodes": 3, "episode_return_mean": 20.0},
        {"time_s": 20.0, "env_steps": 1000, "episodes": 100, "episode_return_mean": 18.5},
        {"time_s": 30.0, "env_steps": 4000, "episodes": 250, "episode_return_mean": 17.5},
    ]
    made = record(7, rows, at(0.4, 1000), minutes=0.6, cause="total_steps")
    assert made.end == Moment(minutes=0.6, steps=4000, score=17.5)
    assert (made.best, made.steps_per_s, made.cause) == (18.5, 200.0, "total_steps")
    assert record(7, [], None, minutes=0.1, error="no").end is None
