"""``actorlearn health``: what the health rules find in the reports of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from launch.commands.health import health
from tests.launch.runs.folders import write_run

TOPOLOGY = {"total_steps": 1000, "optimizer": {"clip_norm": 1.0, "learning_rate": 0.1}, "algorithm": {"epochs": 1}}


def run_of(folder: Path, dead: list[float]) -> str:
    rows: list[Mapping[str, Any]] = [
        {"time_s": 2.0 * at, "env_steps": 10 * at, "updates": 10 * at, "dead_units": share}
        for at, share in enumerate(dead, 1)
    ]
    return str(write_run(folder, topology=yaml.safe_dump(TOPOLOGY), rows=rows).path)


def test_for_a_healthy_run_health_says_that_no_rule_fired(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert health(run_of(tmp_path / "well", [0.1] * 20), json=False) == 0
    assert capsys.readouterr().out == "well: no rule fired in 200 updates\n"


def test_health_says_when_a_rule_fired_and_what_to_try(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    word = run_of(tmp_path / "ill", [1.0] * 10 + [0.0] * 10)
    assert health(word, json=False) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("    0:10  ill: dead units: 100%") and "; try: lower optimizer.learning_rate" in first
    assert second == "    0:26  well again: dead units (130 steps)"
    assert health(word, json=True) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["run"], said["updates"], said["ill"]) == ("ill", 200, [])
    assert [(change["rule"], change["ill"]) for change in said["changes"]] == [
        ("dead units", True),
        ("dead units", False),
    ]


def test_a_run_without_a_report_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert health(run_of(tmp_path / "new", []), json=False) == 0
    assert capsys.readouterr().out == "new: no rule fired in 0 updates\n"
