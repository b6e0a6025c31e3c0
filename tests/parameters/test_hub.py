"""The hub's barriers: whatever is lost, repeated or late, all learners get the same answer, or hear of a loss."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorlearn.parameters.frame_headers import HUB
from actorlearn.parameters.hub import (
    ACKNOWLEDGED,
    CONTRIBUTION,
    LEFT,
    LOST,
    Hub,
    HubFrame,
    add,
    content_of,
    decode,
    encode,
    numbers_in,
    vectors_in,
)
from tests.examples import examples

RUN = b"r" * 16


def vector(rank: int, barrier: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.array([rank + 0.1, barrier, rank * barrier / 3], np.float32)


def come(barrier: int, *numbers: int, vector: Any = None, among: int = 0, generation: int = 0) -> HubFrame:
    return HubFrame(CONTRIBUTION, generation, barrier, among, content_of(numbers, vector))


@settings(max_examples=examples(100))
@given(
    learners=st.integers(1, 4),
    seed=st.integers(0, 2**32),
    added=st.booleans(),
    without=st.sets(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=3),
)
def test_all_learners_get_the_contributions_of_all_however_frames_are_lost_or_repeated(
    learners: int, seed: int, added: bool, without: set[tuple[int, int]]
) -> None:
    """``without``: a rank that brings no vector to a barrier, at which no learner then gets vectors."""
    chance = random.Random(seed)
    hub, among = Hub(learners, 7), ((1 << learners) - 1) * added
    at, heard, travelling = (
        [1] * learners,
        [dict[int, HubFrame]() for _ in range(learners)],
        list[tuple[int, HubFrame]](),
    )
    while min(at) <= 4:
        rank = chance.randrange(learners)
        brought = None if (rank, at[rank]) in without else vector(rank, at[rank])
        bits = among if brought is not None else 0
        travelling.append((rank, come(at[rank], rank, -at[rank], vector=brought, among=bits, generation=7)))
        for _ in range(2):
            sender, frame = chance.choice(travelling)  # perhaps once more, perhaps an old one
            for to, answer in hub.take(sender, frame).items():
                if chance.random() < 0.7 and answer.barrier == at[to]:  # the rest is lost
                    heard[to][at[to]] = answer
                    at[to] += 1
        assert hub.miss([]) == {}
    for barrier in range(1, 5):
        rows = [vector(rank, barrier) for rank in range(learners)]
        total = rows[0]
        for row in rows[1:]:
            total = total + row
        expected = total if added else np.stack(rows)
        for each in heard:
            assert numbers_in(each[barrier], learners)[:, :2].tolist() == [[rank, -barrier] for rank in range(learners)]
            vectors = vectors_in(each[barrier], learners, np.dtype(np.float32))
            if any((rank, barrier) in without for rank in range(learners)):
                assert vectors is None
            else:
                assert vectors is not None and vectors.tobytes() == expected.tobytes()
                assert vectors.shape == expected.shape


def test_a_sum_is_over_the_ranks_that_take_part() -> None:
    rows = [np.float32([rank + 1]).tobytes() for rank in range(3)]
    assert np.frombuffer(add(rows, 0b101), np.float32).tolist() == [4.0]
    answer = HubFrame(CONTRIBUTION, 0, 1, 0, content_of((1,)) * 3 + np.arange(6).tobytes())
    assert numbers_in(answer, 3)[:, 0].tolist() == [1, 1, 1]
    vectors = vectors_in(answer, 3, np.dtype(np.int64))
    assert vectors is not None and vectors.tolist() == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize("how", ["gone", "left"])
def test_a_learner_that_is_gone_before_it_arrives_is_missed_by_all_that_wait(how: str) -> None:
    hub = Hub(3, 0)
    assert hub.miss([2]) == {}  # no learner waits
    hub.take(0, come(1))
    if how == "left":
        hub.take(2, HubFrame(LEFT, 0, 0))
    told = hub.miss([2] if how == "gone" else [])
    assert [frame.kind for frame in told.values()] == [LOST] and told.keys() == {0}
    assert hub.take(1, come(1))[1].kind == LOST
    assert hub.take(2, come(1))[2].kind == LOST  # it cannot come back to this generation


def test_a_learner_that_dies_after_it_arrived_is_missed_at_the_next_barrier() -> None:
    hub = Hub(2, 0)
    hub.take(1, come(1, 5))
    assert hub.miss([1]) == {}
    answers = hub.take(0, come(1, 4))
    assert {rank: numbers_in(frame, 2)[:, 0].tolist() for rank, frame in answers.items()} == {0: [4, 5], 1: [4, 5]}
    hub.take(0, come(2))
    assert hub.miss([1])[0].kind == LOST


def test_the_hub_knows_who_has_not_acknowledged_the_last_answer() -> None:
    hub = Hub(3, 0)
    for rank in range(3):
        hub.take(rank, come(1))
    assert hub.unacknowledged([]) == [0, 1, 2]
    hub.take(0, HubFrame(ACKNOWLEDGED, 0, 1))
    hub.take(1, HubFrame(LEFT, 0, 1))
    assert hub.unacknowledged([]) == [2] and hub.unacknowledged([2]) == []


def test_the_hub_ignores_other_generations_and_answers_unequal_vectors_with_lost() -> None:
    hub = Hub(2, 3)
    assert hub.take(0, come(1, generation=2)) == {}
    hub.take(0, come(1, generation=3, vector=np.zeros(3)))
    answers = hub.take(1, come(1, generation=3, vector=np.zeros(2)))
    assert {frame.kind for frame in answers.values()} == {LOST}


@pytest.mark.parametrize(
    ("among", "content"),
    [(0b100, content_of((), np.zeros(1))), (0b11, content_of((), np.zeros(9, np.int8))), (0, content_of(())[:-1])],
    ids=["unknown rank", "no float32", "too few numbers"],
)
def test_a_contribution_that_cannot_be_used_is_dropped(among: int, content: bytes) -> None:
    hub = Hub(2, 0)
    for rank in (0, 1, 1):
        assert hub.take(rank, HubFrame(CONTRIBUTION, 0, 1, among, content)) == {}
    good = come(1, vector=np.float32([2]), among=0b11)
    assert hub.take(0, good) == {}
    total = vectors_in(hub.take(1, good)[0], 2, np.dtype(np.float32))
    assert total is not None and total.tolist() == [4.0]


@given(st.binary(max_size=HUB.size + 8))
def test_other_bytes_are_no_frame_and_a_frame_is_read_back(body: bytes) -> None:
    assert decode(RUN, body) is None
    good = encode(RUN, HubFrame(CONTRIBUTION, 3, 5, 0b11, body))
    assert decode(RUN, good) == HubFrame(CONTRIBUTION, 3, 5, 0b11, body)
    assert decode(b"x" * 16, good) is None
