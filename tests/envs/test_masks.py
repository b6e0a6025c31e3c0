"""Masks of valid actions become the last cells of observations, and wrong masks are refused."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from actorlearn.envs.gymnasium_vector import GymnasiumVector
from actorlearn.envs.interface import MalformedStepError, VectorEnv, empty_row
from actorlearn.envs.make import spec
from actorlearn.envs.masks import Masks
from actorlearn.envs.observations import MisfitError
from actorlearn.envs.specs import GymnasiumSettings
from actorlearn.observation_parts import ActionMask
from actorlearn.testing.environment import assert_same
from tests import named
from tests.envs.doors import DOORS, ROOMS, Brief, Rooms, Split, Strict, Varied
from tests.envs.playing import opened

GAMES = "tests.envs.doors"


def doors(name: str = "Strict", mask: str = "auto", **kwargs: Any) -> Any:
    return named.env(f"{GAMES}:{name}", action_mask=mask, kwargs=kwargs)


def played(env: VectorEnv, steps: int = 200) -> list[np.ndarray]:
    """Take random actions and return the masks of the rows; games of class Strict raise for an invalid action."""
    row, random, masks = empty_row(env.spec, env.count), np.random.default_rng(0), []
    env.reset(row)
    assert env.spec.action_mask is not None
    for _ in range(steps):
        masks.append(row.observation[:, -env.spec.action_mask.length :].copy())
        env.step(env.random_actions(random), row)
    return masks


@pytest.mark.parametrize("source", ["info", "observation"])
def test_auto_finds_the_masks_in_info_or_in_the_observation(source: str) -> None:
    found = spec(doors(source=source))
    assert found.action_mask == ActionMask(source, DOORS, (ROOMS + 1,))
    assert found.observation_shape == (ROOMS + 1 + DOORS,)
    assert str(found.action_mask) == f'{source}["action_mask"]'


@pytest.mark.parametrize(
    ("settings", "shape"),
    [
        (doors(mask="none"), (ROOMS + 1,)),
        (doors(mask="none", source="observation"), (ROOMS + 1 + DOORS,)),
        (doors(source="none"), (ROOMS + 1,)),
        (named.env("CartPole-v1"), (4,)),
        (named.env("Pendulum-v1"), (3,)),
    ],
)
def test_without_masks_observations_are_unchanged(settings: Any, shape: tuple[int, ...]) -> None:
    found = spec(settings)
    assert found.action_mask is None and found.observation_shape == shape


@pytest.mark.parametrize("source", ["info", "observation"])
@pytest.mark.parametrize("pairs", [False, True])
def test_observations_end_with_the_mask_and_random_actions_are_valid(source: str, pairs: bool) -> None:
    with opened(doors(source=source, pairs=pairs), [0, 1, 2]) as env:
        masks = played(env)
    single = Strict(pairs=pairs)
    single.reset()
    np.testing.assert_array_equal(masks[0][1], single.answer()[1]["action_mask"])
    assert all(mask.any(axis=-1).all() for mask in masks), "after a game's end every action counts as valid"


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("source", ["info", "observation"])
def test_environments_stepped_together_have_the_same_rows(mode: AutoresetMode, source: str) -> None:
    vector = SyncVectorEnv([lambda: Strict(source)] * 3, autoreset_mode=mode)
    together = GymnasiumVector("strict", vector, [0, 1, 2], action_mask="auto")
    with opened(doors(source=source), [0, 1, 2]) as apart:
        assert together.spec.action_mask == apart.spec.action_mask
        for own, other in zip(played(together), played(apart), strict=True):
            np.testing.assert_array_equal(own, other)
    together.close()


def test_a_saved_state_has_the_mask() -> None:
    with opened(doors(), [0]) as env, opened(doors(), [1]) as other:
        played(env, 3)
        other.restore(env.state())
        random = [np.random.default_rng(1) for _ in range(2)]
        np.testing.assert_array_equal(env.random_actions(random[0]), other.random_actions(random[1]))


@pytest.mark.parametrize("mode", AutoresetMode)
def test_games_stepped_together_continue_exactly_from_a_state_saved_at_a_games_end(mode: AutoresetMode) -> None:
    def made(seed: int) -> GymnasiumVector:
        return GymnasiumVector("strict", Rooms([Strict] * 2, autoreset_mode=mode), [seed, seed + 1], action_mask="info")

    env, other = made(0), made(7)
    row, theirs, random = empty_row(env.spec, 2), empty_row(other.spec, 2), np.random.default_rng(0)
    env.reset(row)
    while not row.terminated.any():
        env.step(env.random_actions(random), row)
    other.reset(theirs)
    other.restore(env.state())
    for _ in range(2 * ROOMS):
        action = env.random_actions(random)
        env.step(action, row)
        other.step(action, theirs)
        assert_same([row], [theirs])


def test_after_a_games_end_a_missing_mask_makes_all_actions_valid() -> None:
    with opened(doors(), [0, 1]) as expected, opened(doors("Brief"), [0, 1]) as env:
        np.testing.assert_array_equal(played(env), played(expected))


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("count", [1, 3])
def test_after_a_games_end_a_missing_mask_of_a_vector_makes_all_actions_valid(mode: AutoresetMode, count: int) -> None:
    env = GymnasiumVector(
        "brief", SyncVectorEnv([Brief] * count, autoreset_mode=mode), range(count), action_mask="info"
    )
    with opened(doors(), range(count)) as expected:
        np.testing.assert_array_equal(played(env), played(expected))
    env.close()


@pytest.mark.parametrize("mode", AutoresetMode)
def test_a_game_cut_at_time_limit_steps_gets_a_valid_action_before_the_next_game(mode: AutoresetMode) -> None:
    """The vector itself does not end such a game, and takes one more step in it."""
    settings = GymnasiumSettings(
        id="once",
        vector="tests.envs.doors:endless",
        kwargs={"mode": mode.value},
        action_mask="info",
        time_limit_steps=3,
    )
    with opened(settings, [0, 1]) as env:
        row, truncated, first = empty_row(env.spec, 2), [], []
        env.reset(row)
        for _ in range(8):
            env.step(np.ones(2, np.int64), row)
            truncated.append(row.truncated.tolist())
            first.append(row.first.tolist())
    assert [step for step, cut in enumerate(truncated, 1) if cut == [True, True]] == [3, 7]
    assert [step for step, begun in enumerate(first, 1) if begun == [True, True]] == [4, 8]


def test_a_vectors_info_may_lack_the_masks_of_ended_games_only() -> None:
    info, ended = {"action_mask": np.array([None, [1, 0, 1]], object)}, np.array([True, False])
    masks = Masks("info", 3)
    assert masks.read(None, info, (2,), ended).tolist() == [[True, True, True], [True, False, True]]
    with pytest.raises(MisfitError, match="it must be 2 masks of 3 numbers"):
        masks.read(None, info, (2,), ~ended)
    with pytest.raises(MisfitError, match="it must be 2 masks of 3 numbers"):
        masks.read(None, {"action_mask": np.array("nothing", object)}, (2,))


@pytest.mark.parametrize("form", [tuple, list])
@pytest.mark.parametrize("pairs", [False, True])
def test_masks_may_be_lists_or_tuples_of_numbers_or_of_parts(form: type, pairs: bool) -> None:
    vector = SyncVectorEnv([lambda: Varied(form, pairs)] * 2)
    together = GymnasiumVector("varied", vector, [0, 1], action_mask="auto")
    with opened(doors(pairs=pairs), [0, 1]) as expected:
        masks = played(expected)
    with opened(doors("Varied", form=form, pairs=pairs), [0, 1]) as apart:
        np.testing.assert_array_equal(played(apart), masks)
    np.testing.assert_array_equal(played(together), masks)
    together.close()


def test_a_mask_in_an_observation_may_be_a_tuple_of_parts() -> None:
    assert spec(doors("Split")).action_mask == ActionMask("observation", DOORS + 2, (ROOMS + 1,))
    together = GymnasiumVector("split", SyncVectorEnv([Split] * 2), [0, 1], action_mask="auto")
    with opened(doors(pairs=True), [0, 1]) as expected, opened(doors("Split"), [0, 1]) as apart:
        masks = played(expected)
        np.testing.assert_array_equal(played(apart), masks)
    np.testing.assert_array_equal(played(together), masks)
    together.close()


def test_a_mask_in_info_is_found_beside_a_key_of_another_shape() -> None:
    found = spec(doors("Square", told=True))
    assert found.action_mask == ActionMask("info", DOORS, (ROOMS + 1 + DOORS**2,))
    assert spec(doors("Square", mask="none")).action_mask is None


class OnlyLists(Rooms):
    """Refuses a single seed for all."""

    def reset(self, *, seed=None, options=None):
        assert seed is None or isinstance(seed, list)
        return super().reset(seed=seed, options=options)


def test_auto_finds_masks_of_a_vector_that_takes_only_a_list_of_seeds() -> None:
    env = GymnasiumVector("lists", OnlyLists([Strict] * 2), [0, 1], action_mask="auto")
    assert env.spec.action_mask == ActionMask("info", DOORS, (ROOMS + 1,))
    env.close()


def test_the_error_about_a_mask_for_bits_says_that_each_has_two_cells() -> None:
    with opened(doors("Bits"), [0]) as env, pytest.raises(MalformedStepError) as refused:
        played(env, 1)
    assert "it must be 4 numbers" in str(refused.value)
    assert "each bit of a MultiBinary has two cells, no and yes; or write env.action_mask: none" in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            doors("Locked"),
            r"environment 0 of .*: info\['action_mask'\] is \[0, 0.*; at step 2 of its game no action is",
        ),
        (doors("Locked", source="observation"), r"observation\['action_mask'\] is \[0, 0"),
        (
            doors("Forgetful"),
            r"info is \{\}; it must contain 'action_mask' after each .*; or write env.action_mask: none",
        ),
        (
            doors("Odd"),
            r"(?s)info\['action_mask'\] is .*; each cell must be 1 .*; or write env.action_mask: none",
        ),
    ],
)
def test_a_wrong_mask_is_refused(settings: Any, says: str) -> None:
    with opened(settings, [0]) as env, pytest.raises(MalformedStepError, match=says):
        played(env, 5)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (named.env("Pendulum-v1", action_mask="info"), "only choices can be masked, but 'Pendulum-v1' has a Box"),
        (named.env("CartPole-v1", action_mask="observation"), r"must be a Dict with other keys and 'action_mask'"),
        (
            doors("Square"),
            r"the observations of .*:Square' are Dict\('action_mask': MultiBinary\(\(40, 40\)\).*; they must be a Dict "
            r"with other keys and 'action_mask' of shape \(40,\): 40 numbers.*or write env.action_mask: none",
        ),
        (
            doors(mask="observation", pairs=True),
            r"'action_mask' of shape \(42,\), or a Tuple with one mask for each part: 42 numbers, one for each choice",
        ),
    ],
)
def test_a_source_of_masks_that_does_not_fit_the_environment_is_refused(settings: Any, says: str) -> None:
    with pytest.raises(ValueError, match=f"env.action_mask: '{settings.action_mask}': .*{says}"):
        spec(settings)


def test_masks_of_gymnasiums_taxi_are_found() -> None:
    newest = max(env_id for env_id in gymnasium.registry if env_id.startswith("Taxi-v"))
    assert spec(named.env(newest, action_mask="auto")).action_mask == ActionMask("info", 6, (500,))
