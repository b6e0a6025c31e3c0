"""The suite experience: the keys that its runs differ in, the table, and what is kept of runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.kept import keep_result, read_results
from benchmarks.papers.experience import (
    BOTH,
    CASES,
    EXPERIENCE,
    NEITHER,
    SUITE,
    WEIGHTS,
    SharingResult,
    overrides,
    report,
)
from benchmarks.request import BenchmarkRequest, shipped
from launch.topology.load import load

REQUEST = BenchmarkRequest(shipped("catch.yaml"), ("simulators.envs=6",), 2, 60.0)


def result(case: str, seed: int, score: float) -> SharingResult:
    return SharingResult(case, seed, [score / 4, score / 2, score], score / 2, 1_000)


def test_runs_differ_in_what_is_shared_and_the_seed_alone() -> None:
    loaded = {case: load(REQUEST.topology, overrides(REQUEST, case, 3)) for case in CASES}
    shared = {case: (one.gossip.graph, one.gossip.experience) for case, one in loaded.items()}
    assert shared == {BOTH: ("ring", 6), WEIGHTS: ("ring", 0), EXPERIENCE: ("none", 6), NEITHER: ("none", 0)}
    assert {one.seed for one in loaded.values()} == {3}
    assert {one.algorithm.name for one in loaded.values()} == {"impala"}
    ppo = load(REQUEST.topology, overrides(replace(REQUEST, overrides=("algorithm.name=ppo",)), BOTH, 3))
    assert (ppo.algorithm.name, ppo.gossip.experience) == ("ppo", ppo.simulators.environments)


def test_the_table_has_scores_after_parts_of_the_steps() -> None:
    ran = {case: [result(case, seed, float(number)) for seed in (1, 2)] for number, case in enumerate(CASES)}
    made = report(REQUEST, ran)
    assert [row[0] for row in made.rows] == list(CASES)
    assert made.rows[2][1:] == (
        "0.50 (0.50 to 0.50)",
        "1.00 (1.00 to 1.00)",
        "2.00 (2.00 to 2.00)",
        "1.00 (1.00 to 1.00)",
    )


def test_a_result_that_is_kept_is_read_for_the_same_topology_and_keys(tmp_path: Path) -> None:
    kept = replace(REQUEST, output=tmp_path)
    keep_result(kept, SUITE, result(BOTH, 1, 0.5))
    assert read_results(kept, SUITE, SharingResult) == [result(BOTH, 1, 0.5)]
    assert (
        read_results(replace(kept, overrides=()), SUITE, SharingResult)
        == read_results(REQUEST, SUITE, SharingResult)
        == []
    )
