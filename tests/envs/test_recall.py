"""Recall, the project's own memory task."""

from __future__ import annotations

import numpy as np
from gymnasium.utils.env_checker import check_env

from actorlearn.envs.recall import LENGTH, Recall
from actorlearn.testing.environment import column, play
from tests import named
from tests.envs.playing import opened

SETTINGS = named.env(id="actorlearn.envs.recall:Recall")


def test_gymnasiums_checker_accepts_recall() -> None:
    check_env(Recall(), skip_render_check=True)


def test_only_the_first_row_tells_the_cue_and_only_the_last_action_is_judged() -> None:
    actions = np.random.default_rng(0).integers(2, size=(400 * (LENGTH + 1) - 1, 1))
    with opened(SETTINGS, [0]) as env:
        rows = play(env, actions)
    seen = column(rows, "observation").reshape(400, LENGTH + 1, 2)
    reward = column(rows, "reward").reshape(400, LENGTH + 1)
    cue = seen[:, 0, 0]
    assert set(cue) == {-1.0, 1.0}
    np.testing.assert_array_equal(seen[:, 1:], np.broadcast_to(seen[0, 1:], (400, LENGTH, 2)))
    assert seen[0, :, 1].tolist() == [0.0] * (LENGTH - 1) + [1.0, 0.0]
    given = 2 * actions[LENGTH - 1 :: LENGTH + 1, 0] - 1
    np.testing.assert_array_equal(reward[:, LENGTH], np.where(given == cue, 1.0, -1.0))
    assert not reward[:, :LENGTH].any()
    assert column(rows, "terminated").reshape(400, LENGTH + 1)[:, LENGTH].all()
