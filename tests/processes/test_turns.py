"""Which rows are answered together: all of a tick, or whoever is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from actorlearn.acting.batching import Turns, due, waiting
from actorlearn.memory.rollout import Blocks
from tests.blocks import make_seats

ENVS = 4
DEADLINE_MS = 20.0


class Clock:
    """Seconds that pass when they are told to."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def seats(tmp_path: Path) -> list[Blocks]:
    """Three seats of two groups, taking part from round 0."""
    return make_seats(tmp_path, 3, blocks=2, envs=ENVS, observation=1)


def observe(blocks: Blocks, group: int) -> tuple[Blocks, int, int]:
    """The next row of a group."""
    tick = blocks.observed(group)
    blocks.mark_observed(group, tick)
    return blocks, group, tick


def act(asked: list[tuple[Blocks, int, int]]) -> None:
    for blocks, group, tick in asked:
        blocks.mark_acted(group, tick, 0)


def test_all_of_a_tick_are_awaited(seats: list[Blocks]) -> None:
    rows = [observe(blocks, 0) for blocks in seats[:2]]
    assert due(seats, 0) == []
    assert list(Turns(0, 0.0).batches(seats)) == []
    rows.append(observe(seats[2], 0))
    assert due(seats, 0) == rows
    assert list(Turns(0, 0.0).batches(seats)) == [rows]


def test_seats_that_are_admitted_while_they_are_looked_at_are_answered_together(seats: list[Blocks]) -> None:
    """Found by tests/interleavings: one was seen before it was admitted, the others when they had begun the round."""

    class JustAdmitted(Blocks):
        looked_at = False

        @property
        def joined(self) -> int:
            before, self.looked_at = self.looked_at, True
            return super().joined if before else -1

    rows = [observe(blocks, 0) for blocks in seats[1:]]
    assert due([JustAdmitted(seats[0].segment), *seats[1:]], 0) == []
    rows.insert(0, observe(seats[0], 0))
    late = JustAdmitted(seats[0].segment)
    assert due([late, *seats[1:]], 0) == [(late, 0, 0), *rows[1:]]


def test_rows_of_any_seat_group_and_tick_wait(seats: list[Blocks]) -> None:
    act([observe(seats[0], 1)])
    rows = [observe(seats[0], 1), observe(seats[2], 0), observe(seats[2], 1)]
    assert [tick for _, _, tick in rows] == [1, 0, 0]
    assert waiting(seats) == rows
    act(rows)
    assert waiting(seats) == []


def test_a_batch_is_answered_when_it_is_full(seats: list[Blocks]) -> None:
    turns = Turns(2 * ENVS, DEADLINE_MS, Clock())
    assert list(turns.batches(seats)) == []
    rows = [observe(seats[1], 0)]
    assert list(turns.batches(seats)) == []
    rows.append(observe(seats[1], 1))
    assert list(turns.batches(seats)) == [rows]
    observe(seats[0], 0)
    observe(seats[2], 0)
    assert list(turns.batches(seats)) == [waiting(seats)], "three groups wait: more than a batch are answered too"


def test_rows_that_have_waited_long_enough_are_answered(seats: list[Blocks]) -> None:
    clock = Clock()
    turns = Turns(3 * ENVS, DEADLINE_MS, clock)
    assert turns.sleep_ms(50) == 50, "nothing waits"
    rows = [observe(seats[1], 0)]
    assert list(turns.batches(seats)) == []
    assert turns.sleep_ms(50) == 20 and turns.sleep_ms(5) == 5
    clock.now_s += 0.015
    rows.append(observe(seats[2], 0))
    assert list(turns.batches(seats)) == []
    assert turns.sleep_ms(50) in (5, 6), "the oldest row decides; a part of a millisecond is slept too"
    clock.now_s += 0.006
    assert turns.sleep_ms(50) == 0
    (asked,) = turns.batches(seats)
    assert asked == rows
    act(asked)
    assert turns.sleep_ms(50) == 50
    observe(seats[0], 0)
    assert list(turns.batches(seats)) == [], "the deadline counts from the new row"


def test_the_deadline_of_a_seat_that_has_gone_is_forgotten(seats: list[Blocks]) -> None:
    clock = Clock()
    turns = Turns(3 * ENVS, DEADLINE_MS, clock)
    observe(seats[0], 0)
    assert list(turns.batches(seats)) == []
    assert list(turns.batches(seats[1:])) == []
    clock.now_s += 1.0
    observe(seats[1], 0)
    assert list(turns.batches(seats[1:])) == []


def test_without_a_deadline_what_is_there_is_answered(seats: list[Blocks]) -> None:
    row = observe(seats[0], 0)
    assert list(Turns(3 * ENVS, 0.0, Clock()).batches(seats)) == [[row]]
