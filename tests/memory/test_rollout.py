"""What a block's columns are; whose turn it is stands in tests/processes/test_rollout_protocol.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from actorlearn.memory.rollout import Blocks, BlockShape, make_segment


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
    made = blocks(tmp_path / "seat", actions)
    row, block = made.row("action", 1, 6), made.block("action", 1, 1)
    assert (row.dtype, row.shape, block.shape) == (dtype, (5, *cell), (5, 5, *cell))
    assert np.isnan(row).all() if cell else (row == -1).all()
    row[:] = 2
    assert (block[2] == 2).all() and made.segment["action"].size == 2 * 3 * block.size


def test_columns_of_an_algorithm_lie_beside(tmp_path: Path) -> None:
    made = blocks(tmp_path / "seat", 3)
    assert made.row("value", 0, 0).shape == (5,) and made.row("state", 0, 0).shape == (5, 6)
