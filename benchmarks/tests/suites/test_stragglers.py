"""The suite training names the stage of a process that is slowed on purpose."""

from __future__ import annotations

import pytest

from benchmarks.request import shipped
from benchmarks.suites.stragglers import slowed
from launch.bench.running import Running
from launch.bench.training import slow_stage

CATCH = shipped("catch.yaml")
SMALL = ("simulators.count=2", "simulators.envs=4")


@pytest.mark.system
@pytest.mark.timeout(180)
def test_whoever_is_slowed_on_purpose_is_named() -> None:
    with Running(CATCH, (*SMALL, "inference.count=1")) as run:
        pids, named = run.pids(), {}
        for process in ("simulator-1", "inference-0", "trainer"):
            with slowed(pids[process], slower=11.0, period_s=0.022):
                named[process] = slow_stage(run.read(2.0, warmup_s=1.0))
    assert [process for _, process in named.values()] == list(named)
    assert named["inference-0"][0] == "infer"
