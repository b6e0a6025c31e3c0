"""Catch, the project's own small game."""

from __future__ import annotations

import numpy as np
from gymnasium.utils.env_checker import check_env

from actorlearn.envs.catch import Catch
from actorlearn.testing.environment import column, play, poisoned_row
from tests import named
from tests.envs.playing import opened

SETTINGS = named.env(id="actorlearn.envs.catch:Catch")


def test_gymnasiums_checker_accepts_catch() -> None:
    check_env(Catch(), skip_render_check=True)


def test_every_ball_can_be_caught() -> None:
    with opened(SETTINGS, range(40)) as env:
        row = poisoned_row(env.spec, env.count)
        env.reset(row)
        columns = set()
        for moment in range(9):
            assert not row.terminated.any()
            ball = row.observation[:, 0, moment].argmax(axis=1)
            paddle = row.observation[:, 0, -1].astype(np.int64) @ np.arange(10) / row.observation[:, 0, -1].sum(axis=1)
            columns |= set(ball.tolist())
            env.step((np.sign(ball - np.rint(paddle)) + 1).astype(np.int64), row)
        assert row.terminated.all()
        np.testing.assert_array_equal(row.reward, 1.0)
    assert columns == set(range(10))


def test_standing_still_catches_28_in_100() -> None:
    with opened(SETTINGS, [0]) as env:
        rows = play(env, np.ones((10_000, 1), np.int64))
    reward = column(rows, "reward")[column(rows, "terminated")]
    assert len(reward) == 1000
    assert abs(reward.mean() - (0.28 - 0.72)) < 0.06


def test_a_game_lasts_nine_steps_and_shows_ball_and_paddle() -> None:
    with opened(SETTINGS, [2]) as env:
        rows = play(env, np.ones((20, 1), np.int64))
    assert np.flatnonzero(column(rows, "terminated")[:, 0]).tolist() == [9, 19]
    np.testing.assert_array_equal(np.unique(rows[0].observation), [0, 255])
    assert (rows[0].observation > 0).sum() == 1 + 3
