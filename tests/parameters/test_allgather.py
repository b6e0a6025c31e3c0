"""All-gather: everybody gets what everybody showed, whoever is faster and whatever type it has."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from actorlearn.memory.shared import Segment
from actorlearn.parameters.rendezvous import AllGather, SharedRendezvous, rendezvous_fields, rows_fields

LEARNERS, SIZE = 3, 21


def place(folder: Path, rank: int, present: int = LEARNERS) -> tuple[SharedRendezvous, AllGather]:
    rendezvous = SharedRendezvous(Segment.open(folder / f"learners-{present}"), rank, lambda: True)
    return rendezvous, AllGather(Segment.open(folder / "rows"), rendezvous)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for present in (1, LEARNERS):
        Segment.create(tmp_path / f"learners-{present}", rendezvous_fields(present)).close()
    Segment.create(tmp_path / "rows", rows_fields(LEARNERS, SIZE)).close()
    return tmp_path


def vector(rank: int, turn: int) -> np.ndarray:
    """A vector, of another length and type each time."""
    dtype = (np.float32, np.int64, np.float64, np.uint8)[turn % 4]
    return (np.arange(turn % (SIZE // 2)) + 100 * rank + turn).astype(dtype)


def test_each_gets_what_all_showed_whoever_is_faster(folder: Path) -> None:
    turns = 200

    def attend(rank: int) -> None:
        rendezvous, gathering = place(folder, rank)
        for turn in range(turns):
            own = vector(rank, turn)
            rows = gathering.gather(own)
            for other, row in enumerate(rows):
                np.testing.assert_array_equal(row[: own.size], vector(other, turn), strict=True)
        rendezvous.close()

    with ThreadPoolExecutor(LEARNERS) as threads:
        assert list(threads.map(attend, range(LEARNERS))) == [None] * LEARNERS


def test_fewer_learners_use_the_same_rows(folder: Path) -> None:
    rendezvous, gathering = place(folder, 0, present=1)
    assert gathering.gather(np.arange(SIZE, dtype=np.float32))[:, :SIZE].tolist() == [list(range(SIZE))]
    rendezvous.close()


def test_what_is_longer_than_a_row_is_refused(folder: Path) -> None:
    rendezvous, gathering = place(folder, 0, present=1)
    with pytest.raises(ValueError, match="a vector of 17 float64 is too long: a row has room for 16"):
        gathering.gather(np.zeros(17))
    rendezvous.close()


def test_no_two_learners_share_a_cache_line() -> None:
    (field,) = rows_fields(LEARNERS, SIZE)
    assert field.shape[-1] * 4 % 64 == 0 and field.shape[-1] >= SIZE
