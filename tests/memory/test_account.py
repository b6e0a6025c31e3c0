"""The account: a record is replaced whole or not at all, and outlives who writes it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from actorlearn.failpoints import Killed, armed
from actorlearn.memory.account import REASONS, Account, StepCounts, account_fields
from actorlearn.memory.shared import Segment


@pytest.fixture
def segment(tmp_path: Path) -> Segment:
    return Segment.create(tmp_path / "account", account_fields())


def commit(segment: Segment, learned: int) -> None:
    account = Account(segment)
    account.steps.used = 100 * learned
    account.steps.dropped["stale"] = learned
    account.rollouts_learned = learned
    account.commit()


def test_nothing_is_counted_at_first(segment: Segment) -> None:
    account = Account(segment)
    assert (account.commits, account.rollouts_learned, account.steps) == (0, 0, StepCounts())
    assert account.steps.dropped == dict.fromkeys(REASONS, 0)


def test_who_comes_later_goes_on_with_what_was_committed(segment: Segment) -> None:
    for learned in range(1, 4):
        commit(segment, learned)
        later = Account(segment)
        assert (later.commits, later.rollouts_learned, later.steps.used) == (learned, learned, 100 * learned)
        assert (later.steps.dropped["stale"], later.steps.dropped_steps) == (learned, learned)


def test_a_record_whose_writer_was_killed_is_as_before(segment: Segment) -> None:
    commit(segment, 1)
    with armed("record.written=raise"), pytest.raises(Killed):
        commit(segment, 2)
    assert (Account(segment).rollouts_learned, Account(segment).steps.used) == (1, 100)
    commit(segment, 3)
    assert (Account(segment).rollouts_learned, Account(segment).steps.used) == (3, 300)


def test_what_was_counted_and_not_committed_is_nobodys(segment: Segment) -> None:
    Account(segment).steps.used = 7
    assert Account(segment).steps.used == 0


def test_counts_of_a_checkpoint_have_every_reason() -> None:
    assert msgspec.convert({"used": 5, "dropped": {"stale": 2}}, StepCounts).dropped == {
        **dict.fromkeys(REASONS, 0),
        "stale": 2,
    }
    assert msgspec.convert(msgspec.to_builtins(StepCounts(used=5)), StepCounts) == StepCounts(used=5)
