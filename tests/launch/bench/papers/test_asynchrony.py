"""The suite of held lags: its runs are the topologies they should be, and results that are there are not made again."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch.bench import SUITES
from launch.bench.measure.request import Request, shipped
from launch.bench.papers import asynchrony
from launch.bench.papers.asynchrony import LAGS, METHODS, PLAIN, RESULTS, Result, overrides
from launch.topology.load import load

CATCH = shipped("catch.yaml")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """Method, lag and seed of what is run, in place of running it: lag costs 0.02 a update, and decoupled half."""
    seen: list[tuple[str, int, int]] = []

    def made(_: Request, method: str, lag: int, seed: int) -> Result:
        seen.append((method, lag, seed))
        score = 0.9 - 0.02 * lag * (0.5 if method == "decoupled" else 1.0) + 0.001 * seed
        numbers = {"policy_lag_mean": float(lag), "effective_sample_size": 0.9, "clipped_share": 0.1}
        return Result(method, lag, seed, score, score / 2, 50_000, numbers)

    monkeypatch.setattr(asynchrony, "run_one", made)
    return seen


def test_runs_differ_in_lag_correction_and_seed_alone() -> None:
    request = Request(CATCH, ("total_steps=1000",), 1, 1.0)
    for method in METHODS:
        loaded = load(CATCH, overrides(request, method, 4, 7))
        assert (loaded.simulators.blocks, loaded.seed, loaded.total_steps) == (5, 7, 1000)
        assert loaded.algorithm.name == "ppo" and loaded.algorithm.max_policy_lag is None
        own = (loaded.algorithm.proximal, loaded.algorithm.advantages, loaded.optimizer.sample_size_scaling)
        plain = ("behaviour", "recorded", "none")
        assert sum(one != other for one, other in zip(own, plain, strict=True)) == (method != PLAIN)


def test_every_correction_is_compared_at_every_lag_with_lock_step(run: list[tuple[str, int, int]]) -> None:
    found = SUITES["asynchrony"].load()(Request(CATCH, (), 5, 1.0))
    assert len(run) == len(set(run)) == 5 * (1 + (len(LAGS) - 1) * len(METHODS))
    rows = {row[0]: row for row in found.rows}
    assert rows["lag 0, PPO"][1] == "0.90 (0.90 to 0.90)" and rows["lag 0, PPO"][3] == "+0.00"
    assert rows["lag 16, PPO"][3] == "-0.32" and rows["lag 16, decoupled"][3] == "-0.16"
    assert rows["lag 4, V-trace"][4:] == ("4.0", "90 %", "10 %")


def test_results_of_the_same_topology_are_read_and_not_made_again(
    run: list[tuple[str, int, int]], tmp_path: Path
) -> None:
    def ask(repetitions: int, *keys: str) -> list[tuple[str, ...]]:
        return list(asynchrony.asynchrony(Request(CATCH, keys, repetitions, 1.0, output=tmp_path)).rows)

    ask(1)
    first = len(run)
    assert len((tmp_path / RESULTS).read_text().splitlines()) == first
    ask(1)
    assert len(run) == first  # all were there
    rows = ask(2)
    assert len(run) == len(set(run))  # seed 1 of two lags was there
    assert rows == ask(2)
    count = len(run)
    ask(1, "total_steps=1000")
    assert len(run) > count  # other keys, other runs
