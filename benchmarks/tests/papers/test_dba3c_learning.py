"""DBA3C's learning figures: the cases are the topologies they should be, and the tables are made from runs."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import __main__ as commands
from benchmarks import learning
from benchmarks.learning import LearningRun
from benchmarks.papers import dba3c_games, dba3c_learning, dba3c_nodes
from benchmarks.registry import FOUR_NODES, ONE_LEARNER, SUITES
from benchmarks.request import BenchmarkRequest, shipped
from launch.errors import FailedError, RunError
from launch.runs.curves import LearningCurve
from launch.topology.load import Topology, load

CATCH = shipped("dba3c-catch.yaml")
ATARI = shipped("atari/dba3c.yaml")
PAPERS_SIZE = ("nodes.count=64", "learners.count=64", "learners.quorum=60", "algorithm.horizon=3")
"""The sizes of the paper's largest runs, for configs/atari/dba3c.yaml."""


def ran(scores: list[float], seconds: float = 60.0) -> LearningRun:
    """A run with a point of its curve every 1,000 steps, and a gradient 3 changes old."""
    points = [(1_000.0 * n, n * seconds / 60, score) for n, score in enumerate(scores)]
    rows = [
        {
            "time_s": n * seconds,
            "env_steps": 1_000 * n,
            "eval_return_mean": scores[n],
            "eval_env_steps": 900 * n,
            "staleness_mean": 3.0,
        }
        for n in range(len(scores))
    ]
    return LearningRun(LearningCurve("", "Catch", 1.0, 1_000.0, [points]), rows)


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> list[Topology]:
    """The topologies that suites run, in place of running them; each run scores 0, 0.8 and 0.5."""
    seen: list[Topology] = []

    def follow(request: BenchmarkRequest, overrides: tuple[str, ...], *_: Any) -> LearningRun:
        seen.append(load(request.topology, (*request.overrides, *overrides)))
        return ran([0.0, 0.8, 0.5])

    monkeypatch.setattr(learning, "follow", follow)
    return seen


def test_async_makes_a_version_of_each_gradient_and_sync_of_all(followed: list[Topology]) -> None:
    made = SUITES["dba3c-async"].load()(BenchmarkRequest(CATCH, (), 2, 1.0))
    assert [(one.mode, one.learners.count, one.learners.quorum, one.seed) for one in followed] == [
        ("async", 4, 0, 1),
        ("async", 4, 4, 1),
        ("async", 4, 0, 2),
        ("async", 4, 4, 2),
    ]
    assert made.rows[1][:2] == ("sync, 4 of 4 learners", "128")
    assert made.rows[0][:8] == (
        "async, 4 learners",
        "32",
        "3.0",
        "17 (17-17)",
        "0.80 (0.80 to 0.80)",
        "0.50 (0.50 to 0.50)",
        "0.50 (0.50 to 0.50)",
        "0.30 (0.30 to 0.30)",
    )


def test_sync_awaits_as_many_as_the_topology(followed: list[Topology]) -> None:
    made = SUITES["dba3c-async"].load()(BenchmarkRequest(ATARI, PAPERS_SIZE, 1, 1.0))
    assert [one.learners.quorum for one in followed] == [0, 60]
    assert [row[0] for row in made.rows] == ["async, 64 learners", "sync, 60 of 64 learners"]


def test_async_needs_several_learners() -> None:
    with pytest.raises(RunError, match=r"learners\.count is 1"):
        SUITES["dba3c-async"].load()(BenchmarkRequest(CATCH, ONE_LEARNER, 1, 1.0))


@pytest.mark.parametrize(("topology", "overrides"), [(CATCH, ONE_LEARNER), (ATARI, PAPERS_SIZE)])
def test_rates_and_epsilons_are_what_differs(
    followed: list[Topology], topology: str, overrides: tuple[str, ...]
) -> None:
    SUITES["dba3c-rate"].load()(BenchmarkRequest(topology, overrides, 1, 1.0))
    assert [one.optimizer.learning_rate for one in followed] == [1e-3, 2e-3]
    assert all(one.optimizer.rate_at_end == one.optimizer.learning_rate for one in followed)
    followed.clear()
    SUITES["dba3c-epsilon"].load()(BenchmarkRequest(topology, overrides, 1, 1.0))
    assert [one.optimizer.epsilon for one in followed] == [1e-3, 1e-8] * 2
    assert {one.evaluator.count for one in followed} == {0}


def test_a_small_batch_is_of_fewer_learners_or_of_shorter_rollouts_that_hold_a_return() -> None:
    alone = load(CATCH, ONE_LEARNER)
    assert dba3c_learning.batch(alone) == 512
    assert load(CATCH, (*ONE_LEARNER, *dba3c_learning.smaller(alone))).algorithm.horizon == 5
    many = load(ATARI, PAPERS_SIZE)
    small = load(ATARI, (*PAPERS_SIZE, *dba3c_learning.smaller(many)))
    assert (small.learners.count, small.nodes.count, small.learners.quorum) == (4, 4, 4)
    assert small.algorithm.horizon == many.algorithm.horizon


