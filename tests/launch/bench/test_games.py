"""The table of 49 Atari games, and what the suite ``games`` reports about run folders."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from actorlearn.envs.atari import ids
from launch.bench.atari_games import games
from tests.launch.asking import ask, refused
from tests.launch.runs.folders import write_run

pytestmark = pytest.mark.usefixtures("empty_folder")


def make_run(path: Path, env_id: str, evaluated: Sequence[float] = (), trained: float | None = 7.0) -> Path:
    """A run of 1,000 steps with evaluations of two games each."""
    row = {"env_steps": 1000, "frames": 4000, "episode_return_mean": trained}
    events: list[dict[str, Any]] = [{"kind": "spawned", "process": "trainer"}]
    for number, mean in enumerate(evaluated, start=1):
        about = {"env_steps": 100 * number, "policy_version": number}
        events.append({"kind": "evaluated", "mean": mean, "returns": [mean - 1, mean + 1], **about})
    return write_run(path, topology=f"env: {{id: {env_id}}}\n", rows=[row], events=events).path


def test_the_scores_of_every_row_give_the_percents_printed_in_the_table() -> None:
    assert len(games()) == 49
    for row in games().values():
        assert f"{row.percent(row.dqn):.1f}" == f"{row.dqn_percent:.1f}", row
        assert f"{row.percent(row.fast_dqn):.1f}" == f"{row.fast_dqn_percent:.1f}", row
        assert (row.percent(row.random), row.percent(row.human)) == pytest.approx((0.0, 100.0))


def test_every_game_of_the_table_exists_in_ale_py() -> None:
    assert games().keys() <= ids().keys()
    named = {"MsPacman": "Ms. Pacman", "Qbert": "Q*Bert", "UpNDown": "Up and Down", "Hero": "H.E.R.O."}
    assert all(games()[f"ALE/{env}-v5"].game == game for env, game in named.items())
    breakout = games()["ALE/Breakout-v5"]
    assert (breakout.random, breakout.human, breakout.dqn, breakout.fast_dqn) == (1.7, 31.8, 401.2, 373.4)
    assert (breakout.dqn_std, breakout.fast_dqn_std) == (26.9, 95.1)


def test_runs_are_reported_by_best_and_last_evaluation_and_each_game_counts_once(tmp_path: Path) -> None:
    folders = [
        make_run(tmp_path / "a", "ALE/Pong-v5", [-20.7, 9.3, 3.3]),  # 0, 100 and 80 percent
        make_run(tmp_path / "b", "ALE/Pong-v5", [-5.7]),  # 50
        make_run(tmp_path / "c", "ALE/Freeway-v5", trained=14.8),  # 50, of training games
    ]
    told = json.loads(ask("bench", "games", *folders, "--json").stdout)
    freeway, first, second = told["runs"]
    assert [run["game"] for run in told["runs"]] == ["Freeway", "Pong", "Pong"]
    assert (first["best"], first["last"], first["over"], first["frames"]) == (9.3, 3.3, "2 games, 3 evaluations", 4000)
    assert first["percent"] == pytest.approx({"best": 100.0, "last": 80.0, "dqn": 132.0, "fast_dqn": 131.3}, abs=0.05)
    assert second["over"] == "2 games, 1 evaluation"
    assert (freeway["best"], freeway["last"], freeway["over"]) == (14.8, 14.8, "last 100 training games")
    [over] = told["over_games"]
    assert (over["variant"], over["games"], over["runs"]) == ("all runs", 2, 3)
    means = [over["mean"][column]["estimate"] for column in ("best", "last")]
    assert means == pytest.approx([(75 + 50) / 2, (65 + 50) / 2])
    assert over["median"]["dqn"]["estimate"] == pytest.approx((132.0 + 102.4) / 2, abs=0.05)
    by_name = {row["game"]: row for row in told["rows"]}
    assert by_name["mean of 2 games"]["best"] == "62.5 % (50.0 to 75.0)"
    assert by_name["mean of 2 games"]["DQN"] == "117.2 %"
    assert "9.3 (100.0 %)" in ask("bench", "games", *folders).stdout


def make_seeds(folder: Path, algorithm: str, scores: Mapping[str, Sequence[float]]) -> list[Path]:
    """Make a run for each score; the settings differ only in the algorithm, the seed and the game."""
    folders = []
    for game, of_game in scores.items():
        for seed, score in enumerate(of_game, start=1):
            path = make_run(folder / f"{algorithm}-{game}-{seed}", f"ALE/{game}-v5", [score])
            keys = f"env: {{id: ALE/{game}-v5}}\nseed: {seed}\nalgorithm: {{name: {algorithm}}}\n"
            (path / "topology.yaml").write_text(keys)
            folders.append(path)
    return folders


def test_variants_are_compared_over_games_and_seeds(tmp_path: Path) -> None:
    """Scores of a human and of random play, which are 100 and 0 percent: Pong 9.3 and -20.7, Freeway 29.6 and 0."""
    ppo = make_seeds(tmp_path, "ppo", {"Pong": [9.3, 9.3], "Freeway": [29.6, 14.8]})  # 100 100, 100 50
    dqn = make_seeds(tmp_path, "a2c", {"Pong": [-5.7, 9.3]})  # 50 100
    told = json.loads(ask("bench", "games", *ppo, *dqn, "--json").stdout)
    first, second = told["over_games"]
    assert (first["variant"], first["games"], first["runs"]) == ("algorithm.name=ppo", 2, 4)
    assert (second["variant"], second["games"], second["runs"]) == ("algorithm.name=a2c", 1, 2)
    assert first["IQM"]["best"] == pytest.approx({"estimate": 100.0, "low": 75.0, "high": 100.0})
    assert first["optimality gap"]["best"] == pytest.approx({"estimate": 12.5, "low": 0.0, "high": 25.0})
    assert (
        "with algorithm.name=a2c with a probability of 0.75 (0.50 to 1.00), averaged over 1 game" in told["notes"][-1]
    )
    better = [row for row in told["rows"] if row["game"] == "better, of 2 games"]
    assert better[0]["run"] == "algorithm.name=ppo" and better[0]["DQN"] == "0.00 (0.00 to 0.00)"


def test_the_picture_has_each_run_and_the_profile_of_each_variant(tmp_path: Path) -> None:
    folders = make_seeds(tmp_path, "ppo", {"Pong": [9.3, -5.7], "Freeway": [29.6]})
    assert ask("bench", "games", *folders, "-o", tmp_path / "out").exit_code == 0
    assert (tmp_path / "out" / "games.png").read_bytes().startswith(b"\x89PNG")


def test_without_names_all_runs_with_a_score_in_a_game_of_the_table_are_reported(tmp_path: Path) -> None:
    assert "no run in runs/ has a score" in refused("bench", "games")
    make_run(tmp_path / "runs" / "cart", "CartPole-v1", [500.0])
    make_run(tmp_path / "runs" / "young", "ALE/Pong-v5", trained=None)
    assert "no run in runs/ has a score" in refused("bench", "games")
    make_run(tmp_path / "runs" / "pong", "ALE/Pong-v5", [1.0])
    assert [run["run"] for run in json.loads(ask("bench", "games", "--json").stdout)["runs"]] == ["pong"]


def test_a_run_without_a_score_in_a_game_of_the_table_is_refused_in_one_line(tmp_path: Path) -> None:
    cart = make_run(tmp_path / "cart", "CartPole-v1", [500.0])
    assert "cart plays CartPole-v1, which is not one of the table's 49 games; leave this run out" in refused(
        "bench", "games", cart
    )
    young = make_run(tmp_path / "young", "ALE/Pong-v5", trained=None)
    assert "young has no score" in refused("bench", "games", young)
    assert "a run folder" in refused("bench", "games", "nowhere")
