"""The barrier in shared memory: all learners get the same, a dead one is noticed, and a wait can be stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from actorlearn.memory.shared import Segment
from actorlearn.parameters.barrier import SharedBarrier, barrier_fields, rows_fields
from actorlearn.parameters.interface import PeerLost, Stopped

LEARNERS, SIZE = 3, 21

LEARNER = """
import sys
from pathlib import Path
from actorlearn.memory.shared import Segment
from actorlearn.parameters.barrier import SharedBarrier
path = Path(sys.argv[1])
place = SharedBarrier(Segment.open(path), Segment.open(path.parent / "rows"), int(sys.argv[2]), lambda: True)
for barrier in range(int(sys.argv[3])):
    print(place.gather_numbers([barrier, place.rank])[:, :2].tolist(), flush=True)
input()  # until it is killed
"""


@pytest.fixture
def rows(tmp_path: Path) -> Segment:
    return Segment.create(tmp_path / "rows", rows_fields(LEARNERS, SIZE))


@pytest.fixture
def path(tmp_path: Path, rows: Segment) -> Path:
    return Segment.create(tmp_path / "learners.0", barrier_fields(LEARNERS)).path


@pytest.fixture
def alone(tmp_path: Path, rows: Segment) -> Iterator[SharedBarrier]:
    """The barrier of one learner, with rows for several."""
    Segment.create(tmp_path / "one", barrier_fields(1))
    with places(tmp_path / "one", range(1)) as (place,):
        yield place


@contextmanager
def places(path: Path, ranks: range, alive: Callable[[], bool] = lambda: True) -> Iterator[list[SharedBarrier]]:
    taken = [SharedBarrier(Segment.open(path), Segment.open(path.parent / "rows"), rank, alive) for rank in ranks]
    try:
        yield taken
    finally:
        for place in taken:
            place.close()


def test_each_learner_gathers_the_numbers_of_all_whoever_is_faster(path: Path) -> None:
    barriers = 200

    def attend(place: SharedBarrier) -> list[list[list[int]]]:
        return [
            place.gather_numbers([barrier, 10**15 * place.rank + barrier])[:, :2].tolist()
            for barrier in range(barriers)
        ]

    with places(path, range(LEARNERS)) as taken, ThreadPoolExecutor(LEARNERS) as threads:
        heard = list(threads.map(attend, taken))
    expected = [[[barrier, 10**15 * rank + barrier] for rank in range(LEARNERS)] for barrier in range(barriers)]
    assert heard == [expected] * LEARNERS


def test_the_barrier_of_one_learner_does_not_wait(alone: SharedBarrier) -> None:
    assert alone.gather_numbers([7])[0, 0] == 7


def test_a_learner_that_is_told_to_end_stops_waiting_for_one_that_never_came(path: Path) -> None:
    looks = iter([True, True, False])
    with places(path, range(1), lambda: next(looks)) as (place,), pytest.raises(Stopped, match=r"\[1, 2\]"):
        place.gather_numbers([])


def test_a_killed_learner_is_named_and_its_place_is_not_given_again(path: Path, rows: Segment) -> None:
    program = [sys.executable, "-c", LEARNER, str(path)]
    learners = [
        subprocess.Popen([*program, str(rank), "2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for rank in (1, 2)
    ]
    try:
        with places(path, range(1)) as (place,):
            for barrier in range(2):
                assert place.gather_numbers([barrier, 0])[:, 1].tolist() == [0, 1, 2]
            os.kill(learners[0].pid, signal.SIGKILL)
            with pytest.raises(PeerLost, match=r"learners \[1\] are gone"):
                place.gather_numbers([2, 0])
        learners[0].wait()
        with pytest.raises(RuntimeError, match="learner 1 has joined this generation before"):
            SharedBarrier(Segment.open(path), rows, 1, lambda: True)
    finally:
        for learner in learners:
            learner.kill()
            learner.communicate()


def test_a_learner_that_leaves_after_it_arrived_is_missed_only_at_the_next_barrier(path: Path) -> None:
    """Otherwise, of two learners at the same barrier, one could fail and the other go on."""
    looks = threading.Semaphore(0)

    def alive() -> bool:
        looks.release()
        return True

    with places(path, range(1), alive) as (staying,), places(path, range(1, 2)) as (late,), ThreadPoolExecutor() as run:
        with places(path, range(2, 3), lambda: False) as (leaving,), pytest.raises(Stopped):
            leaving.gather_numbers([2])
        waiting = run.submit(staying.gather_numbers, [0])
        for _ in range(3):  # it has looked twice whether a learner is gone
            looks.acquire()
        assert late.gather_numbers([1])[:, 0].tolist() == waiting.result()[:, 0].tolist() == [0, 1, 2]
        for place in (staying, late):
            with pytest.raises(PeerLost, match=r"learners \[2\] are gone"):
                place.gather_numbers([])


def test_a_learner_that_waits_with_stay_goes_on_waiting_when_it_is_told_to_end(path: Path) -> None:
    looks = threading.Semaphore(0)

    def alive() -> bool:
        looks.release()
        return False

    with places(path, range(1), alive) as (staying,), places(path, range(1, 3)) as later, ThreadPoolExecutor() as run:
        waiting = run.submit(staying.gather_numbers, [0], stay=True)
        for _ in range(3):
            looks.acquire()
        for waiter in [run.submit(place.gather_numbers, [place.rank]) for place in later]:
            assert waiter.result()[:, 0].tolist() == [0, 1, 2]
        assert waiting.result()[:, 0].tolist() == [0, 1, 2]


def test_a_learner_that_has_left_is_missed_at_the_next_barrier(path: Path) -> None:
    with places(path, range(2, 3)) as (staying,):
        with places(path, range(2)) as leaving, ThreadPoolExecutor(2) as threads:
            both = [threads.submit(place.gather_numbers, [0]) for place in leaving]
            staying.gather_numbers([0])
            assert all((each.result() == 0).all() for each in both)
        with pytest.raises(PeerLost, match=r"learners \[0, 1\] are gone"):
            staying.gather_numbers([1])


def test_a_place_that_is_taken_is_refused(path: Path, rows: Segment) -> None:
    with places(path, range(1)), pytest.raises(RuntimeError, match="learner 0 has joined this generation before"):
        SharedBarrier(Segment.open(path), rows, 0, lambda: True)


def test_a_barrier_may_be_closed_twice_and_leaves_no_lock_or_wakeup_open(path: Path) -> None:
    with places(path, range(1)) as (place,):
        place.close()
        handles = Path("/proc/self/fd").iterdir()
        opened = {handle.readlink().name for handle in handles if handle.exists()}
    assert not {name for name in opened if name.startswith(f"{path.name}.")}


# Vectors --------------------------------------------------------------------------------------------------------------


def vector(rank: int, turn: int) -> np.ndarray:
    """A vector, of another length and type each time."""
    dtype = (np.float32, np.int64, np.float64, np.uint8)[turn % 4]
    return (np.arange(turn % (SIZE // 2)) + 100 * rank + turn).astype(dtype)


def test_each_learner_gathers_the_vectors_of_all_whoever_is_faster(path: Path) -> None:
    def attend(place: SharedBarrier) -> None:
        for turn in range(200):
            own = vector(place.rank, turn)
            for other, row in enumerate(place.gather(own)):
                np.testing.assert_array_equal(row, vector(other, turn), strict=True)

    with places(path, range(LEARNERS)) as taken, ThreadPoolExecutor(LEARNERS) as threads:
        assert list(threads.map(attend, taken)) == [None] * LEARNERS


@pytest.mark.parametrize("learners", [2, 3])
def test_all_get_the_same_sum_of_some_vectors_and_all_numbers(tmp_path: Path, rows: Segment, learners: int) -> None:
    """Two learners each add whole vectors, three each add a part of them; a part may be empty."""
    path = Segment.create(tmp_path / "learners.1", barrier_fields(learners)).path
    among = [0, learners - 1]
    sizes = (0, 1, SIZE - 1, SIZE)
    vectors = np.random.default_rng(0).normal(size=(learners, SIZE)).astype(np.float32)

    def attend(place: SharedBarrier) -> list[tuple[list[int], list[float]]]:
        found = []
        for size in sizes:
            said, total = place.add(vectors[place.rank, :size].copy(), among, [place.rank + size])
            found.append((said[:, 0].tolist(), total.tolist()))
        return found

    with places(path, range(learners)) as taken, ThreadPoolExecutor(learners) as threads:
        heard = list(threads.map(attend, taken))
    total = vectors[0] + vectors[-1]
    expected = [([rank + size for rank in range(learners)], total[:size].tolist()) for size in sizes]
    assert heard == [expected] * learners


def test_the_barrier_of_fewer_learners_uses_the_same_rows(alone: SharedBarrier) -> None:
    assert alone.gather(np.arange(SIZE, dtype=np.float32)).tolist() == [list(range(SIZE))]


def test_a_vector_that_is_longer_than_a_row_is_refused(alone: SharedBarrier) -> None:
    with pytest.raises(ValueError, match="a vector of 17 float64 is too long: a row has room for 16"):
        alone.gather(np.zeros(17))


def test_no_two_learners_share_a_cache_line() -> None:
    (field,) = rows_fields(LEARNERS, SIZE)
    assert field.shape[-1] * 4 % 64 == 0 and field.shape[-1] >= SIZE
