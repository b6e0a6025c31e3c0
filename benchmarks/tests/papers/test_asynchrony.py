"""The suite of fixed policy lags: the topologies of its runs, and kept results, which are not measured again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.lagged import loaded
from benchmarks.papers import asynchrony
from benchmarks.papers.asynchrony import LAGS, METHODS, PLAIN, overrides
from benchmarks.registry import SUITES
from benchmarks.request import BenchmarkRequest, shipped
from launch.topology.load import Topology

CATCH = shipped("catch.yaml")


def way_of(topology: Topology) -> tuple[str, ...]:
    """Algorithm, proximal policy, advantages and the learning rate's scale: what corrections differ in."""
    found, ppo = topology.algorithm, topology.algorithm.name == "ppo"
    ways = (found.proximal, found.advantages) if ppo else ("behaviour", "recorded")
    return (found.name, *ways, topology.optimizer.sample_size_scaling)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """Fake scores, which each lag lowers by 0.02, or half of that if decoupled; return way, lag, seed of each run."""
    seen: list[tuple[str, int, int]] = []

    def learn(topologies: Sequence[Topology], lags: Sequence[int]) -> Iterator[dict[str, Any]]:
        for one, lag in zip(topologies, lags, strict=True):
            way = str(way_of(one))
            seen.append((way, lag, one.seed))
            score = 0.9 - 0.02 * lag * (0.5 if "recomputed" in way else 1.0) + 0.001 * one.seed
            metrics = {"policy_lag_mean": float(lag), "effective_sample_size": 0.9, "clipped_share": 0.1}
            yield {"score": score, "curve": [[1000, 0.0], [2000, score]], "env_steps": 50_000, "metrics": metrics}

    monkeypatch.setattr(asynchrony, "learn", learn)
    return seen


def test_runs_differ_in_correction_and_seed_alone() -> None:
    request = BenchmarkRequest(CATCH, ("total_steps=1000",), 1, 1.0)
    for method in METHODS:
        found = loaded(CATCH, overrides(request, method, 7))
        assert (found.seed, found.total_steps) == (7, 1000)
        plain = ("ppo", "behaviour", "recorded", "none")
        assert sum(one != other for one, other in zip(way_of(found), plain, strict=True)) == (method != PLAIN)


def test_every_correction_is_compared_at_every_lag_with_lock_step(run: list[tuple[str, int, int]]) -> None:
    found = SUITES["asynchrony"].load()(BenchmarkRequest(CATCH, (), 5, 1.0))
    assert len(run) == len(set(run)) == 5 * (1 + (len(LAGS) - 1) * len(METHODS))
    rows = {row[0]: row for row in found.rows}
    assert rows["lag 0, PPO"][1] == "0.90 (0.90 to 0.90)" and rows["lag 0, PPO"][3] == "+0.00"
    assert rows["lag 16, PPO"][3] == "-0.32" and rows["lag 16, decoupled"][3] == "-0.16"
    assert rows["lag 4, V-trace"][4:] == ("4.0", "90 %", "10 %")


def test_results_of_the_same_topology_are_read_and_not_made_again(
    run: list[tuple[str, int, int]], tmp_path: Path
) -> None:
    def ask(repetitions: int, *keys: str) -> list[tuple[str, ...]]:
        return list(asynchrony.asynchrony(BenchmarkRequest(CATCH, keys, repetitions, 1.0, output=tmp_path)).rows)

    ask(1)
    first = len(run)
    assert len((tmp_path / "asynchrony.jsonl").read_text().splitlines()) == first
    ask(1)
    assert len(run) == first  # all results were kept
    rows = ask(2)
    assert len(run) == len(set(run))  # the results of seed 1 were kept
    assert rows == ask(2)
    count = len(run)
    ask(1, "total_steps=1000")
    assert len(run) > count  # results of other keys do not count
