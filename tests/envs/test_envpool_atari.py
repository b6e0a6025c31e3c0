"""EnvPool's Atari games have the rows of ale-py's, and keys that EnvPool does not support are refused."""

from __future__ import annotations

from importlib.util import find_spec

import msgspec
import numpy as np
import pytest

if find_spec("envpool") is None:
    pytest.skip("envpool is not installed: pip install 'actorlearn[envpool]'", allow_module_level=True)

from actorlearn.envs import atari
from actorlearn.envs.envpool_env import known
from actorlearn.envs.interface import EnvSpec, empty_row
from actorlearn.envs.make import make, make_rendered, spec
from actorlearn.envs.specs import AtariSettings, EnvPoolAtariSettings, EnvSettings
from actorlearn.testing.environment import column, play, random_actions
from tests.envs.playing import opened


def ours(game: str, **keys: object) -> EnvPoolAtariSettings:
    return msgspec.convert({"kind": "envpool-atari", "id": f"envpool:ALE/{game}-v5", **keys}, EnvPoolAtariSettings)


def test_games_of_envpool_have_the_specs_of_ale_pys() -> None:
    theirs = AtariSettings(id="ALE/Breakout-v5", preset="stooke-abbeel", stack=2)
    assert spec(ours("Breakout", preset="stooke-abbeel", stack=2)) == spec(theirs)
    assert isinstance(spec(theirs), EnvSpec)


@pytest.mark.parametrize(
    ("game", "keys", "steps"),
    [
        ("Breakout", {"preset": "dqn"}, 260),  # beyond the end of a game
        ("Pong", {"preset": "paac", "frame_skip": 3, "stack": 2, "time_limit_steps": 40}, 90),
        ("MsPacman", {"preset": "stooke-abbeel", "stack": 1}, 60),
        ("Pong", {"preset": "pong"}, 60),
        ("SpaceInvaders", {"frame_skip": 1}, 60),
    ],
)
def test_rows_equal_those_of_ale_py_bit_by_bit(game: str, keys: dict[str, object], steps: int) -> None:
    """With ``noop_max`` 1, EnvPool plays one no-op and ale-py one or none, so only about half of its games agree."""
    theirs = msgspec.convert({"kind": "atari", "id": f"ALE/{game}-v5", "noop_max": 1, **keys}, AtariSettings)
    with opened(ours(game, noop_max=1, **keys), [3]) as env, opened(theirs, range(8)) as others:
        actions = random_actions(env.spec, 1, steps)
        rows, compared = play(env, actions), play(others, np.repeat(actions, 8, axis=1))
    last = column(rows, "terminated") | column(
        rows, "truncated"
    )  # the newest frame of a last row may be an earlier one
    end = int(np.argmax(last)) if last.any() else len(rows)
    first_games = [column(each, "observation")[:end] for each in (rows, compared)]
    same = (first_games[0] == first_games[1]).all(axis=(0, 2, 3, 4))
    assert 0 < same.sum() < 8
    for name in ("reward", "terminated", "truncated", "life_lost", "first"):
        mine, other = (column(each, name)[: end + 1] for each in (rows, compared))
        np.testing.assert_array_equal(other[:, same], np.repeat(mine, same.sum(), axis=1), err_msg=name)
    assert game != "Breakout" or column(rows, "reward").any()


@pytest.mark.nightly
@pytest.mark.parametrize("game", ["Breakout", "Pong", "MsPacman"])
def test_random_games_have_the_lengths_scores_and_screens_of_ale_pys(game: str) -> None:
    """Both emulators draw their own no-ops and the policy is one, so the games are samples of one distribution."""
    theirs = msgspec.convert({"kind": "atari", "id": f"ALE/{game}-v5", "time_limit_steps": 300}, AtariSettings)
    samples = [Games(settings, games=48) for settings in (theirs, ours(game, time_limit_steps=300))]
    for name in ("score", "length", "lost"):
        a, b = (getattr(sample, name) for sample in samples)
        assert differ(a, b) > 0.001, f"{name}: {a.mean():.2f} and {b.mean():.2f}"
    for name, tolerance in (("mean", 2.0), ("deviation", 3.0)):  # of 255
        a, b = (getattr(sample, name) for sample in samples)
        assert np.abs(a - b).max() < tolerance, name


class Games:
    """Games of a random policy: score, length and lost lives of each, and each region's mean and deviation."""

    def __init__(self, settings: EnvSettings, games: int) -> None:
        with opened(settings, range(16)) as env:
            row, random = empty_row(env.spec, 16), np.random.default_rng(7)
            env.reset(row)
            playing = np.zeros((3, 16))  # score, length, lost lives of the running games
            over: list[np.ndarray] = []
            regions = []
            while len(over) < games:
                env.step(env.random_actions(random), row)
                playing += row.reward, ~row.first, row.life_lost
                ended = row.terminated | row.truncated
                over += [*playing.T[ended]]
                playing[:, ended] = 0
                regions.append(row.observation[:, -1].reshape(16, 7, 12, 7, 12).mean(axis=(2, 4)))
        self.score, self.length, self.lost = np.array(over).T
        seen = np.concatenate(regions)
        self.mean, self.deviation = seen.mean(axis=0), seen.std(axis=0)


