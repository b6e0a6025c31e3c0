"""The cases of the suite ``prediction``: one node once, then each mode even and with one slow learner."""

from __future__ import annotations

import pytest

from launch.bench.measure.request import shipped
from launch.bench.suites.prediction import Case, cases, scenario
from launch.errors import FailedError
from launch.simulate.scenario import Costs, Stragglers

COSTS = Costs(step_s=1e-4, pass_s=1e-3, gradient_s=1e-2)


def test_a_mode_chooses_its_cases() -> None:
    named = [case.name for case in cases(["mode=sync"])]
    even = ["sync, 1 node", "sync, 2 nodes", "sync, 3 nodes", "sync, 4 nodes"]
    assert named == [*even, *(f"{name}, one slow" for name in even[1:])]
    assert len(cases([])) == 19
    assert [case.name for case in cases(["learners.count=2", "mode=gossip"])] == [
        "gossip, 1 node",
        "gossip, 2 nodes",
        "gossip, 2 nodes, one slow",
    ]
    with pytest.raises(FailedError, match=r"no case is in this mode; write one of sync"):
        cases(["mode=alone"])


def test_each_core_is_a_machine_to_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("launch.bench.suites.prediction.begun_cores", lambda: 2)
    made = scenario(shipped("catch.yaml"), [], Case("sync", 3, True), COSTS, 1000)
    assert (made.exchanging, made.learners, made.machines, made.cores) == ("hub", 3, 2, 1.0)
    assert made.stragglers == Stragglers(count=1, factor=5.0)
    assert scenario(shipped("catch.yaml"), [], Case("gossip", 2, False), COSTS, 1000).exchanging == "gossip"
