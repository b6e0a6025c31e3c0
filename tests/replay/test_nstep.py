"""n-step returns against literal numbers; against whole games they are compared in test_buffer.py."""

from __future__ import annotations

import numpy as np
import pytest

from actorlearn.algorithms.settings import OffPolicySettings
from actorlearn.replay.nstep import Returns, n_step


def returns(settings: OffPolicySettings, reward: list[float], **over: list[bool]) -> Returns:
    columns = {name: np.array([over.get(name, [False] * len(reward))]) for name in FLAGS}
    return n_step(settings, np.array([reward], np.float32), columns)


FLAGS = ("terminated", "truncated", "life_lost")
THREE = OffPolicySettings(n_step=3, discount=0.5, reward_clip=None)


@pytest.mark.parametrize(
    ("over", "changes", "expected"),
    [
        ({}, {}, (1 + 2 + 4, 0.125, 3)),
        ({"terminated": [False, True, False]}, {}, (1 + 2, 0.0, 2)),
        ({"truncated": [False, True, False]}, {}, (1 + 2, 0.0, 2)),
        ({"truncated": [False, True, False]}, {"bootstrap_on_truncation": True}, (1 + 2, 0.25, 2)),
        ({"life_lost": [True, False, False]}, {}, (1 + 2 + 4, 0.125, 3)),
        ({"life_lost": [True, False, False]}, {"life_loss_terminal": True}, (1, 0.0, 1)),
        ({"terminated": [True, False, False]}, {"bootstrap_on_truncation": True}, (1, 0.0, 1)),
        ({}, {"reward_clip": 2.0}, (1 + 1 + 0.5, 0.125, 3)),
    ],
)
def test_three_steps(over: dict[str, list[bool]], changes: dict[str, object], expected: tuple[float, ...]) -> None:
    settings = OffPolicySettings(**{"n_step": 3, "discount": 0.5, "reward_clip": None, **changes})
    got = returns(settings, [1.0, 4.0, 16.0], **over)
    assert (got.reward[0], got.discount[0], got.steps[0]) == expected


def test_poison_behind_the_end_is_not_looked_at() -> None:
    got = returns(
        THREE, [1.0, float("nan"), float("nan")], terminated=[True, True, True], truncated=[False, True, True]
    )
    assert (got.reward[0], got.discount[0], got.steps[0]) == (1.0, 0.0, 1)
