"""The suite ``families``: runs by environment, their seeds together."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from benchmarks.__main__ import app
from benchmarks.suites.families import package_of, written_score
from launch.runs import find
from tests.launch import asking

ask, refused = partial(asking.ask, of=app), partial(asking.refused, of=app)


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(find, "living_runs", list)
    return tmp_path


def make_run(path: Path, env_id: str, seed: int, score: float | None, evaluated: float | None = None) -> Path:
    """A run of 1,000 steps in two minutes that has ended."""
    path.mkdir(parents=True)
    topology = f"name: {env_id.lower()}\nseed: {seed}\nenv: {{id: {env_id}}}\nalgorithm: {{name: ppo}}\n"
    (path / "topology.yaml").write_text(topology)
    reports = [{"env_steps": steps, "time_s": time_s} for steps, time_s in ((0, 0.5), (100, 60.0), (880, 120.0))]
    (path / "metrics.jsonl").write_text("".join(json.dumps(report) + "\n" for report in reports[: seed + 1]))
    rates: dict[str, Any] = {"env_steps": 1000 + seed, "wall_time_s": 120.0, "env_steps_per_s": 8.0 + seed}
    (path / "summary.json").write_text(json.dumps({"status": "finished", "episode_return_mean": score, **rates}))
    if evaluated is not None:
        event = {"kind": "evaluated", "mean": evaluated, "returns": [evaluated], "env_steps": 9, "policy_version": 1}
        (path / "events.jsonl").write_text(json.dumps(event) + "\n")
    return path


def test_seeds_of_a_topology_are_one_row_and_environments_are_in_order(tmp_path: Path) -> None:
    folders = [
        make_run(tmp_path / "c1", "CartPole-v1", 1, 400.0),
        make_run(tmp_path / "a", "Acrobot-v1", 1, -300.0, evaluated=-90.0),
        make_run(tmp_path / "c2", "CartPole-v1", 2, 500.0),
    ]
    acrobot, cartpole = json.loads(ask("suite", "families", *folders, "--json").stdout)["rows"]
    assert (acrobot["environment"], acrobot["score"], acrobot["over"]) == ("Acrobot-v1", "-90.0", "1 evaluated games")
    assert cartpole == {
        "environment": "CartPole-v1",
        "package": f"gymnasium {gymnasium.__version__}",
        "name": "cartpole-v1",
        "by": "ppo",
        "seeds": "1 2",
        "steps": "1,001",
        "minutes": "2.0",
        "steps/s": "11",  # between 9, of the whole run that has but one report with steps, and 13, between reports
        "score": f"450 ± {np.std([400, 500], ddof=1):.0f}",
        "over": "last 100 training games",
    }


def test_without_names_all_runs_that_have_ended_with_a_score_are_told(tmp_path: Path) -> None:
    assert "no run in runs/ has ended with a score" in refused("suite", "families")
    make_run(tmp_path / "runs" / "young", "CartPole-v1", 1, None)
    assert "no run in runs/ has ended with a score" in refused("suite", "families")
    make_run(tmp_path / "runs" / "old", "CartPole-v1", 1, 9.0)
    assert [row["score"] for row in json.loads(ask("suite", "families", "--json").stdout)["rows"]] == ["9.00"]


def test_what_cannot_be_told_is_refused_in_one_line(tmp_path: Path) -> None:
    young = make_run(tmp_path / "young", "CartPole-v1", 1, None)
    assert "young has no score: no game was over" in refused("suite", "families", young)
    (young / "summary.json").unlink()
    assert "young has not ended" in refused("suite", "families", young)
    (young / "topology.yaml").write_text("env: [")
    assert "young has no readable topology.yaml" in refused("suite", "families", young)


def test_a_package_is_found_by_the_kind_the_module_or_the_registered_id() -> None:
    assert package_of("ALE/Pong-v5").startswith("ale-py ")
    assert package_of("actorlearn.envs.catch:Catch").startswith("actorlearn ")
    assert package_of("CartPole-v1") == f"gymnasium {gymnasium.__version__}"
    assert package_of("no_such_package:Game-v0") == "no_such_package"
    assert package_of("NoSuchGame-v0") == "not installed"


def test_scores_have_three_digits() -> None:
    each = [written_score(scores) for scores in ((0.9554,), (-1.5, -2.5), (17.0, 18.0), (123.4,), (4_567.8,))]
    assert each == ["0.955", "-2.00 ± 0.71", "17.5 ± 0.7", "123", "4,568"]
