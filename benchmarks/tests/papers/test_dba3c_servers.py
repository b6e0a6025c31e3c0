"""DBA3C's parameter servers: topologies of as many parameters as the paper's, and the bytes of an update."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from benchmarks.papers import dba3c_servers
from benchmarks.papers.dba3c_servers import ServersReading, UpdateBytes, bytes_of, update_bytes
from benchmarks.papers.dba3c_sizes import PAPER_PARAMETERS
from benchmarks.registry import SUITES
from benchmarks.request import BenchmarkRequest, shipped
from launch.errors import FailedError
from launch.topology.load import load


@pytest.mark.parametrize("servers", dba3c_servers.SERVERS)
def test_each_number_of_servers_is_a_topology_of_learners_in_step(servers: int) -> None:
    made = load(shipped(dba3c_servers.TOPOLOGY), dba3c_servers.keys(servers))
    assert (made.learners.count, made.learners.quorum, made.parameter_servers.count) == (4, 4, servers)
    assert made.simulators.environments * made.algorithm.horizon == dba3c_servers.BATCH


def test_the_bytes_of_an_update_are_those_of_the_papers_network() -> None:
    parameters = 332_282
    assert parameters == pytest.approx(PAPER_PARAMETERS[128], rel=1e-4)
    topology = load(shipped(dba3c_servers.TOPOLOGY), dba3c_servers.keys(2))
    each = 4 * parameters  # in 5 shards of either server
    assert bytes_of(topology) == (each + 10 * (88 + 112 + 8) + 2 * (88 + 112), each + 10 * (88 + 4 * 112))
    assert update_bytes(parameters, 1, 4, 2).sent == each // 2 + 10 * (88 + 112 + 8) + 88 + 112


def test_only_whole_updates_are_whole_numbers_of_updates() -> None:
    each = UpdateBytes(100, 70)
    assert each.divides(300, 210)
    assert not any(each.divides(*bytes_) for bytes_ in ((300, 211), (301, 210), (300, 140), (0, 0)))


def test_without_namespaces_nodes_are_those_of_the_engine_local(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[str, ...]] = []

    @contextmanager
    def none(*_: object) -> Iterator[None]:
        raise FailedError("only root makes network namespaces; run it as root")
        yield

    @contextmanager
    def running(_: str, overrides: tuple[str, ...], engine: str) -> Iterator[None]:
        started.append((engine, *overrides))
        yield

    monkeypatch.setattr(dba3c_servers, "namespaces", none)
    monkeypatch.setattr(dba3c_servers, "Running", running)
    monkeypatch.setattr(dba3c_servers, "bytes_of", lambda topology: UpdateBytes(topology.parameter_servers.count, 1))
    monkeypatch.setattr(dba3c_servers, "measure", lambda run, each, *_: ServersReading(100.0 * each.sent))
    found = SUITES["dba3c-servers"].load()(BenchmarkRequest("", ("seed=2",), 1, 1.0))
    assert [row[:4] for row in found.rows] == [
        ("1 server", "100 (100-100)", "1.00", "-"),
        ("2 servers", "200 (200-200)", "2.00", "-"),
        ("4 servers", "400 (400-400)", "4.00", "-"),
    ]
    assert "only root" in found.notes[0]
    assert all({"local", "nodes.count=4", "nodes.listen=127.0.0.1:0", "seed=2"} <= set(each) for each in started)
