"""ale-py's vector environment equals a slow game played frame by frame; its lives, limits, seeds and ids."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import get_args

import gymnasium
import msgspec
import numpy as np
import pytest
from ale_py import roms

from actorlearn.envs import atari, history
from actorlearn.envs.interface import Row
from actorlearn.envs.make import make, make_rendered, spec
from actorlearn.envs.specs import AtariSettings
from actorlearn.testing.environment import assert_same, column, play, poisoned_row, random_actions
from tests import named
from tests.envs.playing import opened
from tests.envs.slow_game import SIZES, SlowGame, area_weights


def assert_rows_equal(fast: list[Row], slow: list[dict[str, object]], environment: int) -> None:
    for moment, (row, expected) in enumerate(zip(fast, slow, strict=True)):
        for name, value in expected.items():
            found = getattr(row, name)[environment]
            if name == "observation":  # area means are rounded
                difference = np.abs(found - value).max()
                assert difference <= 0.51, f"row {moment}: pixels differ by {difference}"
            else:
                assert found == value, f"row {moment}: {name} is {found}, not {value}"


@pytest.mark.parametrize(
    ("game", "preset", "frame_skip", "limit", "steps"),
    [
        ("ALE/Breakout-v5", "dqn", 4, 0, 260),  # beyond the end of a game
        ("ALE/Breakout-v5", "stooke-abbeel", 4, 50, 80),
        ("ALE/MsPacman-v5", "dqn", 4, 100, 140),
        ("ALE/Pong-v5", "paac", 4, 0, 100),
        ("ALE/Pong-v5", "stooke-abbeel", 2, 60, 80),
        ("ALE/Pong-v5", "small", 4, 0, 100),
        ("ALE/Pong-v5", "pong", 4, 0, 100),
        ("ALE/Freeway-v5", "dqn", 1, 0, 60),
        ("ALE/Breakout-v5", "ba3c", 3, 50, 80),  # without a maximum of two frames
    ],
)
def test_rows_equal_those_of_a_slow_game(game: str, preset: str, frame_skip: int, limit: int, steps: int) -> None:
    settings = named.env(id=game, preset=preset, frame_skip=frame_skip, time_limit_steps=limit, noop_max=0)
    with opened(settings, [1]) as env:
        actions = random_actions(env.spec, 1, steps)
        fast = play(env, actions)
        channels = 12 if preset == "ba3c" else 4
        assert env.spec.observation_shape == (channels, len(SIZES[preset][2]), SIZES[preset][1])
    slow = SlowGame(settings, 1)
    assert_rows_equal(fast, [slow.reset(), *map(slow.step, actions[:, 0])], 0)
    assert column(fast, "truncated").any() == bool(limit)
    assert column(fast, "terminated").any() == (steps == 260)
    if game == "ALE/MsPacman-v5":
        assert column(fast, "reward").max() >= 10, "rewards must be raw"


@pytest.mark.parametrize(
    "settings",
    [
        named.env(id="ALE/Breakout-v5", repeat_action_probability=0.25, time_limit_steps=25),
        named.env(id="ALE/Pong-v5", preset="ba3c", frame_skip=3),
    ],
    ids=lambda settings: settings.preset,
)
def test_rendered_games_are_the_same_games(settings: AtariSettings) -> None:
    with opened(settings, [3, 4]) as plain, closing(make_rendered(settings, [3, 4])) as shown:
        actions = random_actions(plain.spec, 2, 60)
        assert_same(play(shown, actions), play(plain, actions))


def test_a_rendered_picture_is_the_whole_screen_in_colour() -> None:
    settings = named.env(id="ALE/Pong-v5", frame_skip=1, noop_max=0)
    slow = SlowGame(settings, 1)
    slow.reset()
    with closing(make_rendered(settings, [1])) as shown:
        play(shown, np.full((70, 1), 2))
        for _ in range(70):
            slow.step(2)
        np.testing.assert_array_equal(shown.render()[0], slow.ale.getScreenRGB())


def test_half_size_is_the_mean_of_two_by_two_without_the_last_two_lines() -> None:
    lines = area_weights(210, 105)[:104]
    np.testing.assert_allclose(lines[:, :208].reshape(104, 104, 2), np.eye(104)[:, :, None].repeat(2, 2) / 2)
    assert not lines[:, 208:].any()


def test_a_lost_life_is_not_the_end_of_the_game() -> None:
    with opened(named.env(id="ALE/Breakout-v5"), [3, 4]) as env:
        rows = play(env, random_actions(env.spec, 2, 420))
    for life_lost, terminated, first in zip(
        *(column(rows, name).T for name in ("life_lost", "terminated", "first")), strict=True
    ):
        ends = np.flatnonzero(terminated)
        assert len(ends) >= 1
        games = np.split(life_lost, ends + 1)[:-1]
        assert [int(game.sum()) for game in games] == [4] * len(games), "Breakout has five lives"
        assert first[ends[ends + 1 < len(first)] + 1].all()


def test_games_without_lives_lose_none() -> None:
    with opened(named.env(id="ALE/Pong-v5"), [0]) as env:
        assert not column(play(env, random_actions(env.spec, 1, 60)), "life_lost").any()


def test_a_limit_in_the_step_that_loses_a_life_is_a_truncation() -> None:
    free = named.env(id="ALE/Breakout-v5", noop_max=0)
    with opened(free, [3]) as env:
        actions = random_actions(env.spec, 1, 60)
        lost = int(np.argmax(column(play(env, actions), "life_lost")[:, 0]))
    assert lost > 0
    with opened(named.env(id="ALE/Breakout-v5", noop_max=0, time_limit_steps=lost), [3]) as env:
        rows = play(env, actions[: lost + 1])
    assert rows[lost].truncated[0] and not rows[lost].terminated[0] and not rows[lost].life_lost[0]
    assert rows[lost + 1].first[0]


@pytest.mark.parametrize("noop_max", [0, 30])
def test_the_limit_counts_steps_and_not_no_ops(noop_max: int) -> None:
    with opened(named.env(id="ALE/Pong-v5", noop_max=noop_max, time_limit_steps=10), [0, 5]) as env:
        rows = play(env, random_actions(env.spec, 2, 21))
    expected = np.zeros((22, 2), np.bool_)
    expected[[10, 21]] = True
    np.testing.assert_array_equal(column(rows, "truncated"), expected)
    assert not column(rows, "terminated").any()


def test_limit_zero_is_no_limit_and_a_huge_one_does_not_overflow() -> None:
    for limit in (0, 10**9):
        with opened(named.env(id="ALE/Pong-v5", time_limit_steps=limit), [0]) as env:
            assert not column(play(env, random_actions(env.spec, 1, 20)), "truncated").any()


@pytest.mark.nightly
def test_no_ops_are_drawn_from_zero_to_noop_max() -> None:
    settings = named.env(id="ALE/Pong-v5", noop_max=2, stack=1)
    seeds = list(range(8))
    with opened(settings, seeds) as env:
        actions = np.repeat(random_actions(env.spec, 1, 12), len(seeds), axis=1)
        observation = column(play(env, actions), "observation")
    seen = set()
    for noops in range(4):  # 3 would be one too many
        slow = SlowGame(settings, 0, noops)
        expected = np.stack([row["observation"] for row in [slow.reset(), *map(slow.step, actions[:, 0])]])
        seen |= {noops for i in range(len(seeds)) if np.abs(observation[:, i] - expected).max() <= 0.51}
    assert seen == {0, 1, 2}


def test_fire_on_reset_starts_the_ball() -> None:
    noop = np.zeros((40, 1), np.int64)
    different = {}
    for fire in (False, True):
        with opened(named.env(id="ALE/Breakout-v5", fire_on_reset=fire, noop_max=0), [0]) as env:
            rows = play(env, noop)
        moving = (column(rows, "observation")[10:, 0, -1].std(axis=0) > 0).any()
        different[fire] = moving, column(rows, "life_lost").any()
    assert different == {False: (False, False), True: (True, True)}


def test_sticky_actions_follow_the_seed() -> None:
    settings = named.env(id="ALE/Pong-v5", repeat_action_probability=0.5, noop_max=0)
    plays = {}
    for name, seeds in (("a", [1, 2]), ("b", [1, 2])):
        with opened(settings, seeds) as env:
            plays[name] = column(play(env, np.tile([[2], [3]], (20, 2))), "observation")
    np.testing.assert_array_equal(plays["a"], plays["b"])
    assert (plays["a"][:, 0] != plays["a"][:, 1]).any()


def test_the_full_action_space_has_18_actions() -> None:
    assert spec(named.env(id="ALE/Pong-v5")).actions == 6
    with opened(named.env(id="ALE/Pong-v5", full_action_space=True), [0]) as env:
        assert env.spec.actions == 18
        play(env, np.array([[17]]))


def test_ids_are_those_that_ale_py_registers() -> None:
    registered = {
        name: registration.kwargs["game"]
        for name, registration in gymnasium.registry.items()
        if name.startswith("ALE/") and name.endswith("-v5")
    }
    assert len(registered) > 50
    assert registered.items() <= atari.ids().items()
    assert atari.rom("ALE/MsPacman-v5") == "ms_pacman"
    assert atari.rom("ALE/Pong-v5") == "pong"


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [
        ("ALE/Pnog-v5", "ALE/Pong-v5"),
        ("ALE/Pong", "ALE/Pong-v5"),
        ("ALE/Pong-v4", "ALE/Pong-v5"),
        ("ALE/ms_pacman", "ALE/MsPacman-v5"),
        ("ALE/breakout-v5", "ALE/Breakout-v5"),
        ("BreakoutNoFrameskip-v4", "ALE/Breakout-v5"),
    ],
)
@pytest.mark.parametrize("ask", [spec, lambda settings: make(settings, [0])])
def test_an_unknown_game_is_refused_with_the_nearest_one(ask, wrong: str, nearest: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean '{nearest}'") as caught:
        ask(named.env(id=wrong))
    assert wrong in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("exists", [False, True])
def test_a_missing_rom_file_is_refused_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, exists: bool
) -> None:
    monkeypatch.setenv("ALE_ROMS_DIR", str(tmp_path if exists else tmp_path / "missing"))
    with pytest.raises(ValueError, match=r"^env.id: the ROM file of 'tetris' cannot be read: .*; unset ALE_ROMS_DIR"):
        spec(named.env(id="ALE/Tetris-v5"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("preset", "dqm"),
        ("frame_skip", 0),
        ("stack", 0),
        ("noop_max", -1),
        ("time_limit_steps", -1),
        ("repeat_action_probability", 1.0),
    ],
)
def test_invalid_keys_of_an_atari_game_are_refused(key: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"at `\$\.{key}`"):
        named.env(id="ALE/Pong-v5", **{key: value})


def test_the_key_preset_allows_all_presets() -> None:
    field = next(field for field in msgspec.structs.fields(AtariSettings) if field.name == "preset")
    assert set(get_args(get_args(field.type)[0])) == set(atari.PRESETS)


def test_every_preset_is_in_the_table() -> None:
    assert atari.__doc__ is not None
    for name, preset in atari.PRESETS.items():
        assert f"| {name} " in atari.__doc__
        lines = range(preset.render_height)[preset.lines]
        assert (preset.render_height, preset.render_width, lines) == SIZES[name]


def test_the_preset_of_pong_shows_the_field_alone() -> None:
    with opened(named.env(id="ALE/Pong-v5", preset="pong", stack=1), [1]) as env:
        rows = play(env, random_actions(env.spec, 1, 400))
    newest = np.stack([row.observation[0, -1] for row in rows])
    assert newest[:, [0, -1], 20:24].max() < 150, "a wall is 236, the empty field 87, and a line half of both"


def test_close_ends_the_thread_of_ale() -> None:
    before = len(os.listdir("/proc/self/task"))
    env = make(named.env(id="ALE/Pong-v5"), [0, 1])
    assert len(os.listdir("/proc/self/task")) == before + 1
    env.close()
    assert len(os.listdir("/proc/self/task")) == before


@pytest.mark.nightly
@pytest.mark.parametrize("keeps", ["sticky", "memory"])
def test_games_that_depend_on_earlier_games_continue_exactly_through_new_seeds(
    keeps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New games begin by resets within steps, and by restarts."""
    monkeypatch.setattr(history, "RESEED_STEPS", 20)
    sticky = named.env(id="ALE/Pong-v5", time_limit_steps=9, repeat_action_probability=0.25, stack=1)
    settings = sticky if keeps == "sticky" else named.env(id="ALE/Seaquest-v5", time_limit_steps=9, stack=1)
    with opened(settings, [3, 4]) as env, opened(settings, [5, 6]) as other:
        rows = play(env, random_actions(env.spec, 2, 33))
        state = env.state()
        assert state["seedings"].tolist() == [1, 1]
        env.restart(np.array([True, False]), rows[-1])
        state = env.state()
        other.restore(state)
        on = []
        for each in (env, other):
            rows = []
            for t, action in enumerate(random_actions(env.spec, 2, 45, seed=1)):
                rows.append(poisoned_row(env.spec, 2))
                each.step(action, rows[-1])
                if t == 30:
                    each.restart(np.array([True, True]), rows[-1])
            on.append(rows)
        assert_same(*on)
        assert env.state()["seedings"].min() >= 3


