"""DBA3C's sizes are topologies with the paper's parameters, and its traffic is the paper's."""

from __future__ import annotations

import pytest

from benchmarks.papers import dba3c_sizes
from benchmarks.registry import SUITES
from benchmarks.request import BenchmarkRequest, shipped
from launch.spawning.prepared import prepared
from launch.topology.load import load


def test_each_size_is_a_topology_of_learners_on_one_machine() -> None:
    for units in dba3c_sizes.PAPER_PARAMETERS:
        made = load(shipped(dba3c_sizes.TOPOLOGY), dba3c_sizes.keys(units))
        assert (made.nodes.count, made.learners.count, made.mode) == (1, 2, "sync")
        assert made.simulators.environments * made.algorithm.horizon == 130


def test_64_nodes_carry_the_papers_megabytes() -> None:
    """Section 2.5: about 263 MB an update, which are MiB."""
    assert round(dba3c_sizes.traffic_bytes(538_119, 64) / 2**20) == 263


def test_the_parameters_measured_are_the_papers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dba3c_sizes, "rate_of", lambda *_: 100.0)
    with prepared():
        made = SUITES["dba3c-sizes"].load()(BenchmarkRequest("", (), 1, 1.0))
    assert [row[:6] for row in made.rows] == [
        ("256 units", "538,119", "538,119", "100 %", "8.2 MiB", "263 MiB"),
        ("16 units", "152,199", "152,199", "28 %", "2.3 MiB", "74 MiB"),
    ]
