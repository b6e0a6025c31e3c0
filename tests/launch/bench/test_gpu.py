"""The suite ``gpu``: each case is a valid topology for the number of cores."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from launch.bench import SUITES, SuiteRequest, gpu, shipped
from launch.bench.beside import confined
from launch.bench.gpu import GpuHost
from launch.errors import FailedError, RunError
from launch.topology.load import load


@pytest.mark.parametrize(("device", "quick"), [("cuda", True), ("cuda", False), ("cpu", True)])
@pytest.mark.parametrize("cores", [1, 2, 6, 16, 64])
@pytest.mark.parametrize("part", gpu.PARTS)
def test_every_case_is_a_topology_for_these_cores(part: str, cores: int, device: str, quick: bool) -> None:
    found = gpu.PARTS[part](GpuHost(device, cores, "2.13.0", ("GPU A",)), quick)
    for case in found.values():
        made = load(shipped(case.topology), case.keys)
        assert made.simulators.count * made.learners.count <= max(2, cores)
        assert case.alone or device in (made.trainer.device, made.inference.device) or "CPU" in str(found)
        assert case.cores is None or case.cores <= cores
    if not quick and part != "learners":
        assert len(found) >= 3


def test_the_chosen_part_is_measured_with_the_overrides(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(GpuHost, "here", lambda device: GpuHost("cuda", 2, "2.13.0", ("GPU A",)))
    monkeypatch.setattr(gpu.RateCase, "steps_per_s", lambda self, seconds: asked.append(self.keys) or 100.0)
    made = SUITES["gpu"].load()(SuiteRequest("", ("seed=7",), 1, 1.0, parts=("learners",)))
    assert [row[0] for row in made.rows] == ["learners: 1 learner", "learners: 2 learners in sync"]
    assert all(keys[-1] == "seed=7" for keys in asked) and len(asked) == 2


def test_a_missing_gpu_and_an_unknown_part_or_device_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    measure = SUITES["gpu"].load()
    with pytest.raises(RunError, match="--device tpu: must be cpu or cuda"):
        measure(SuiteRequest("", (), 1, 1.0, device="tpu"))
    monkeypatch.setattr(GpuHost, "here", lambda device: GpuHost("cuda", 2, "2.13.0+cpu"))
    with pytest.raises(RunError, match="--part kernels: gpu has no such part; choose one of servers, cores"):
        measure(SuiteRequest("", (), 1, 1.0, parts=("kernels",)))
    with pytest.raises(FailedError, match=r"no CUDA device \(torch 2\.13\.0\+cpu\); --device cpu measures"):
        measure(SuiteRequest("", (), 1, 1.0))


def test_confined_processes_run_on_so_many_cores_and_later_ones_on_all() -> None:
    before = os.sched_getaffinity(0)
    with confined(1):
        told = subprocess.run(
            [sys.executable, "-c", "import os; print(len(os.sched_getaffinity(0)))"], capture_output=True, text=True
        )
    assert told.stdout.strip() == "1"
    assert os.sched_getaffinity(0) == before
