"""Messages of rollouts: what is added is what is read, in the layout of float32 numbers that mailboxes carry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from actorlearn.memory.rollout import BlockShape
from actorlearn.memory.shared_rollout import SharedRollout, message_fields, message_size
from tests.blocks import block_shape

T = 3
SHAPES = {
    "discrete": block_shape(horizon=T, envs_per_group=2, columns={"log_prob": ("float32", ())}),
    "recurrent": block_shape(horizon=T, envs_per_group=2, state_size=5),
    "box": block_shape(horizon=T, envs_per_group=2, actions=(2,), columns={"log_prob": ("float32", ())}),
    "images": block_shape(horizon=T, envs_per_group=2, observation_shape=(1, 3, 3), observation_dtype="uint8"),
}


def drawn(shape: BlockShape, environments: int, seed: int) -> dict[str, NDArray[Any]]:
    """Rows of so many environments: any numbers of each column's kind."""
    generator, rows = np.random.default_rng(seed), {}
    for field in message_fields(shape, environments)[1:]:
        count = T + 1
        rows[field.name] = generator.integers(0, 2, (count, environments, *field.shape[2:])).astype(field.dtype)
    return rows


@pytest.mark.parametrize("kind", SHAPES)
@given(counts=st.lists(st.integers(1, 3), max_size=3), seed=st.integers(0, 99))
def test_rows_are_read_as_they_were_added_one_part_behind_the_other(kind: str, counts: list[int], seed: int) -> None:
    fields = message_fields(SHAPES[kind], 9)
    message, parts = SharedRollout(fields), [drawn(SHAPES[kind], count, seed + at) for at, count in enumerate(counts)]
    for part in parts:
        message.add(part)
    read = SharedRollout(fields)
    read.numbers[:] = message.numbers  # what a mailbox does
    assert read.usable == bool(counts)
    for name, column in read.rows.items():
        rows = 1 if name == "state" else T + 1
        expected = [part[name][:rows] for part in parts]
        assert column.shape[:2] == (rows, sum(counts))
        assert np.array_equal(column, np.concatenate(expected, 1) if parts else column)


def test_a_message_is_whole_float32_numbers_of_the_environments_it_has_room_for() -> None:
    one, ten = (message_size(message_fields(SHAPES["images"], environments)) for environments in (1, 10))
    assert isinstance(one, int) and ten > one
    assert SharedRollout(message_fields(SHAPES["images"], 10)).numbers.shape == (ten,)


@pytest.mark.parametrize(
    ("column", "row", "usable"),
    [
        ("log_prob", 0, False),
        ("log_prob", T, True),  # not chosen yet
        ("action", T, True),
        ("action", T - 1, False),
        ("reward", 0, True),  # of the rollout before
        ("reward", T, False),
        ("observation", 1, True),  # void rows have any
    ],
)
def test_numbers_that_are_read_must_be_finite(column: str, row: int, usable: bool) -> None:
    rows = drawn(SHAPES["box"], 2, 0)
    rows[column][row, 1] = np.nan
    message = SharedRollout(message_fields(SHAPES["box"], 2))
    message.add(rows)
    assert message.usable == usable
