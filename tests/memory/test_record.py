"""A committed record: replaced whole or not at all, read whole, and there for who comes later."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from actorlearn.failpoints import Killed, armed
from actorlearn.memory.fields import Field
from actorlearn.memory.record import SLOTS, CommittedRecord
from actorlearn.memory.shared import Segment

FIELDS = [Field("commits", "int64", (8,), 0), Field("one", "int64", (SLOTS, 3), 0), Field("two", "S4", (SLOTS, 2))]


@pytest.fixture
def segment(tmp_path: Path) -> Segment:
    return Segment.create(tmp_path / "record", FIELDS)


def bound(segment: Segment) -> CommittedRecord:
    return CommittedRecord(segment["commits"], segment["one"], segment["two"])


def plain(record: CommittedRecord) -> list[list[object]]:
    return [array.tolist() for array in record.read()]


def test_before_the_first_commit_it_is_what_the_memory_holds(segment: Segment) -> None:
    assert bound(segment).commits == 0
    assert plain(bound(segment)) == [[0, 0, 0], [b"", b""]]


def test_all_arrays_are_replaced_together_for_who_looks_later(segment: Segment) -> None:
    writer = bound(segment)
    for number in range(1, 4):
        writer.replace([number] * 3, [b"%d" % number] * 2)
        later = bound(segment)
        assert later.commits == number
        assert plain(later) == plain(writer) == [[number] * 3, [b"%d" % number] * 2]


def test_what_held_before_stays_until_the_next_replacement(segment: Segment) -> None:
    record = bound(segment)
    record.replace([1, 1, 1], [b"1", b"1"])
    record.replace([2, 2, 2], [b"2", b"2"])
    assert [array.tolist() for array in record.before] == [[1, 1, 1], [b"1", b"1"]]


def test_a_shorter_value_leaves_the_rest(segment: Segment) -> None:
    bound(segment).replace([5], [b"x", b"y"])
    assert plain(bound(segment)) == [[5, 0, 0], [b"x", b"y"]]


@pytest.mark.parametrize("hits", [1, 2])
def test_killed_among_its_arrays_nothing_is_replaced(segment: Segment, hits: int) -> None:
    record = bound(segment)
    record.replace([1, 1, 1], [b"1", b"1"])
    with armed(f"record.written=raise@{hits}"), pytest.raises(Killed):
        record.replace([2, 2, 2], [b"2", b"2"])
    assert plain(bound(segment)) == [[1, 1, 1], [b"1", b"1"]]
    bound(segment).replace([3, 3, 3], [b"3", b"3"])
    assert plain(record) == [[3, 3, 3], [b"3", b"3"]]


def test_a_value_for_every_array_is_asked_for(segment: Segment) -> None:
    with pytest.raises(ValueError, match="zip"):
        bound(segment).replace([1, 2, 3])


def test_a_record_that_never_holds_still_is_an_error() -> None:
    class Restless(np.ndarray):  # type: ignore[type-arg]
        """Counts up at each look."""

        def __getitem__(self, key: object) -> object:
            self.view(np.ndarray)[:] += 1
            return self.view(np.ndarray)[key]  # type: ignore[index]

    with pytest.raises(RuntimeError, match="a record in shared memory could not be read in 1000 attempts"):
        CommittedRecord(np.zeros(1, np.int64).view(Restless), np.zeros((SLOTS, 2), np.int64)).read()
