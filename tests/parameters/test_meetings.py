"""The hub's meetings: whatever is lost, repeated or late, everybody gets the same answer, or hears who is gone."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorlearn.parameters.frame_headers import MEETING
from actorlearn.parameters.meetings import (
    ACKNOWLEDGED,
    LEFT,
    LOST,
    ROWS,
    SUM,
    MeetingFrame,
    MeetingHub,
    add,
    decode,
    encode,
    rows_of,
)
from tests.examples import examples

RUN = b"r" * 16


def said(rank: int, meeting: int) -> bytes:
    return np.array([rank + 0.1, meeting, rank * meeting / 3], np.float32).tobytes()


@settings(max_examples=examples(100))
@given(learners=st.integers(1, 4), seed=st.integers(0, 2**32), kind=st.sampled_from([ROWS, SUM]))
def test_every_meeting_is_of_everybody_however_frames_travel(learners: int, seed: int, kind: int) -> None:
    chance = random.Random(seed)
    hub, among = MeetingHub(learners, 7), (1 << learners) - 1
    at, heard, travelling = (
        [1] * learners,
        [dict[int, bytes]() for _ in range(learners)],
        list[tuple[int, MeetingFrame]](),
    )
    while min(at) <= 4:
        rank = chance.randrange(learners)
        travelling.append((rank, MeetingFrame(kind, 7, at[rank], among if kind == SUM else 0, said(rank, at[rank]))))
        for _ in range(2):
            sender, frame = chance.choice(travelling)  # perhaps once more, perhaps an old one
            for to, answer in hub.take(sender, frame).items():
                if chance.random() < 0.7 and answer.meeting == at[to]:  # the rest is lost
                    heard[to][at[to]] = answer.content
                    at[to] += 1
        assert hub.miss([]) == {}
    for meeting in range(1, 5):
        rows = [said(rank, meeting) for rank in range(learners)]
        total = np.frombuffer(rows[0], np.float32)
        for row in rows[1:]:
            total = total + np.frombuffer(row, np.float32)
        expected = total.tobytes() if kind == SUM else b"".join(rows)
        assert [each[meeting] for each in heard] == [expected] * learners


def test_a_sum_is_of_those_that_take_part() -> None:
    rows = [MeetingFrame(SUM, 0, 1, 0b101, np.float32([rank + 1]).tobytes()) for rank in range(3)]
    assert np.frombuffer(add(rows), np.float32).tolist() == [4.0]
    answer = MeetingFrame(ROWS, 0, 1, 0, np.arange(6).tobytes())
    assert rows_of(answer, 3, np.dtype(np.int64)).tolist() == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize("how", ["gone", "left"])
def test_one_that_has_not_come_and_is_gone_is_missed_by_all_who_wait(how: str) -> None:
    hub = MeetingHub(3, 0)
    assert hub.miss([2]) == {}  # nobody waits
    hub.take(0, MeetingFrame(ROWS, 0, 1))
    if how == "left":
        hub.take(2, MeetingFrame(LEFT, 0, 0))
    told = hub.miss([2] if how == "gone" else [])
    assert [frame.kind for frame in told.values()] == [LOST] and told.keys() == {0}
    assert hub.take(1, MeetingFrame(ROWS, 0, 1))[1].kind == LOST
    assert hub.take(2, MeetingFrame(ROWS, 0, 1))[2].kind == LOST  # it cannot come back to this generation


def test_one_that_has_come_and_died_is_missed_at_the_next_meeting() -> None:
    hub = MeetingHub(2, 0)
    hub.take(1, MeetingFrame(ROWS, 0, 1, 0, b"1"))
    assert hub.miss([1]) == {}
    assert {rank: frame.content for rank, frame in hub.take(0, MeetingFrame(ROWS, 0, 1, 0, b"0")).items()} == {
        0: b"01",
        1: b"01",
    }
    hub.take(0, MeetingFrame(ROWS, 0, 2, 0, b"0"))
    assert hub.miss([1])[0].kind == LOST


def test_who_may_still_ask_for_the_last_answer() -> None:
    hub = MeetingHub(3, 0)
    for rank in range(3):
        hub.take(rank, MeetingFrame(ROWS, 0, 1))
    assert hub.unheard([]) == [0, 1, 2]
    hub.take(0, MeetingFrame(ACKNOWLEDGED, 0, 1))
    hub.take(1, MeetingFrame(LEFT, 0, 1))
    assert hub.unheard([]) == [2] and hub.unheard([2]) == []


def test_other_generations_and_different_contributions() -> None:
    hub = MeetingHub(2, 3)
    assert hub.take(0, MeetingFrame(ROWS, 2, 1)) == {}
    hub.take(0, MeetingFrame(ROWS, 3, 1, 0, b"long"))
    assert {frame.kind for frame in hub.take(1, MeetingFrame(ROWS, 3, 1, 0, b"")).values()} == {LOST}


@pytest.mark.parametrize(("among", "content"), [(0, b"four"), (0b100, b"four"), (0b111, b"four"), (0b11, b"three" * 3)])
def test_a_contribution_that_cannot_be_added_is_dropped(among: int, content: bytes) -> None:
    hub = MeetingHub(2, 0)
    for rank in (0, 1, 1):
        assert hub.take(rank, MeetingFrame(SUM, 0, 1, among, content)) == {}
    good = MeetingFrame(SUM, 0, 1, 0b11, np.float32([2]).tobytes())
    assert hub.take(0, good) == {} and hub.take(1, good)[0].content == np.float32([4]).tobytes()


@given(st.binary(max_size=MEETING.size + 8))
def test_other_bytes_are_no_frame(body: bytes) -> None:
    assert decode(RUN, body) is None
    good = encode(RUN, MeetingFrame(SUM, 3, 5, 0b11, body))
    assert decode(RUN, good) == MeetingFrame(SUM, 3, 5, 0b11, body)
    assert decode(b"x" * 16, good) is None
