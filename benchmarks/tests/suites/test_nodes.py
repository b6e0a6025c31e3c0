"""The suite nodes: its cases, and one real measurement."""

from __future__ import annotations

import pytest

from benchmarks.registry import SUITES
from benchmarks.request import BenchmarkRequest, shipped
from benchmarks.suites.nodes import cases
from launch.errors import FailedError
from launch.topology.load import load

CATCH = shipped("catch.yaml")


def test_nodes_are_measured_in_the_cases_that_the_overrides_allow() -> None:
    assert len(cases(())) == 7
    assert list(cases(("learners.count=4", "mode=gossip", "seed=2"))) == [
        "4 gossip with nobody",
        "4 gossip on a ring",
    ]
    for case in cases(()).values():
        load(shipped("pong.yaml"), [f"{key}={value}" for key, value in case.items()])
    with pytest.raises(FailedError, match=r"mode=async: no case has these keys"):
        cases(("mode=async",))


@pytest.mark.system
@pytest.mark.timeout(180)
def test_a_learner_on_a_node_is_measured_beside_the_same_without() -> None:
    found = SUITES["nodes"].load()(BenchmarkRequest(CATCH, ("learners.count=1",), 1, 0.5))
    assert list(found.bars) == ["alone", "alone, on nodes"]
    assert all(spread.median > 100.0 for spread in found.bars.values())
    assert all(spent > 1.0 for (spent,) in found.figures["cpu_us_per_step"].values())
