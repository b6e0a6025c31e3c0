"""Parts that every process has: it beats, hears orders, ends when told to, and finds the members' blocks."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from actorlearn.address import Ipc, Shm
from actorlearn.memory.progress import progress_fields
from actorlearn.memory.shared import Segment
from actorlearn.metrics.timings import SECTIONS
from actorlearn.wire.channel import Router
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import Hello, Member, Order, decode, encode
from actorlearn.worker import worker as module
from actorlearn.worker.settings import ProcessSettings
from actorlearn.worker.worker import Worker, open_members
from tests.blocks import make_members
from tests.identities import address_of

WHO = ProcessId("simulator", 3, incarnation=1)


@pytest.fixture
def router(tmp_path: Path) -> Iterator[Router]:
    made = Router(Ipc(f"{tmp_path}/control"))
    yield made
    made.close()


@pytest.fixture
def worker(tmp_path: Path, router: Router, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    monkeypatch.setattr(module, "LOOK_S", 0.0)
    Segment.create(tmp_path / "progress", progress_fields(len(SECTIONS))).close()
    before = signal.getsignal(signal.SIGTERM)
    made = Worker(
        ProcessSettings(
            id=WHO, run_id="run", control=address_of(router), progress=Shm(str(tmp_path / "progress")), index=2, seed=0
        )
    )
    yield made
    made.control.close()
    signal.signal(signal.SIGTERM, before)


def test_it_says_who_it_is(worker: Worker, router: Router) -> None:
    worker.hello({"env.id": "Catch"})
    heard = router.recv(1000)
    assert heard is not None
    hello = decode(heard[1], "supervisor")
    assert heard[0] == WHO.socket_id and isinstance(hello, Hello)
    assert (hello.id, hello.pid, hello.run_id, hello.shape) == (WHO, os.getpid(), "run", {"env.id": "Catch"})


def test_each_look_beats_and_hears_the_newest_order(worker: Worker, router: Router, tmp_path: Path) -> None:
    beats = Segment.open(tmp_path / "progress")["beat_ns"]
    worker.hello()
    assert router.recv(1000) is not None
    before = int(beats[2, 0])
    router.send(WHO.socket_id, encode(Order(version=4)))
    for _ in range(1000):
        assert worker.poll()
        if worker.control.ordered:
            break
    assert worker.control.order.version == 4
    assert int(beats[2, 0]) > before > 0
    assert int(beats[1, 0]) == -1  # somebody else's


def test_looks_are_no_more_frequent_than_they_cost_nothing(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", 1000.0)
    polls: list[int] = []
    monkeypatch.setattr(worker.control, "poll", lambda: polls.append(1))
    for _ in range(5):
        assert worker.poll()
    assert len(polls) == 1


def test_told_to_end_it_is_alive_no_more(worker: Worker) -> None:
    assert worker.poll()
    os.kill(os.getpid(), signal.SIGTERM)
    assert not worker.poll()


def test_members_are_found_once_and_who_has_gone_is_left_out(tmp_path: Path) -> None:
    make_members(tmp_path, 2, blocks=1, envs=1, observation=1)
    segments = {number: Shm(str(tmp_path / str(number))) for number in (1, 0, 7)}
    members = [Member(id=ProcessId("simulator", number), segment=own) for number, own in segments.items()]
    found = open_members(members, {})
    assert list(found) == ["simulator-1.0", "simulator-0.0"]
    again = open_members(members[1:], found)
    assert list(again) == ["simulator-0.0"] and again["simulator-0.0"] is found["simulator-0.0"]
