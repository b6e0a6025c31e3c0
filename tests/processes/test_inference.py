"""Which rows an inference server answers together: all of a timestep, or those that wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from actorlearn.memory.rollout import Blocks
from actorlearn.processes.inference import Batching, due_rows, waiting_rows
from tests.blocks import make_members

ENVS = 4
DEADLINE_MS = 20.0


class Clock:
    """A clock that the test sets."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def members(tmp_path: Path) -> list[Blocks]:
    """Three members of two groups, taking part from rollout 0."""
    return make_members(tmp_path, 3, blocks=2, envs=ENVS, observation=1)


def observe(blocks: Blocks, group: int) -> tuple[Blocks, int, int]:
    """The next row of a group."""
    timestep = blocks.observed(group)
    blocks.mark_observed(group, timestep)
    return blocks, group, timestep


def act(asked: list[tuple[Blocks, int, int]]) -> None:
    for blocks, group, timestep in asked:
        blocks.mark_acted(group, timestep, 0)


def test_the_rows_of_all_members_at_a_timestep_are_awaited(members: list[Blocks]) -> None:
    rows = [observe(blocks, 0) for blocks in members[:2]]
    assert due_rows(members, 0) == []
    assert list(Batching(0, 0.0).batches(members)) == []
    rows.append(observe(members[2], 0))
    assert due_rows(members, 0) == rows
    assert list(Batching(0, 0.0).batches(members)) == [rows]


def test_members_that_are_admitted_while_they_are_read_are_answered_together(members: list[Blocks]) -> None:
    """Found by tests/interleavings: one member was read before its admission, the others after they had begun."""

    class JustAdmitted(Blocks):
        looked_at = False

        @property
        def joined(self) -> int:
            before, self.looked_at = self.looked_at, True
            return super().joined if before else -1

    rows = [observe(blocks, 0) for blocks in members[1:]]
    assert due_rows([JustAdmitted(members[0].segment), *members[1:]], 0) == []
    rows.insert(0, observe(members[0], 0))
    late = JustAdmitted(members[0].segment)
    assert due_rows([late, *members[1:]], 0) == [(late, 0, 0), *rows[1:]]


def test_waiting_rows_may_be_of_any_member_group_and_timestep(members: list[Blocks]) -> None:
    act([observe(members[0], 1)])
    rows = [observe(members[0], 1), observe(members[2], 0), observe(members[2], 1)]
    assert [timestep for _, _, timestep in rows] == [1, 0, 0]
    assert waiting_rows(members) == rows
    act(rows)
    assert waiting_rows(members) == []


def test_a_batch_is_answered_when_it_is_full(members: list[Blocks]) -> None:
    turns = Batching(2 * ENVS, DEADLINE_MS, Clock())
    assert list(turns.batches(members)) == []
    rows = [observe(members[1], 0)]
    assert list(turns.batches(members)) == []
    rows.append(observe(members[1], 1))
    assert list(turns.batches(members)) == [rows]
    observe(members[0], 0)
    observe(members[2], 0)
    assert list(turns.batches(members)) == [waiting_rows(members)], (
        "three groups wait: more than a batch are answered too"
    )


def test_rows_are_answered_when_the_oldest_has_waited_until_the_deadline(members: list[Blocks]) -> None:
    clock = Clock()
    turns = Batching(3 * ENVS, DEADLINE_MS, clock)
    assert turns.sleep_ms(50) == 50, "nothing waits"
    rows = [observe(members[1], 0)]
    assert list(turns.batches(members)) == []
    assert turns.sleep_ms(50) == 20 and turns.sleep_ms(5) == 5
    clock.now_s += 0.015
    rows.append(observe(members[2], 0))
    assert list(turns.batches(members)) == []
    assert turns.sleep_ms(50) in (5, 6), "the oldest row decides; a part of a millisecond is slept too"
    clock.now_s += 0.006
    assert turns.sleep_ms(50) == 0
    (asked,) = turns.batches(members)
    assert asked == rows
    act(asked)
    assert turns.sleep_ms(50) == 50
    observe(members[0], 0)
    assert list(turns.batches(members)) == [], "the deadline counts from the new row"


def test_the_deadline_of_a_member_that_has_gone_is_forgotten(members: list[Blocks]) -> None:
    clock = Clock()
    turns = Batching(3 * ENVS, DEADLINE_MS, clock)
    observe(members[0], 0)
    assert list(turns.batches(members)) == []
    assert list(turns.batches(members[1:])) == []
    clock.now_s += 1.0
    observe(members[1], 0)
    assert list(turns.batches(members[1:])) == []


def test_without_a_deadline_waiting_rows_are_answered_at_once(members: list[Blocks]) -> None:
    row = observe(members[0], 0)
    assert list(Batching(3 * ENVS, 0.0, Clock()).batches(members)) == [[row]]
