"""The kind of an environment's spaces, as a child process tells it."""

from __future__ import annotations

import pytest

from actorlearn.envs.specs import AtariSettings, GymnasiumSettings
from actorlearn.tasks import spaces
from actorlearn.worker.settings import SpacesSettings


@pytest.mark.parametrize(
    ("env_id", "like"),
    [("Pendulum-v1", "continuous"), ("CartPole-v1", "vector"), ("FrozenLake-v1", "vector")],
)
def test_a_box_of_actions_is_continuous_and_choices_are_not(env_id: str, like: str) -> None:
    assert spaces.run(SpacesSettings(env=GymnasiumSettings(id=env_id))) == {"like": like, "images": []}


def test_games_of_ale_stay_what_their_id_says() -> None:
    assert spaces.run(SpacesSettings(env=AtariSettings(id="ALE/Pong-v5"))) == {"like": "atari", "images": []}


def test_one_that_cannot_be_made_is_an_error_on_one_line() -> None:
    with pytest.raises(ValueError, match="NoSuchTask-v1"):
        spaces.run(SpacesSettings(env=GymnasiumSettings(id="NoSuchTask-v1")))
