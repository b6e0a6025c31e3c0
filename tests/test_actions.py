"""Actions in the words that environments, blocks and policies share."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from actorlearn.actions import Actions, MultiDiscrete, cell, describe_actions, draw

ALL = {5: ("int64", ()), (3,): ("float32", (3,)), MultiDiscrete((3, 2)): ("int64", (2,))}


@pytest.mark.parametrize("actions", ALL)
def test_drawn_actions_fit_their_cells_and_are_drawn_by_the_generator(actions: Actions) -> None:
    assert cell(actions) == ALL[actions]
    found, again = (draw(actions, (200, 4), np.random.default_rng(1)) for _ in range(2))
    np.testing.assert_array_equal(found, again)
    assert found.dtype == cell(actions)[0] and found.shape == (200, 4, *cell(actions)[1])
    assert found.min() >= 0
    if not isinstance(actions, tuple):
        sizes = actions.sizes if isinstance(actions, MultiDiscrete) else (actions,)
        assert found.reshape(800, -1).max(0).tolist() == [size - 1 for size in sizes]


@pytest.mark.parametrize("actions", ALL)
def test_actions_travel_as_json_and_are_told_in_words(actions: Actions) -> None:
    assert msgspec.json.decode(msgspec.json.encode(actions), type=Actions) == actions
    assert any(str(size) in describe_actions(actions) for size in (5, [3], [3, 2]))
