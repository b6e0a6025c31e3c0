"""The guard of the rates: what it keeps, with what it compares, and when it fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.request import BenchmarkRequest, shipped
from benchmarks.suites import guard
from launch.errors import FailedError, RunError
from launch.topology.load import load

STEADY = [0.82, 0.80, 0.78]


def measured(monkeypatch: pytest.MonkeyPatch, folder: Path, **shares: list[float]) -> dict[str, tuple[str, ...]]:
    """Run the guard where training has these shares of its parts, others STEADY; return the rows by case."""
    files = {shipped(file): case for case, (file, _) in guard.CASES.items()}
    monkeypatch.setattr(guard, "measure_shares", lambda topology, *_: shares.get(files[topology], STEADY))
    report = guard.guard(BenchmarkRequest("", (), 3, 1.0, output=folder))
    return {row[0]: tuple(row) for row in report.rows}


def test_every_case_is_a_topology() -> None:
    for file, overrides in guard.CASES.values():
        load(shipped(file), overrides)


def test_the_first_measurement_passes_and_is_kept_with_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {row[4] for row in measured(monkeypatch, tmp_path).values()} == {"first on this kind of machine"}
    lines = [json.loads(line) for line in (tmp_path / "guard.jsonl").read_text().splitlines()]
    assert [line["case"] for line in lines] == list(guard.CASES)
    assert all(line["shares"] == STEADY and line["commit"] for line in lines)
    assert {row[4] for row in measured(monkeypatch, tmp_path).values()} == {"as before"}


def test_a_loss_fails_names_the_case_and_does_not_become_the_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured(monkeypatch, tmp_path)
    for _ in range(6):
        with pytest.raises(
            FailedError, match=r"PPO: training reaches 0\.700 \(0\.690 to 0\.710\) of its parts, 0\.800"
        ):
            measured(monkeypatch, tmp_path, PPO=[0.69, 0.70, 0.71])
    assert "slower" in capsys.readouterr().out
    assert measured(monkeypatch, tmp_path)["PPO"][4] == "as before"


NOISE = (0.9, 0.93, 0.96, 0.98, 1.0, 1.02, 1.04, 1.07, 1.1)
"""Nine repetitions differ like this from their median."""


@pytest.mark.parametrize(("factor", "slower"), [(0.85, True), (0.91, True), (0.96, False), (1.0, False), (1.2, False)])
def test_a_loss_of_a_tenth_is_seen_through_the_noise_and_a_smaller_one_passes(factor: float, slower: bool) -> None:
    earlier = [guard.Guarded("PPO", "m", tuple(0.8 * noise for noise in NOISE), False)] * 3
    assert guard.is_slower([0.8 * factor * noise for noise in NOISE], earlier) is slower


def test_a_loss_that_may_be_chance_passes() -> None:
    assert not guard.is_slower([0.6, 0.7, 0.9], [guard.Guarded("PPO", "m", (0.7, 0.8, 0.9), False)])


def test_measurements_of_other_machines_and_slower_ones_are_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(monkeypatch, tmp_path)
    monkeypatch.setattr(guard, "kind_of_machine", lambda: "another")
    assert measured(monkeypatch, tmp_path, DQN=[0.5, 0.5, 0.5])["DQN"][4] == "first on this kind of machine"


def test_without_a_folder_there_is_nothing_to_compare_with() -> None:
    with pytest.raises(RunError, match="with -o"):
        guard.guard(BenchmarkRequest("", (), 3, 1.0))