def differ(a: np.ndarray, b: np.ndarray, shuffles: int = 2000) -> float:
    """Return the p-value of a permutation test for different means."""
    random, both = np.random.default_rng(1), np.concatenate([a, b])
    found = abs(a.mean() - b.mean())
    shuffled = (random.permutation(both) for _ in range(shuffles))
    return float(np.mean([abs(each[: len(a)].mean() - each[len(a) :].mean()) >= found for each in shuffled]))


def test_a_game_begins_with_black_frames_as_ale_pys_does() -> None:
    """The frames before the game are black, as in ale-py."""
    with opened(ours("Pong", noop_max=1), [3]) as env:
        rows = play(env, np.zeros((3, 1), np.int64))
    for steps, row in enumerate(rows):
        black = [not frame.any() for frame in row.observation[0]]
        assert black == [steps < 3, steps < 2, steps < 1, False]


def test_games_that_end_in_the_step_of_the_limit_are_terminated() -> None:
    """EnvPool says that they are truncated, so the emulator is asked."""
    with opened(ours("Breakout", noop_max=1), [3]) as env:
        actions = random_actions(env.spec, 1, 400)
        length = int(np.flatnonzero(column(play(env, actions), "terminated")[:, 0])[0])
    for limit, over in ((length, True), (length - 1, False)):
        with opened(ours("Breakout", noop_max=1, time_limit_steps=limit), [3]) as env:
            last = play(env, actions[:limit])[-1]
        assert (bool(last.terminated[0]), bool(last.truncated[0])) == (over, not over)


def test_a_lost_life_is_reported_and_does_not_end_the_game() -> None:
    with opened(ours("Breakout"), [3, 4]) as env:
        rows = play(env, random_actions(env.spec, 2, 600))
    lost, over = column(rows, "life_lost"), column(rows, "terminated")
    assert over.any()
    for i in range(2):
        ends = np.flatnonzero(over[:, i])
        assert lost[: ends[0], i].sum() == 4, "five lives, of which the last is the game's end"


@pytest.mark.parametrize(
    ("env_id", "says"),
    [
        ("envpool:ALE/Pnog-v5", "did you mean 'envpool:ALE/Pong-v5'"),
        ("envpool:ALE/HalfCheetah-v4", "did you mean 'envpool:HalfCheetah-v4'"),
    ],
)
def test_an_unknown_id_is_refused_with_the_nearest_one(env_id: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        spec(EnvPoolAtariSettings(id=env_id))


@pytest.mark.parametrize("wrong", [{"preset": "ba3c"}, {"noop_max": 0}])
def test_keys_that_envpool_does_not_support_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        ours("Pong", **wrong)
    with pytest.raises(ValueError, match="at least one no-op"):
        ours("Pong").for_evaluation(0)


@pytest.mark.parametrize(
    ("settings", "why"),
    [(ours("Pong", repeat_action_probability=0.25), "sticky"), (ours("Seaquest"), "depends on the games before")],
)
def test_games_that_depend_on_earlier_games_cannot_be_saved(settings: EnvPoolAtariSettings, why: str) -> None:
    with opened(settings, [1]) as env:
        assert why in env.spec.inexact
        env.reset(empty_row(env.spec, 1))
        with pytest.raises(RuntimeError, match=why):
            env.state()


def test_envpool_has_all_games_for_one_player() -> None:
    lacking = []
    for env_id in atari.ids():
        try:
            known(f"envpool:{env_id.replace('3D', '3d')}")
        except ValueError:
            lacking.append(atari.rom(env_id))
    assert lacking == ["combat", "joust", "maze_craze", "warlords"]
    assert spec(ours("TicTacToe3D")).observation_shape == (4, 84, 84)


def test_rendered_screens_are_in_colour() -> None:
    settings = ours("Pong", noop_max=1)
    env = make_rendered(settings, [3, 4])
    try:
        plain = make(settings, [3, 4])
        rows = [empty_row(env.spec, 2) for _ in range(2)]
        env.reset(rows[0])
        plain.reset(rows[1])
        np.testing.assert_array_equal(rows[0].observation, rows[1].observation)
        pictures = env.render()
        assert [picture.shape for picture in pictures] == [(210, 160, 3)] * 2
        assert all(picture.dtype == np.uint8 and picture.any() for picture in pictures)
        plain.close()
    finally:
        env.close()
