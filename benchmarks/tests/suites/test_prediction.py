"""The suite ``prediction``: its cases, their scenarios for the model, and the measurements that it keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("simpy", reason="the extra `simulate` is not installed")

from benchmarks.request import BenchmarkRequest, shipped
from benchmarks.suites import prediction
from benchmarks.suites.nodes import SMALL
from benchmarks.suites.prediction import NodesCase, NodesRate, Priced, cases, scenario
from launch.errors import FailedError
from launch.simulate.scenario import Costs, SlowLearners
from launch.topology.load import load

COSTS = Costs(step_s=1e-4, step_wait_s=0.02, pass_s=1e-3, gradient_s=1e-2)
PRICED = Priced("waiting", COSTS, 1000)


def test_kinds_and_numbers_of_nodes_choose_cases() -> None:
    assert len(cases([])) == 6 * 4 + 2 * 2
    assert [case.title for case in cases(["kind=sync", "nodes.count=1", "nodes.count=4"])] == [
        "sync, 1 node",
        "sync, 4 nodes",
    ]
    with pytest.raises(FailedError, match=r"kind=alone: no case is of this kind; write one of sync, quorum"):
        cases(["kind=alone"])
    with pytest.raises(FailedError, match=r"nodes.count=5: no case has so many nodes; write one of 1, 2, 3, 4"):
        cases(["nodes.count=5"])


@pytest.mark.parametrize("case", cases([]), ids=lambda case: case.title)
def test_each_case_is_a_topology(case: NodesCase) -> None:
    made = load(shipped("catch.yaml"), [*SMALL, *case.keys(), f"nodes.count={case.nodes}", "nodes.listen=127.0.0.1:0"])
    assert made.learners.count == case.nodes


def test_nodes_share_the_cores_unless_links_are_between_them_or_they_have_one_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prediction, "begun_cores", lambda: 2)

    def made(name: str, nodes: int) -> tuple[str, int, int, float]:
        case = scenario(shipped("catch.yaml"), SMALL, NodesCase(name, nodes), PRICED)
        return case.exchanging, case.quorum, case.machines, case.cores

    assert made("sync", 1) == ("alone", 1, 1, 2.0)
    assert made("sync", 3) == ("hub", 3, 1, 2.0)
    assert made("quorum", 1) == ("quorum", 1, 1, 2.0)
    assert made("quorum", 4) == ("quorum", 3, 1, 2.0)
    assert made("async", 4) == ("servers", 4, 1, 2.0)
    assert made("slow-link", 4) == ("hub", 4, 4, 2.0)
    assert made("computing-gossip", 2) == ("gossip", 2, 2, 1.0)
    late = scenario(shipped("catch.yaml"), SMALL, NodesCase("straggler", 2), PRICED)
    assert late.stragglers == SlowLearners(count=1, factor=5.0)


@pytest.mark.nightly
def test_what_is_in_the_output_folder_is_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def measure_case(_request: BenchmarkRequest, _common: object, case: NodesCase) -> NodesRate:
        asked.append(case.title)
        return NodesRate(case.name, case.nodes, 40.0 * case.nodes, 1.0 if case.name == "async" else None)

    monkeypatch.setattr(prediction, "measure_case", measure_case)
    monkeypatch.setattr(prediction, "measure", lambda *_: COSTS)

    def report(*words: str, repetitions: int = 1) -> list[list[str]]:
        request = BenchmarkRequest(shipped("catch.yaml"), words, repetitions, 1.0, output=tmp_path)
        return [list(row) for row in prediction.prediction(request).rows]

    (row,) = report("kind=async", "nodes.count=2")
    assert row[:2] == ["async, 2 nodes", "80 (80-80)"] and row[-3:] == ["1.00", "1.00", "1.00"]
    assert len(report("kind=async", "nodes.count=2", "nodes.count=1", repetitions=2)) == 2
    assert asked == ["async, 2 nodes", "async, 1 node", "async, 1 node", "async, 2 nodes"]
    assert [row[0] for row in report("kind=async", "nodes.count=1")] == ["async, 1 node", "async, 2 nodes"]
