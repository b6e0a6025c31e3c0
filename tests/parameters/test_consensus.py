"""How far messages and gradients of gossiping learners differ, and the log of their exchanges."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from actorlearn.parameters.consensus import ExchangeLog, Measured, cosines, measure
from benchmarks.papers.gossip_bound import read
from tests.failing_disk import raise_full
from tests.sizes import ROOT

WRITER = """
import sys
from pathlib import Path
from actorlearn.parameters.consensus import ExchangeLog
log = ExchangeLog(Path(sys.argv[1]), anew=False)
version = 0
while True:
    log.stepped(version, 2.0 * version)
    log.mixed({peer: version for peer in range(version % 64)}, 3.0 * version)
    version += 1
"""


def test_records_of_the_log_are_read_back_in_order(tmp_path: Path) -> None:
    log = ExchangeLog(tmp_path / "exchanges-0.jsonl", anew=True)
    log.adopted({3: 7, 63: 2**41})
    log.stepped(0, 0.5)
    log.mixed({1: 0}, float("inf"))
    log.measured(Measured({0: 0, 1: 5}, {0: 0.0, 1: 2.5}, 1.25))
    log.close()
    adopted, stepped, mixed, measured = read(tmp_path / "exchanges-0.jsonl")
    assert (adopted.kind, adopted.messages) == ("adopted", {3: 7, 63: 2**41})
    assert (stepped.kind, stepped.version, stepped.norm) == ("stepped", 0, 0.5)
    assert (mixed.kind, mixed.messages, mixed.norm) == ("mixed", {1: 0}, None)
    assert (measured.kind, measured.messages) == ("measured", {0: 0, 1: 5})
    assert (measured.distances, measured.distance) == ({0: 0.0, 1: 2.5}, 1.25)
    assert adopted.time_ns <= stepped.time_ns <= mixed.time_ns <= measured.time_ns


def test_a_restarted_learner_continues_its_log_and_a_new_run_empties_it(tmp_path: Path) -> None:
    path = tmp_path / "exchanges-0.jsonl"
    for version, anew in ((0, True), (1, False)):
        log = ExchangeLog(path, anew)
        log.stepped(version, 1.0)
        log.close()
    assert [record.version for record in read(path)] == [0, 1]
    ExchangeLog(path, anew=True).close()
    assert read(path) == []


def test_an_incomplete_line_of_the_log_is_read_as_an_adoption_of_unknown_weights(tmp_path: Path) -> None:
    path = tmp_path / "exchanges-0.jsonl"
    log = ExchangeLog(path, anew=True)
    log.stepped(0, 1.0)
    log.stepped(1, 1.0)
    log.close()
    path.write_bytes(path.read_bytes()[:-9])
    log = ExchangeLog(path, anew=False)
    log.stepped(2, 1.0)
    log.close()
    first, lost, last = read(path)
    assert (first.version, last.version) == (0, 2)
    assert (lost.kind, lost.messages, lost.time_ns) == ("adopted", {}, first.time_ns)


def test_a_full_disk_ends_the_log_without_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = ExchangeLog(tmp_path / "exchanges-0.jsonl", anew=True)
    log.stepped(0, 1.0)
    with monkeypatch.context() as full:
        full.setattr(os, "write", raise_full)
        log.stepped(1, 1.0)
    log.stepped(2, 1.0)
    log.close()
    assert [record.version for record in read(tmp_path / "exchanges-0.jsonl")] == [0]


def test_a_killed_writer_leaves_whole_records_of_its_exchanges_in_order(tmp_path: Path) -> None:
    path = tmp_path / "exchanges-0.jsonl"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], cwd=ROOT)
    deadline_s = time.monotonic() + 40
    while time.monotonic() < deadline_s and (not path.exists() or path.stat().st_size < 100_000):
        time.sleep(0.01)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    records = read(path)
    if records[-1].kind == "adopted":  # the kill came while the kernel copied a line that spans two pages
        records.pop()
    assert len(records) > 100
    for number, record in enumerate(records):
        version = number // 2
        assert record.kind == ("mixed" if number % 2 else "stepped")
        assert record.norm == (3.0 if number % 2 else 2.0) * version
        assert number % 2 == 0 or record.messages == dict.fromkeys(range(version % 64), version)


def test_distances_are_measured_from_the_message_of_the_first_learner() -> None:
    messages = {5: np.array([1, 0, 0, 9e6], np.float32), 2: np.array([0, 2, 0, 3e6], np.float32)}

    def take(learner: int, out: NDArray[np.float32]) -> int:
        out[:] = messages[learner]
        return learner * 10

    measured = measure([5, 2], take, 4, 3)
    assert measured.versions == {5: 50, 2: 20}
    assert measured.distances == {5: 0.0, 2: pytest.approx(5**0.5)}
    assert measured.distance == pytest.approx(5**0.5 / 2)


def test_cosines_are_computed_for_each_pair_of_gradients() -> None:
    told = cosines({k: np.array(v, np.float32) for k, v in {2: (0, 3), 0: (1, 0), 1: (-2, -2), 7: (0, 0)}.items()})
    assert told == {
        "0-1": pytest.approx(-(0.5**0.5)),
        "0-2": 0.0,
        "0-7": 0.0,
        "1-2": pytest.approx(-(0.5**0.5)),
        "1-7": 0.0,
        "2-7": 0.0,
    }
