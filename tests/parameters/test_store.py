"""The parameter store: no update is lost, no chunk is torn, no lock outlives its holder."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorlearn.failpoints import Killed, armed
from actorlearn.memory.record import SLOTS
from actorlearn.memory.shared import Segment, segment_bytes
from actorlearn.parameters.store import LearnerRecord, SharedStore, store_fields

PARAMETERS, STATISTICS = 1 << 18, 8  # 1 MiB a row: writing a chunk takes long enough to be killed in it

ADDER = """
import sys
from pathlib import Path
from actorlearn.memory.shared import Segment
from actorlearn.parameters.store import LearnerRecord, SharedStore
store = SharedStore(Segment.open(Path(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3]), lambda: None)
for update in range(int(sys.argv[4])):
    waiting = list(range(len(store.spans)))
    while waiting:
        with store.locked(waiting) as chunk:
            store.spare(chunk)[:] = store.current(chunk) + 1
            store.commit(chunk)
        waiting.remove(chunk)
    store.settle(LearnerRecord(update + 1, 10 * (update + 1), 0, update + 1, 0, 0, 0))
    print(update, flush=True)
"""


def make(folder: Path, learners: int = 2, parameters: int = PARAMETERS, chunks: int = 3) -> Path:
    segment = Segment.create(folder / "store", store_fields(parameters, 1, STATISTICS, learners, chunks))
    segment["values"][0] = 0.0
    return segment.path


def bind(path: Path, rank: int = 0, parameters: int = PARAMETERS) -> SharedStore:
    return SharedStore(Segment.open(path), rank, parameters, lambda: None)


def adder(path: Path, rank: int, updates: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", ADDER, str(path), str(rank), str(PARAMETERS), str(updates)], stdout=subprocess.PIPE
    )


@given(st.integers(1, 20_000), st.integers(0, 10), st.integers(1, 5))
def test_chunks_cover_the_vector_once_in_order_and_statistics_are_the_last(tmp_path_factory, parameters, tail, chunks):
    path = tmp_path_factory.mktemp("store") / "store"
    Segment.create(path, store_fields(parameters, 0, tail, 1, chunks))
    store = bind(path, parameters=parameters)
    store.close()
    numbers = [number for span in store.spans for number in range(parameters + tail)[span]]
    assert numbers == list(range(parameters + tail))
    assert store.spans[-1] == slice(parameters, parameters + tail)
    assert len(store.spans) == chunks + 1


def test_the_bytes_of_a_store_are_known_before_it_is_made(tmp_path: Path) -> None:
    path = make(tmp_path)
    numbers = SLOTS * 2 * (PARAMETERS + STATISTICS) * 4
    assert numbers < path.stat().st_size == segment_bytes(store_fields(PARAMETERS, 1, STATISTICS, 2)) < numbers + 32_768


def test_a_learner_takes_other_chunks_first_while_one_is_locked(tmp_path: Path) -> None:
    path = make(tmp_path)
    ours, theirs = bind(path, 0), bind(path, 1)
    order = []
    with theirs.locked([0]):
        waiting = [0, 1, 2]
        while len(waiting) > 1:
            with ours.locked(waiting) as chunk:
                order.append(chunk)
            waiting.remove(chunk)
    with ours.locked(waiting) as chunk:
        order.append(chunk)
    assert order == [1, 2, 0]
    ours.close(), theirs.close()


def test_a_learner_that_waits_for_a_lock_beats(tmp_path: Path) -> None:
    path = make(tmp_path)
    theirs = bind(path, 1)
    held = theirs.locked([0])
    held.__enter__()
    beats = []

    def beat() -> None:
        beats.append(1)
        if len(beats) == 3:
            held.__exit__(None, None, None)

    ours = SharedStore(Segment.open(path), 0, PARAMETERS, beat)
    with ours.locked([0]):
        assert len(beats) == 3
    assert ours.waited_s > 0.0
    ours.close(), theirs.close()


def test_a_write_that_is_not_committed_changes_nothing(tmp_path: Path) -> None:
    store = bind(make(tmp_path))
    with store.locked([1]) as chunk:
        store.spare(chunk)[:] = 7.0  # and then it is killed
    assert (store.current(1) == 0.0).all()
    store.commit(1)
    assert (store.current(1) == 7.0).all()
    assert [store.version(chunk) for chunk in range(4)] == [0, 1, 0, 0]
    store.close()


def test_counts_are_the_sum_over_learners_and_the_counts_at_the_start(tmp_path: Path) -> None:
    path = make(tmp_path)
    first, second = bind(path, 0), bind(path, 1)
    assert not first.filled
    first.fill(1000, 50)
    assert second.filled
    for rollouts in range(4):
        first.settle(LearnerRecord(7 + rollouts, 70 + 10 * rollouts, 70, rollouts, 70, 2, 1, (1, rollouts)))
    second.settle(LearnerRecord(1, 2**40, 0, 1, 0, 0, 0))
    assert (second.env_steps, second.updates) == (1030 + 2**40, 54)
    assert bind(path, 0).record == LearnerRecord(10, 100, 70, 3, 70, 2, 1, (1, 3))
    first.close(), second.close()


@pytest.mark.parametrize("point", ["record.written", "record.committed"])
def test_a_record_is_replaced_whole_or_not_at_all(tmp_path: Path, point: str) -> None:
    before, after = LearnerRecord(1, 10, 10, 1, 0, 2, 0, (3, 4, 5)), LearnerRecord(2, 20, 20, 2, 0, 4, 2, (6,))
    store = bind(make(tmp_path))
    assert store.record is None
    store.settle(before)
    with armed(f"{point}=raise"), pytest.raises(Killed):
        store.settle(after)
    assert store.record == (after if point == "record.committed" else before)
    store.close()


@pytest.mark.parametrize("point", ["store.written", "store.committed"])
def test_a_chunk_and_the_number_of_the_update_in_it_change_together(tmp_path: Path, point: str) -> None:
    path = make(tmp_path)
    stores = [bind(path, rank) for rank in range(2)]

    def write(rank: int, value: float, number: int) -> None:
        store = stores[rank]
        with store.locked([1]):
            store.spare(1)[:] = value
            store.commit(1, number)

    write(0, 1.0, 5), write(1, 2.0, 7), write(0, 3.0, 6)
    with armed(f"{point}=raise"), pytest.raises(Killed):
        write(1, 4.0, 8)
    done = point == "store.committed"
    with stores[0].locked([1]):
        assert (stores[0].current(1) == (4.0 if done else 3.0)).all()
        assert [store.applied(1) for store in stores] == [6, 8 if done else 7]
        assert [store.applied(0) for store in stores] == [-1, -1]
    for store in stores:
        store.close()


def test_processes_that_hammer_one_store_lose_no_update(tmp_path: Path) -> None:
    learners, updates = 4, 400
    path = make(tmp_path, learners)
    adders = [adder(path, rank, updates) for rank in range(learners)]
    for process in adders:
        process.communicate()
        assert process.returncode == 0
    store = bind(path)
    for chunk in range(4):
        assert store.version(chunk) == learners * updates
        assert (store.current(chunk) == learners * updates).all()
    assert (store.env_steps, store.updates) == (10 * learners * updates, learners * updates)
    assert [bind(path, rank).record for rank in range(learners)] == [
        LearnerRecord(updates, 10 * updates, 0, updates, 0, 0, 0)
    ] * learners
    store.close()


@pytest.mark.nightly
def test_a_kill_at_any_moment_leaves_whole_chunks_and_free_locks(tmp_path: Path) -> None:
    path, moments = make(tmp_path, 3), random.Random(0)
    survivor = adder(path, 2, 10**9)
    store = bind(path)
    for _ in range(8):
        victims = [adder(path, rank, 10**9) for rank in range(2)]
        for victim in victims:
            assert victim.stdout is not None
            victim.stdout.readline()  # it has begun
        time.sleep(moments.uniform(0.0, 0.02))
        for victim in victims:
            os.kill(victim.pid, signal.SIGKILL)
            victim.communicate()
        for chunk in range(4):
            with store.locked([chunk]):
                assert (store.current(chunk) == np.float32(store.version(chunk))).all()
    survivor.kill()
    survivor.communicate()
    store.close()
