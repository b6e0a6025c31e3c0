"""Updates a second with backup learners: the runs that are measured, and the table that is made of them."""

from __future__ import annotations

import pytest

from benchmarks.papers import dba3c_stragglers
from benchmarks.papers.dba3c_stragglers import LEARNERS, SLOW, QuorumCase, StragglerReading
from benchmarks.registry import SUITES
from benchmarks.request import BenchmarkRequest, shipped
from launch.topology.load import load


def stretch(rate: float, waited_s: float = 0.0, dropped: int = 0, *named: str) -> StragglerReading:
    learners = {f"trainer-{number}": {"gradients_dropped": 0} for number in range(LEARNERS)}
    learners[f"trainer-{SLOW}"]["gradients_dropped"] = dropped
    return StragglerReading(rate, [{"learners": learners, "straggler_wait_s": waited_s}], named, 0.5)


def test_each_quorum_is_a_topology_of_four_nodes() -> None:
    for quorum in (LEARNERS, LEARNERS - 1):
        made = load(shipped(dba3c_stragglers.TOPOLOGY), dba3c_stragglers.keys(quorum, "/slow"))
        assert (made.nodes.count, made.learners.count, made.learners.quorum, made.mode) == (4, 4, quorum, "async")
        assert (made.parameter_servers.count, made.simulators.environments, made.algorithm.horizon) == (1, 1, 5)


def test_the_table_has_the_rates_the_dropped_gradients_and_who_was_named(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {
        QuorumCase(4, False): [stretch(9.0), stretch(10.0), stretch(8.0)],
        QuorumCase(4, True): [stretch(2.0, 0.75, 0, "trainer-3 is slow: the other learners waited")] * 3,
        QuorumCase(3, False): [stretch(9.0)] * 3,
        QuorumCase(3, True): [stretch(8.1, 0.0, 2)] * 3,
    }

    def measure(_request: BenchmarkRequest, quorum: int, found: dict[QuorumCase, list[StragglerReading]]) -> float:
        for slow in (False, True):
            case = QuorumCase(quorum, slow)
            found[case].append(seen[case][len(found[case])])
        return 0.0

    monkeypatch.setattr(dba3c_stragglers, "measure_quorum", measure)
    made = SUITES["dba3c-stragglers"].load()(BenchmarkRequest("", (), 3, 1.0))
    assert made.rows == [
        ("K = N, even", "9.00 (8.00-10.00)", "100 %", "0.00", "0.00", "0 %", "-"),
        ("K = N - 1, even", "9.00 (9.00-9.00)", "100 %", "0.00", "0.00", "0 %", "-"),
        ("K = N, one slow", "2.00 (2.00-2.00)", "22 %", "0.00", "0.00", "75 %", "trainer-3"),
        ("K = N - 1, one slow", "8.10 (8.10-8.10)", "90 %", "2.00", "2.00", "0 %", "-"),
    ]
    assert "K = 60 of 64" in made.notes[0]
