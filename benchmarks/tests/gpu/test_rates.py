"""A visit's cases of DQN and Pong have the environments and batches of the paper and of the shipped topology."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.gpu import pong, rates
from benchmarks.gpu.stay import Stay
from benchmarks.tests.gpu.hosts import RICH, asked
from launch.bench import shipped
from launch.bench.gpu import GpuHost
from launch.topology.load import load


@pytest.mark.parametrize("cores", [1, 2, 6, 16, 64])
def test_a_way_of_dqn_has_the_papers_environments_and_asks_as_the_paper_does(cores: int) -> None:
    found = rates.by_ways_of_dqn(GpuHost("cuda", cores, "2.13.0", ("GPU A",)), quick=False)
    made = {way: load(shipped(case.topology), case.keys) for way, case in found.items()}
    assert {topology.simulators.environments for topology in made.values()} == {8}
    each = max(count for count in (1, 2, 4, 8) if count <= cores)
    assert {way: topology.inference.count for way, topology in made.items()} == {
        **{"standard": each, "concurrent": each, "synchronised": 1, "both": 1}
    }


@pytest.mark.parametrize("cores", [1, 6, 16])
def test_pong_has_the_batch_it_was_tuned_with(cores: int) -> None:
    tuned = load(shipped(pong.TOPOLOGY))
    for keys in pong.ways(GpuHost("cuda", cores, "2.13.0", ("GPU A",))).values():
        made = load(shipped(pong.TOPOLOGY), keys)
        assert made.simulators.environments == tuned.simulators.environments
        assert (made.algorithm, made.optimizer) == (tuned.algorithm, tuned.optimizer)


def test_seeds_of_pong_are_drawn_and_those_of_an_earlier_call_are_kept(tmp_path: Path) -> None:
    def stay(folder: Path) -> Stay:
        return Stay(asked(folder), RICH, "pong", minutes=1.0)

    drawn = pong.seeds_of(stay(tmp_path))
    assert len(set(drawn)) == pong.SEEDS and drawn != pong.seeds_of(stay(tmp_path))

    stay(tmp_path).measure({f"a server, 2 groups, seed {drawn[0]}": lambda: 1.0}, 1, start_s=0.0)
    again = pong.seeds_of(stay(tmp_path))
    assert again[0] == drawn[0] and len(set(again)) == pong.SEEDS