def test_scores_are_compared_after_as_many_steps_and_as_much_time() -> None:
    loaded, request = load(CATCH, ()), BenchmarkRequest(CATCH, (), 1, 1.0)
    cases = {name: dba3c_learning.LearningCase((), "-") for name in ("slow", "fast")}
    runs = {"slow": [ran([0.0, 0.2, 0.4], seconds=60.0)], "fast": [ran([0.0, 0.1, 0.2, 0.3, 0.9], seconds=15.0)]}
    made = dba3c_learning.compare("dba3c-async", request, loaded, cases, runs)
    assert list(made.headings[4:7]) == ["score after 1,000 steps", "after 2,000", "after 60 s"]
    assert [[cell.split()[0] for cell in row[4:7]] for row in made.rows] == [
        ["0.20", "0.40", "0.20"],
        ["0.10", "0.20", "0.90"],
    ]
    assert (made.figures["learners"], made.figures["batch"]) == (loaded.learners.count, 128)
    assert {name: one["values"] for name, one in made.figures[dba3c_learning.FALL].items()} == {
        "slow": [0.0],
        "fast": [0.0],
    }
    for group, values in (("best score", (0.4, 0.9)), ("curve", (0.2, 0.1))):
        assert [one["values"] for one in made.figures[group].values()] == [[pytest.approx(one)] for one in values]


def test_nodes_are_doubled_with_the_papers_batches(followed: list[Topology]) -> None:
    """Section 3.1: 512 steps together up to 16 nodes, 32 of each on 32 and 64; 60 of 64 gradients are awaited."""
    loaded = load(ATARI, PAPERS_SIZE)
    made = {n: load(ATARI, (*PAPERS_SIZE, *dba3c_nodes.keys(loaded, n))) for n in dba3c_nodes.counts(loaded)}
    assert list(made) == [1, 2, 4, 8, 16, 32, 64]
    assert all(one.nodes.count == one.learners.count == n for n, one in made.items())
    together = {n: one.learners.count * one.algorithm.horizon * 10 for n, one in made.items()}
    assert together == {1: 480, 2: 480, 4: 480, 8: 480, 16: 480, 32: 960, 64: 1_920}
    assert made[64].learners.quorum == 60
    SUITES["dba3c-nodes"].load()(BenchmarkRequest(CATCH, FOUR_NODES, 1, 1.0, score=0.5))
    assert [(one.nodes.count, one.algorithm.horizon) for one in followed] == [(1, 32), (2, 16), (4, 8)]
    assert {one.evaluator.stop_at_score for one in followed} == {0.5}


def test_time_is_that_of_runs_which_reached_the_score(followed: list[Topology]) -> None:
    loaded, request = load(CATCH, FOUR_NODES), BenchmarkRequest(CATCH, FOUR_NODES, 2, 1.0)
    runs = {1: [ran([0.0, 0.2, 0.4, 0.6]), ran([0.0, 0.6])], 2: [ran([0.0, 0.6]), ran([0.0, 0.1])], 4: [ran([0.0])]}
    made = dba3c_nodes.compare(request, loaded, runs, 0.5)
    assert made.figures["nodes"] == 4
    rows = made.rows
    assert [row[:4] for row in rows] == [
        ("1 node", "2 of 2", "2.00 (1.00 to 3.00)", "1.00"),
        ("2 nodes", "1 of 2", "1.00 (1.00 to 1.00)", "2.00"),
        ("4 nodes", "0 of 1", "-", "-"),
    ]
    assert rows[0][6:] == ("14.2 h", "1.0")


def test_an_atari_topology_plays_the_tables_games_and_others_their_own(followed: list[Topology]) -> None:
    made = SUITES["dba3c-games"].load()(BenchmarkRequest(ATARI, (), 1, 1.0))
    assert [one.env.id for one in followed] == [f"ALE/{game}-v5" for game in dba3c_games.PAPER]
    assert {one.env.id: one.optimizer.epsilon for one in followed}["ALE/Pong-v5"] == 1e-3
    assert {one.evaluator.stop_at_score for one in followed} == {None}
    assert made.rows[1] == (
        *("Breakout", "0.80 (0.80 to 0.80)", "0.017", "900"),
        *("0.50 (0.50 to 0.50)", "350 (0.5 h)"),
    )
    alone = ("env.id=ALE/Boxing-v5",)
    assert SUITES["dba3c-games"].load()(BenchmarkRequest(ATARI, alone, 1, 1.0)).rows[0][5] == "98 (0.5 h)"
    assert SUITES["dba3c-games"].load()(BenchmarkRequest(CATCH, ONE_LEARNER, 1, 1.0)).rows[0][5] == "-"


def test_an_engine_that_there_is_not_is_refused() -> None:
    with pytest.raises(RunError, match="--engine"):
        commands.suite("dba3c-nodes", engine="none such")


def test_a_game_without_an_evaluation_does_not_cost_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def follow(request: BenchmarkRequest, overrides: tuple[str, ...], *_: Any) -> LearningRun:
        if load(request.topology, (*request.overrides, *overrides)).env.id == "ALE/Boxing-v5":
            raise FailedError("no point in 1 s")
        return ran([0.0, 0.8, 0.5])

    monkeypatch.setattr(learning, "follow", follow)
    made = SUITES["dba3c-games"].load()(BenchmarkRequest(ATARI, (), 1, 1.0))
    assert [row[1] for row in made.rows] == ["-" if row[0] == "Boxing" else "0.80 (0.80 to 0.80)" for row in made.rows]
    assert made.notes[-1] == "Boxing, seed 1: no point in 1 s"
