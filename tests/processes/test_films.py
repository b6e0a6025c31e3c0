"""Recorded games: whole ones, the same as without a spectator, and the best, the median and the worst of them."""

from __future__ import annotations

import importlib
import json
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from actorlearn.actions import cell
from actorlearn.envs.make import spec
from actorlearn.processes.evaluator import check_recording, play
from actorlearn.worker.settings import Recording
from tests import named
from tests.acting.policies import policy


class Countdown(gymnasium.Env):
    """Ends after as many steps as its seed says, plus 3; shows in gray how many have been made."""

    observation_space = spaces.Box(-1.0, 1.0, (4,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, render_mode: str | None = None, side: int = 5, shown: bool = True, until: int = 99) -> None:
        self.render_mode, self.side, self.shown, self.until = render_mode, side, shown, until
        self.length, self.steps = 3, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        self.length, self.steps = self.length if seed is None else seed + 3, 0
        return np.zeros(4, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.steps += 1
        return np.zeros(4, np.float32), 1.0, self.steps == self.length, False, {}

    def render(self) -> Any:
        assert self.render_mode == "rgb_array"
        if self.steps > self.until:
            raise RuntimeError("the screen went dark")
        return np.full((self.side, self.side + 2, 3), 20 * self.steps, np.uint8) if self.shown else "a text"


COUNTDOWN = f"{__name__}:Countdown"


def films_of(tmp_path: Path, episodes: int, **kwargs: Any) -> Any:
    """Play countdowns of 3, 4, … steps before a camera; returns what it kept, and the scores."""
    films = pytest.importorskip("actorlearn.processes.films", exc_type=ImportError).Films
    env = named.env(id=COUNTDOWN, kwargs=kwargs)
    acting = policy()
    acting.tell_values()
    with films(tmp_path / "films", 30.0) as camera:
        scores = [s for s in play(acting, env, episodes, True, seed=0, spectator=camera) if s is not None]
        return camera.keep(), scores, camera.failure


def pictures(file: str) -> np.ndarray:
    av = pytest.importorskip("av")
    with av.open(file) as container:
        assert container.streams.video[0].average_rate == 30
        return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])


def test_best_median_and_worst_are_kept_as_whole_games(tmp_path: Path) -> None:
    kept, scores, _ = films_of(tmp_path, 5)
    assert {word: film.score for word, film in kept.items()} == {"best": 7.0, "median": 5.0, "worst": 3.0}
    assert sorted(scores) == [3.0, 4.0, 5.0, 6.0, 7.0]
    names = {path.name for path in (tmp_path / "films").iterdir()}
    assert names == {"best.mp4", "median.mp4", "worst.mp4", "games.json"}
    for word, length in (("best", 7), ("worst", 3)):
        shown = pictures(kept[word].file)
        assert shown.shape == (length + 1, 260, 364, 3), "from the first picture to the last, sides of 5 and 7 enlarged"
        np.testing.assert_allclose(shown.mean((1, 2, 3)), 20.0 * np.arange(length + 1), atol=5.0)


@pytest.mark.parametrize(
    ("episodes", "words"), [(1, {"best"}), (2, {"best", "worst"}), (9, {"best", "median", "worst"})]
)
def test_a_game_that_is_both_best_and_worst_is_kept_once(tmp_path: Path, episodes: int, words: set[str]) -> None:
    kept, *_ = films_of(tmp_path, episodes, side=257)
    assert set(kept) == words
    assert len(list((tmp_path / "films").glob("*.mp4"))) == len(words)
    assert pictures(kept["best"].file).shape[1:] == (258, 260, 3)


def test_an_unfinished_film_leaves_no_file(tmp_path: Path) -> None:
    films = pytest.importorskip("actorlearn.processes.films", exc_type=ImportError).Films
    with films(tmp_path / "films" / "000", 30.0) as camera:
        camera.see(np.zeros((4, 4, 3), np.uint8), 0)
    assert [path.name for path in tmp_path.rglob("*")] == ["films"]


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [({"shown": False}, "does not return uint8"), ({"side": -9}, "ValueError: negative dimensions")],
)
def test_the_error_about_an_environment_without_pictures_names_it(kwargs: dict[str, Any], said: str) -> None:
    recording = Recording(folder="/nowhere", pictures_per_s=30.0)
    env = named.env(id=COUNTDOWN, kwargs=kwargs)
    with pytest.raises(ValueError, match=rf"^env.id: .*Countdown' cannot be rendered: .*{said}"):
        check_recording(env, recording)
    check_recording(env, None)
    check_recording(named.env(id=COUNTDOWN), recording)


