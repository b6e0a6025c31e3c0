"""Runs that are kept in the folder of a report: which of them count again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import kept, learning
from benchmarks.learning import LearningRun, learn
from benchmarks.request import BenchmarkRequest, shipped
from launch.bench.report import SuiteReport
from launch.runs.curves import LearningCurve

A2C, PPO = ("algorithm.name=a2c",), ("algorithm.name=ppo",)


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of each run that is made; runs of 600 s or more end by themselves."""
    seconds: list[float] = []

    def follow(request: BenchmarkRequest, overrides: Any, label: str, *_: Any) -> LearningRun:
        seconds.append(request.seconds)
        points = [(0.0, 0.0, -0.4), (100.0 * request.seconds, request.seconds / 60, 0.5)]
        rows = [{"env_steps": 0, "time_s": 0.0}, {"env_steps": 1_000, "time_s": request.seconds}]
        curve = LearningCurve(label, "Catch", 1.0, None, [points, points], restores={1: 0.0})
        return LearningRun(curve, rows, ended=request.seconds >= 600.0)

    monkeypatch.setattr(learning, "follow", follow)
    return seconds


def learned(folder: Path, seconds: float, keys: tuple[str, ...] = A2C, topology: str = "") -> SuiteReport:
    file = topology or shipped("catch.yaml")
    return learn("x", BenchmarkRequest(file, ("seed=5",), 1, seconds, output=folder), {"a": keys})


def test_a_run_that_its_seconds_cut_is_made_again_with_more_of_them(tmp_path: Path, followed: list[float]) -> None:
    assert learned(tmp_path, 60.0).figures["steps"] == learned(tmp_path, 30.0).figures["steps"] == 6_000
    assert followed == [60.0], "it lasted as long as is asked for"
    assert learned(tmp_path, 600.0).figures["steps"] == learned(tmp_path, 900.0).figures["steps"] == 60_000
    assert followed == [60.0, 600.0], "what has ended by itself would not last longer"


def test_runs_of_other_keys_or_of_another_topology_do_not_count(tmp_path: Path, followed: list[float]) -> None:
    learned(tmp_path, 60.0)
    learned(tmp_path, 60.0, PPO)
    assert len(followed) == 2
    other = tmp_path / "catch.yaml"
    other.write_text(Path(shipped("catch.yaml")).read_text().replace("envs: 4", "envs: 8"))
    learned(tmp_path, 60.0, PPO, str(other))
    learned(tmp_path, 60.0)
    learned(tmp_path, 60.0, PPO)
    assert len(followed) == 3


def test_runs_of_two_commits_or_machines_are_said(
    tmp_path: Path, followed: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    request = BenchmarkRequest(shipped("catch.yaml"), ("seed=5",), 1, 60.0, output=tmp_path)
    monkeypatch.setattr(kept, "machine_line", lambda: "2 of A, commit 1111111")
    assert not any("commit" in note for note in learn("x", request, {"a": A2C}).notes)
    monkeypatch.setattr(kept, "machine_line", lambda: "4 of B, commit 2222222")
    notes = learn("x", replace(request, repetitions=2), {"a": A2C}).notes
    assert len(followed) == 2
    assert notes[-1] == "runs of several machines or commits: 2 of A, commit 1111111; 4 of B, commit 2222222"
