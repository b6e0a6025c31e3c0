"""The suite gossip: what is made of runs, and one real rollout of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks import __main__ as commands
from benchmarks.kept import Making, keep_result
from benchmarks.papers.gossip import (
    CORRECTED,
    DILOCO,
    NO_MIXING,
    NOLOCO,
    SUITE,
    WAITING,
    Case,
    GossipResult,
    GossipRun,
    figures,
    gossip,
    modes,
    overrides,
    since_first,
)
from benchmarks.papers.gossip_figures import NOT_SAID, draw
from benchmarks.request import BenchmarkRequest, shipped
from launch.bench import report
from launch.bench.report import SuiteReport
from launch.runs.curves import LearningCurve
from launch.topology.load import Topology, TopologyError, load

Consensus = list[tuple[float, float, float]]


def ran(
    scores: list[float],
    rows: list[dict[str, Any]] | None = None,
    mixed: frozenset[str] = frozenset(),
    consensus: Consensus | None = None,
) -> GossipRun:
    """A run with a point of its curve every minute."""
    points = [(1_000.0 * minute, float(minute), score) for minute, score in enumerate(scores)]
    return GossipRun(
        LearningCurve("", "Catch", 1.0, 1_000.0, [points]), rows or [], mixed=mixed, consensus=consensus or []
    )


CONSENSUS = [(1.0, 1.0, 2.0), (2.0, 3.0, 4.0)]
COSINES: list[dict[str, float | None]] = [{"0-1": 0.5, "0-2": None}, {"0-1": 0.7, "0-2": 0.1}]
ROWS = [{"time_s": 1.0}, *({"time_s": 60.0, "gradient_cosine": cosine} for cosine in COSINES)]
RUNS: dict[Case, list[GossipRun]] = {
    ("sync", 1): [ran([-1.0, 0.6]), ran([-1.0, 0.8]), ran([-0.8, 1.0])],
    ("sync", 4): [ran([-1.0, -0.2]), ran([-1.0, 0.9]), ran([-1.0, 0.0])],
    ("async", 4): [ran([-1.0, 0.0])],
    ("gossip", 4): [ran([-1.0, 0.9], ROWS, frozenset({"0-1"}), CONSENSUS), ran([-1.0, 0.7])],
    (NO_MIXING, 4): [ran([-1.0, -0.6]), ran([-1.0, 0.0])],
}
"""Runs of some cases; the other cases of ``WAYS`` are treated like these."""


def test_runs_are_convergent_from_half_of_the_way_that_one_learner_goes() -> None:
    found = figures(RUNS, environments=16)
    assert found.threshold == pytest.approx((-1.0 + 0.8) / 2)
    shares = {("sync", 1): 1, ("sync", 4): 2 / 3, ("async", 4): 1, ("gossip", 4): 1, (NO_MIXING, 4): 1 / 2}
    assert found.convergent == pytest.approx(shares)


def test_consensus_and_gradients_are_those_of_the_gossiping_runs() -> None:
    found = figures(RUNS, environments=16)
    assert found.consensus == [CONSENSUS, []]
    assert found.cosine == pytest.approx({"0-1": 0.6, "0-2": 0.1})
    said = found.said()
    assert said["consensus"] == "within its bound in 2 of 2 reports, 75 % of it in the median"
    assert said["cosine"] == "0.600 between learners that mix, 0.100 between others"
    assert found.curves.keys() == {"sync", "async", "gossip", NO_MIXING} and len(found.curves["sync"]) == 3


def test_a_distance_beyond_its_bound_shows() -> None:
    beyond = {**RUNS, ("gossip", 4): [ran([0.0, 1.0], consensus=[(1.0, 2.0, 1.0), (2.0, 0.5, 1.0)])]}
    assert "in 1 of 2 reports" in figures(beyond, 16).said()["consensus"]


def test_what_no_run_reported_is_said_and_the_picture_drawn_all_the_same(tmp_path: Path) -> None:
    for number, runs in enumerate((RUNS, {**RUNS, ("gossip", 4): [ran([0.0, 1.0])]})):
        draw(figures(runs, 16), tmp_path / f"{number}.png")
        assert (tmp_path / f"{number}.png").read_bytes().startswith(b"\x89PNG")
    said = figures(runs, 16).said()
    assert (said["consensus"], said["cosine"]) == (NOT_SAID, NOT_SAID)


def test_runs_differ_in_nothing_but_mode_learners_graph_and_seed_and_a3cs_rate_stays() -> None:
    request = BenchmarkRequest(shipped("atari/gala.yaml"), ("env.id=ALE/Breakout-v5",), 2, 60.0)
    loaded = load(request.topology, request.overrides)
    assert loaded.gossip.gradient_every == 6
    made = {case: load(request.topology, overrides(request, loaded, case, 7)) for case in RUNS}
    for (mode, count), topology in made.items():
        gossips = mode in ("gossip", NO_MIXING)
        assert (topology.mode, topology.learners.count, topology.seed) == ("gossip" if gossips else mode, count, 7)
        assert topology.learners.rate_scaling == ("none" if mode == "async" else "sqrt")
        assert topology.gossip.graph == ("none" if mode == NO_MIXING else "ring")
        same = {name: getattr(loaded, name) for name in ("mode", "seed", "learners", "trainer", "gossip")}
        assert msgspec.structs.replace(topology, **same) == loaded  # threads follow the number of learners


def test_a_graph_that_does_not_fit_is_refused_before_anything_is_measured() -> None:
    with pytest.raises(TopologyError, match=r"2 lists are too few for 4 learners"):
        gossip(BenchmarkRequest(shipped("catch.yaml"), ("mode=gossip", "gossip.graph=[[1], [0]]"), 2, 1.0))


def test_time_begins_with_the_first_report() -> None:
    rows = [{"time_s": 60.0, "env_steps": 5}, {"time_s": 90.0, "env_steps": 7}]
    curve, shifted = since_first(LearningCurve("", "", None, None, [[(5.0, 1.0, 2.0)], [(7.0, 1.5, 3.0)]]), rows)
    assert curve.stretches == [[(5.0, 0.0, 2.0)], [(7.0, 0.5, 3.0)]]
    assert shifted == [{"time_s": 0.0, "env_steps": 5}, {"time_s": 30.0, "env_steps": 7}]


def test_results_that_stand_in_the_folder_are_not_run_again_and_are_compared_after_equal_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = BenchmarkRequest(shipped("catch.yaml"), (), 1, 1.0, output=tmp_path)
    slow = LearningCurve("", "Catch", 1.0, 500.0, [[(500.0, 1.0, -1.0), (1_000.0, 2.0, 0.5)]])
    cases = [(mode, count) for count in (1, 2) for mode in modes(count, 2, 1)]
    *others, last = cases
    for mode, count in others:
        keys = overrides(request, load(request.topology), (mode, count), 1)
        making = Making.of(replace(request, seconds=2.0), keys)
        keep_result(request, SUITE, GossipResult(mode, count, 1, making, ran([-1.0, 0.8], ROWS)))
    asked: list[tuple[Case, int]] = []

    def run(request: BenchmarkRequest, loaded: Topology, case: Case, seed: int) -> GossipRun:
        asked.append((case, seed))
        return GossipRun(slow, [])

    monkeypatch.setattr("benchmarks.papers.gossip.run_case", run)
    for _ in range(2):
        report = gossip(request)
    assert asked == [(last, 1)], "what was missing is run, once"
    gossip(replace(request, seconds=2.0))
    assert asked == [(last, 1)] * 2, "it did not last as long"
    assert report.headings[5] == "after 1.0 minutes"
    ends = {row[0]: (row[4].split()[0], row[5].split()[0]) for row in report.rows}
    assert report.figures["score at the end"]["one learner"]["values"] == [0.8]
    assert ends["one learner"] == ("0.80", "0.80") and ends["NoLoCo, 2 learners"] == ("0.50", "-1.00")


def test_scores_at_the_end_are_those_after_equal_steps(tmp_path: Path) -> None:
    """Gossip makes twice as many steps in its time, and is the better one in those that sync did not make."""
    request = BenchmarkRequest(shipped("catch.yaml"), (), 1, 1.0, output=tmp_path)
    for count in (1, 2):
        for mode in modes(count, 2, 1):
            scores = [-1.0, 0.5, 0.9] if mode == "gossip" else [-1.0, 0.5]
            making = Making.of(request, overrides(request, load(request.topology), (mode, count), 1))
            keep_result(request, SUITE, GossipResult(mode, count, 1, making, replace(ran(scores, ROWS), ended=True)))
    report = gossip(request)
    ends = report.figures["score at the end"]
    assert {name: one["values"] for name, one in ends.items()} == {name: [0.5] for name in ends}
    assert {row[4] for row in report.rows} == {"0.50 (0.50 to 0.50)"}
    assert "score at the end: after 1,000 steps, the last of the run that was over first" in report.notes


def test_convergence_is_that_after_equal_steps() -> None:
    longer = {**RUNS, ("async", 4): [ran([-1.0, -0.5, 0.9])]}
    assert figures(longer, environments=16).convergent["async", 4] == 0.0


def test_without_a_topology_it_measures_a_small_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[BenchmarkRequest] = []
    measured = SuiteReport("", (), (), {}, "")
    monkeypatch.setattr("benchmarks.papers.gossip.gossip", lambda request: asked.append(request) or measured)
    for words in ([], [shipped("cartpole.yaml")]):
        topology, *overrides = *words, "algorithm.horizon=8"
        commands.suite("gossip", topology, overrides, quick=True, json=True)
    assert [Path(request.topology).name for request in asked] == ["catch-defaults.yaml", "cartpole.yaml"]
    assert [request.overrides for request in asked] == 2 * [("algorithm.horizon=8",)]


def test_an_override_of_some_modes_reaches_the_runs_in_these() -> None:
    request = BenchmarkRequest(shipped("catch.yaml"), ("learners.local_steps=2", "seed=3"), 1, 5.0)
    loaded = load(request.topology, ["seed=3"])
    steps = {case: load(request.topology, overrides(request, loaded, case, 7)).learners.local_steps for case in RUNS}
    assert steps == {case: 1 if case == ("sync", 1) else 2 for case in RUNS}
    assert load(request.topology, overrides(request, loaded, ("sync", 4), 7)).seed == 7


def test_one_learner_is_the_measure_and_all_modes_are_compared_with_most() -> None:
    all_ = ("sync", "async", "gossip", NO_MIXING, WAITING, CORRECTED, DILOCO, NOLOCO)
    assert (modes(1, 4, 8), modes(2, 4, 8), modes(4, 4, 8)) == (("sync",), ("sync", "gossip"), all_)
    assert set(all_) - set(modes(4, 4, 1)) == {DILOCO}


@pytest.mark.system
@pytest.mark.timeout(400)
def test_a_quick_measurement_on_a_small_environment(tmp_path: Path) -> None:
    found = gossip(BenchmarkRequest(shipped("catch.yaml"), ("simulators.count=1", "total_steps=10_000_000"), 1, 5.0))
    assert [line[0] for line in found.rows] == [
        "one learner",
        *(f"{mode}, 2 learners" for mode in ("sync", "async", "gossip", NO_MIXING, WAITING, CORRECTED, NOLOCO)),
    ]
    assert [note.partition(": ")[0] for note in found.notes[:3]] == ["score at the end", "convergent", "energy"]
    assert "runs were ended before their 10,000,000 steps" in found.notes[-1]
    report.write(found, tmp_path)
    told = json.loads((tmp_path / "gossip.json").read_text())
    assert all(bar["median"] > 0 for bar in told["bars"].values())
    assert len(told["consensus_points"][0]) > 2, told["consensus"]
    assert all(0.0 <= distance <= bound for _, distance, bound in told["consensus_points"][0])
    assert -1.0 <= told["gradient_cosine"]["0-1"] <= 1.0
    assert (tmp_path / "gossip.png").read_bytes().startswith(b"\x89PNG")
