"""Columns of a block; whose turn it is stands in tests/processes/test_rollout_protocol.py."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from actorlearn.failpoints import Killed, armed
from actorlearn.memory.rollout import MOST_BLOCKS, Blocks, BlockShape, Rollouts, make_segment, rollouts_fields
from actorlearn.memory.shared import Segment


def blocks(path: Path, actions: int | tuple[int, ...]) -> Blocks:
    shape = BlockShape(
        groups=2,
        blocks=3,
        horizon=4,
        envs_per_group=5,
        observation_shape=(7,),
        observation_dtype="float32",
        actions=actions,
        columns={"value": ("float32", ()), "state": ("float32", (6,))},
    )
    return Blocks(make_segment(path, shape))


@pytest.mark.parametrize(
    ("actions", "dtype", "cell"), [(3, np.int64, ()), ((1,), np.float32, (1,)), ((6,), np.float32, (6,))]
)
def test_an_action_is_an_integer_or_numbers_and_poison_until_it_is_chosen(
    tmp_path: Path, actions: int | tuple[int, ...], dtype: type, cell: tuple[int, ...]
) -> None:
    made = blocks(tmp_path / "member", actions)
    row, block = made.row("action", 1, 6), made.block("action", 1, 1)
    assert (row.dtype, row.shape, block.shape) == (dtype, (5, *cell), (5, 5, *cell))
    assert np.isnan(row).all() if cell else (row == -1).all()
    row[:] = 2
    assert (block[2] == 2).all() and made.segment["action"].size == 2 * 3 * block.size


def test_columns_of_an_algorithm_lie_beside(tmp_path: Path) -> None:
    made = blocks(tmp_path / "member", 3)
    assert made.row("value", 0, 0).shape == (5,) and made.row("state", 0, 0).shape == (5, 6)


def test_every_open_rollout_says_what_was_newest_when_it_was_opened_and_where_the_run_stood(tmp_path: Path) -> None:
    rollouts = Rollouts(Segment.create(tmp_path / "rollouts", rollouts_fields()), steps=40)
    rollouts.published(0, 0, rollouts_learned=0)
    rollouts.raise_to(2)
    for learned in range(1, 200):
        rollouts.published(learned, 37 * learned, learned)  # of 40 steps 3 were void
        rollouts.raise_to(learned + 2)
        acting = [(rollouts.version(rollout), rollouts.env_steps(rollout)) for rollout in (learned, learned + 1)]
        assert acting == [(learned - 1, 37 * (learned - 1) + 40), (learned, 37 * learned + 40)]


@pytest.mark.parametrize("opened", [0, 1, 2])
def test_rollouts_that_were_open_are_told_the_same_in_the_run_that_goes_on(tmp_path: Path, opened: int) -> None:
    def made(name: str) -> Rollouts:
        return Rollouts(Segment.create(tmp_path / name, rollouts_fields()), steps=40)

    def told(rollouts: Rollouts, *of: int) -> list[tuple[int, int]]:
        return [(rollouts.version(rollout), rollouts.env_steps(rollout)) for rollout in of]

    before, after = made("before"), made("after")
    for learned in range(10):
        before.published(learned, 37 * learned, learned)
        before.raise_to(learned + opened)
    state = json.loads(json.dumps(before.state(9)))
    assert list(state["open"]) == [str(9 + n) for n in range(opened)]
    after.published(100, 0, 9)  # what it would say itself
    after.restore(state)
    for rollouts in (before, after):
        rollouts.raise_to(9 + 2)
        rollouts.raise_to(9 + 3)
    assert told(after, 9, 10, 11) == told(before, 9, 10, 11)


def test_a_run_that_goes_on_from_far_opens_its_first_rollouts_alone(tmp_path: Path) -> None:
    rollouts = Rollouts(Segment.create(tmp_path / "rollouts", rollouts_fields()), steps=10)
    rollouts.published(3, 9_000, rollouts_learned=10**9)
    rollouts.raise_to(10**9 + MOST_BLOCKS)
    assert [rollouts.env_steps(10**9 + n) for n in (0, 1, MOST_BLOCKS - 1)] == [9_000, 9_010, 9_000 + 630]


def test_a_segment_says_which_simulator_it_is_of(tmp_path: Path) -> None:
    shape = BlockShape(
        groups=1, blocks=1, horizon=1, envs_per_group=1, observation_shape=(), observation_dtype="uint8", actions=2
    )
    assert Blocks(make_segment(tmp_path / "member", shape, number=7)).number == 7


def test_snapshots_are_asked_for_by_number_and_answered_by_it(tmp_path: Path) -> None:
    rollouts = Rollouts(Segment.create(tmp_path / "rollouts", rollouts_fields()))
    member = blocks(tmp_path / "member", 3)
    assert (rollouts.hold, member.held) == (0, 0)
    assert [rollouts.ask(7), rollouts.hold, rollouts.hold_from] == [1, 1, 7]
    member.mark_held(1, taken=False)
    assert (member.held, rollouts.ask(8), rollouts.hold_from) == (-1, 2, 8)
    member.mark_held(2, taken=True)
    assert member.held == 2


def test_a_rollout_is_judged_by_the_first_version_that_is_said_whoever_asks(tmp_path: Path) -> None:
    segment = Segment.create(tmp_path / "rollouts", rollouts_fields())
    assert Rollouts(segment).judge(0, 7) == 7
    assert Rollouts(segment).judge(0, 9) == 7
    with armed("rollout.judged=raise"), pytest.raises(Killed):
        Rollouts(segment).judge(1, 9)
    assert Rollouts(segment).judge(1, 11) == 11