@pytest.mark.nightly
def test_a_replay_that_does_not_reach_the_saved_state_is_refused() -> None:
    with opened(named.env(id="ALE/Pong-v5", stack=1), [3, 4]) as env:
        play(env, random_actions(env.spec, 2, 30))
        state = env.state()
        for name, says in (("shown", "shown is .* and was"), ("lives", "lives is 0, and was 1"), ("frames", "frames")):
            changed = {**state, name: state[name] + np.array([0, 1], state[name].dtype)}
            with pytest.raises(
                ValueError, match=f"environment 1 of 'ALE/Pong-v5' does not reach the saved state: {says}"
            ):
                env.restore(changed)
        fire = {**state, "log": np.full_like(state["log"], 2)}
        with pytest.raises(ValueError, match="does not reach the saved state: shown"):
            env.restore(fire)


def test_a_reset_after_a_refused_state_uses_the_environments_own_seeds() -> None:
    settings = named.env(id="ALE/Pong-v5", stack=1, repeat_action_probability=0.25)
    with opened(settings, [1]) as saved, opened(settings, [7]) as env, opened(settings, [7]) as fresh:
        actions = random_actions(env.spec, 1, 60)
        play(saved, actions)
        state = saved.state()
        with pytest.raises(ValueError, match="does not reach the saved state: frames"):
            env.restore({**state, "frames": state["frames"] + 1})
        assert_same(play(env, actions), play(fresh, actions))


