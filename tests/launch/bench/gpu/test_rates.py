"""Cases of the parts that measure rates are topologies that can be run, on as many cores as there are."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from launch.bench.gpu import pong, rates
from launch.bench.gpu.host import Host
from launch.bench.measure.beside import confined
from launch.bench.measure.request import shipped
from launch.topology.load import load

LISTS = [rates.by_cores, rates.by_servers, rates.by_graphs, rates.by_learners, rates.by_ways_of_dqn]


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("cores", [1, 2, 6, 16, 64])
@pytest.mark.parametrize("cases", LISTS)
def test_every_case_is_a_topology_for_these_cores(cases, cores: int, quick: bool) -> None:
    found = cases(Host("cuda", cores, "2.13.0", ("GPU A",)), quick)
    for case in found.values():
        made = load(shipped(case.topology), case.keys)
        assert made.simulators.count * made.learners.count <= max(2, cores)
        assert case.alone or "cuda" in (made.trainer.device, made.inference.device) or "CPU" in str(found)
        assert case.cores is None or case.cores <= cores
    if not quick and cases is not rates.by_learners:
        assert len(found) >= 3


def test_a_way_of_dqn_has_the_papers_environments_and_asks_as_the_paper_does() -> None:
    found = rates.by_ways_of_dqn(Host("cuda", 16, "2.13.0", ("GPU A",)), quick=False)
    made = {way: load(shipped(case.topology), case.keys) for way, case in found.items()}
    assert {topology.simulators.environments for topology in made.values()} == {8}
    assert {way: topology.inference.count for way, topology in made.items()} == {
        **{"standard": 8, "concurrent": 8, "synchronised": 1, "both": 1}
    }


@pytest.mark.parametrize("cores", [1, 6, 16])
def test_pong_has_the_batch_it_was_tuned_with(cores: int) -> None:
    tuned = load(shipped(pong.TOPOLOGY))
    for keys in pong.ways(Host("cuda", cores, "2.13.0", ("GPU A",))).values():
        made = load(shipped(pong.TOPOLOGY), keys)
        assert made.simulators.environments == tuned.simulators.environments
        assert (made.algorithm, made.optimizer) == (tuned.algorithm, tuned.optimizer)


def test_what_is_confined_runs_on_so_many_cores_and_afterwards_on_all() -> None:
    before = os.sched_getaffinity(0)
    with confined(1):
        told = subprocess.run(
            [sys.executable, "-c", "import os; print(len(os.sched_getaffinity(0)))"], capture_output=True, text=True
        )
    assert told.stdout.strip() == "1"
    assert os.sched_getaffinity(0) == before