def test_games_json_lists_all_games_and_each_step_of_the_filmed_ones(tmp_path: Path) -> None:
    kept, *_ = films_of(tmp_path, 5)
    games = json.loads((tmp_path / "films" / "games.json").read_text())
    assert [(game["environment"], game["score"], game["steps"]) for game in games] == [
        (i, 3.0 + i, 3 + i) for i in range(5)
    ]
    assert [game.get("film") for game in games] == ["worst.mp4", None, "median.mp4", None, "best.mp4"]
    for game in games[::2]:
        trace = game["trace"]
        assert trace["reward"] == [1.0] * game["steps"]
        assert set(trace["action"]) <= {0, 1} and len(trace["action"]) == game["steps"]
        assert len({*trace["value"]}) == 1 and len(trace["value"]) == game["steps"], "each observation is the same"
        assert pictures(kept[game["film"].removesuffix(".mp4")].file).shape[0] == game["steps"] + 1
    assert all("trace" not in game for game in games[1::2])


def test_scores_are_kept_if_rendering_fails_within_a_game(tmp_path: Path) -> None:
    kept, scores, failure = films_of(tmp_path, 5, until=2)
    assert sorted(scores) == [3.0, 4.0, 5.0, 6.0, 7.0]
    assert kept == {} and failure.endswith("cannot be rendered: RuntimeError: the screen went dark")
    assert not (tmp_path / "films").exists()


class Idle:
    """Takes the first action, or the middle of a Box, whatever it sees."""

    state_size = 0

    def __init__(self, actions: Any) -> None:
        self.actions = actions

    def choose(self, observation: torch.Tensor, *_: Any, **__: Any) -> dict[str, torch.Tensor]:
        dtype, shape = cell(self.actions)
        return {"action": torch.zeros((len(observation), *shape), dtype=getattr(torch, dtype))}


FAMILIES = {
    "classic": ("pygame", {"id": "CartPole-v1"}),
    "toy text": ("pygame", {"id": "FrozenLake-v1"}),
    "Box2D": ("Box2D", {"id": "LunarLander-v3"}),
    "MuJoCo": ("mujoco", {"id": "HalfCheetah-v5"}),
    "Atari": ("ale_py", {"id": "ALE/Pong-v5", "noop_max": 0}),
    "Catch": ("gymnasium", {"id": "actorlearn.envs.catch:Catch"}),
    "EnvPool": ("envpool", {"id": "envpool:ALE/Pong-v5"}),
    "MinAtar": ("seaborn", {"id": "MinAtar/Breakout-v1"}),
    "MiniGrid": ("minigrid", {"id": "minigrid:MiniGrid-Empty-5x5-v0"}),
    "VizDoom": ("vizdoom", {"id": "vizdoom.gymnasium_wrapper:VizdoomBasic-v1"}),
    "dm_control": ("dm_control", {"id": "shimmy:dm_control/cheetah-run-v0"}),
    "PettingZoo": ("mpe2", {"id": "pettingzoo:mpe2.simple_spread_v3"}),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_films_show_the_rendered_pictures_of_each_family_of_environments(family: str, tmp_path: Path) -> None:
    package, section = FAMILIES[family]
    if find_spec(package) is None or (family == "MinAtar" and find_spec("minatar") is None):
        pytest.skip(f"{package} is not installed")
    with warnings.catch_warnings():  # an import by SWIG that warns, where warnings are errors, ends the process
        warnings.simplefilter("ignore")
        if package == "Box2D":
            importlib.import_module(package)
    films = pytest.importorskip("actorlearn.processes.films", exc_type=ImportError)
    env, drawn = named.env(**section, time_limit_steps=6), []
    check_recording(env, Recording(folder="/nowhere", pictures_per_s=30.0))  # first: it says where MuJoCo draws

    class Camera(films.Films):
        def see(self, picture: np.ndarray, environment: int) -> None:
            if environment == 0:
                drawn.append(picture)
            super().see(picture, environment)

    with Camera(tmp_path / "films", 30.0) as camera:
        played: Any = play(Idle(spec(env).actions), env, 1, True, seed=3, spectator=camera)
        assert len([score for score in played if score is not None]) == 1
        kept = camera.keep()
    assert camera.failure == ""
    steps = json.loads((tmp_path / "films" / "games.json").read_text())[0]["steps"]
    shown = pictures(kept["best"].file)
    assert len(shown) == len(drawn) == steps + 1 and 1 <= steps <= 6
    assert all(side % 2 == 0 and side >= 256 for side in shown.shape[1:3])
    assert max(picture.std() for picture in drawn) > 1.0, "something is to be seen"
    for picture, own in zip(shown, drawn, strict=True):
        # A film keeps colours at half the resolution: sharp edges differ, means do not.
        np.testing.assert_allclose(picture.mean((0, 1)), films.enlarged(own).mean((0, 1)), atol=4.0)