def test_replaying_a_saved_state_sends_heartbeats() -> None:
    beats: list[int] = []
    with opened(named.env(id="ALE/Pong-v5", stack=1), [3]) as env:
        play(env, random_actions(env.spec, 1, 30))
        other = make(named.env(id="ALE/Pong-v5", stack=1), [4], lambda: beats.append(1))
        other.restore(env.state())
        other.close()
    assert len(beats) > 30


PLAYS = """
import sys
import numpy as np
from ale_py import ALEInterface, LoggerMode, roms

ALEInterface.setLoggerMode(LoggerMode.Error)
played, still = ALEInterface(), ALEInterface()
for ale in (played, still):
    ale.setInt("random_seed", 5)
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(roms.get_rom_path(sys.argv[1]))
    ale.reset_game()
random = np.random.default_rng(1)
actions = played.getMinimalActionSet()
for steps in (1, 20, 40, 1000, 60):
    for _ in range(steps):
        played.act(actions[random.integers(len(actions))])
        if played.game_over():
            break
    if steps < 1000:
        for i in range(128):
            played.setRAM(i, 255 if steps == 40 else int(random.integers(256)))
    played.reset_game()
    still.reset_game()
    one, other = (ale.cloneState().serialize() for ale in (played, still))
    different = sum(a != b for a, b in zip(one, other)) + abs(len(one) - len(other))
    if different > 2 or (played.getRAM() != still.getRAM()).any():  # frames since the start are 2 bytes
        sys.exit(3)
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_list_of_games_that_keep_memory_across_resets_is_complete() -> None:
    """All others begin alike whatever was played before, and whatever the console's memory contains."""
    for_two = {"combat", "joust", "maze_craze", "warlords"}  # ale-py has none of these for one player
    kept = set()
    for rom in sorted({*roms.get_all_rom_ids()} - for_two):
        done = subprocess.run([sys.executable, "-c", PLAYS, rom], check=False)
        assert done.returncode in (0, 3), rom
        kept |= {rom} if done.returncode else set()
    assert kept == history.KEEPS_MEMORY
