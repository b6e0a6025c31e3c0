"""Masks of valid actions are the last cells of rows, wherever the environment has them; wrong ones are refused."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from actorlearn.action_mask import ActionMask
from actorlearn.envs.gymnasium_vector import GymnasiumVector
from actorlearn.envs.interface import MalformedStepError, VectorEnv, empty_row
from actorlearn.envs.make import spec
from tests import named
from tests.envs.doors import DOORS, ROOMS, Strict
from tests.envs.playing import opened

GAMES = "tests.envs.doors"


def doors(name: str = "Strict", mask: str = "auto", **kwargs: Any) -> Any:
    return named.env(f"{GAMES}:{name}", action_mask=mask, kwargs=kwargs)


def played(env: VectorEnv, steps: int = 200) -> list[np.ndarray]:
    """Return the masks of rows while random actions are taken; the strict games raise for an action that is not one."""
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
def test_rows_end_with_the_mask_and_random_actions_are_valid(source: str, pairs: bool) -> None:
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


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            doors("Locked"),
            r"environment 0 of .*: info\['action_mask'\] is \[0, 0.*; at step 2 of its game no action is",
        ),
        (doors("Locked", source="observation"), r"observation\['action_mask'\] is \[0, 0"),
        (doors("Forgetful"), r"info is \{\}; it must contain 'action_mask' after each reset and step"),
        (doors("Odd"), r"(?s)info\['action_mask'\] is .*; each cell must be 1 for a valid choice and 0 for another"),
    ],
)
def test_a_wrong_mask_is_named(settings: Any, says: str) -> None:
    with opened(settings, [0]) as env, pytest.raises(MalformedStepError, match=says):
        played(env, 5)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (named.env("Pendulum-v1", action_mask="info"), "only choices can be masked, but 'Pendulum-v1' has a Box"),
        (named.env("CartPole-v1", action_mask="observation"), r"must be a Dict with other keys and 'action_mask'"),
    ],
)
def test_a_source_that_cannot_be_is_refused(settings: Any, says: str) -> None:
    with pytest.raises(ValueError, match=f"env.action_mask: .*{says}"):
        spec(settings)


def test_masks_of_gymnasiums_taxi_are_found() -> None:
    newest = max(env_id for env_id in gymnasium.registry if env_id.startswith("Taxi-v"))
    assert spec(named.env(newest)).action_mask == ActionMask("info", 6, (500,))
