"""Recorded games: whole ones, the same as without a spectator, and the best, the median and the worst of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from actorlearn.processes.evaluator import check_recording, play
from actorlearn.worker.settings import Recording
from tests import named
from tests.acting.policies import policy


class Countdown(gymnasium.Env):
    """Ends after as many steps as its seed says, plus 3; shows in gray how many have been made."""

    observation_space = spaces.Box(-1.0, 1.0, (4,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, render_mode: str | None = None, side: int = 5, shown: bool = True) -> None:
        self.render_mode, self.side, self.shown = render_mode, side, shown
        self.length, self.steps = 3, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        self.length, self.steps = self.length if seed is None else seed + 3, 0
        return np.zeros(4, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.steps += 1
        return np.zeros(4, np.float32), 1.0, self.steps == self.length, False, {}

    def render(self) -> Any:
        assert self.render_mode == "rgb_array"
        return np.full((self.side, self.side + 2, 3), 20 * self.steps, np.uint8) if self.shown else "a text"


COUNTDOWN = f"{__name__}:Countdown"


def films_of(tmp_path: Path, episodes: int, **kwargs: Any) -> Any:
    """Play countdowns of 3, 4, … steps before a camera; returns what it kept, and the scores."""
    films = pytest.importorskip("actorlearn.processes.films", exc_type=ImportError).Films
    env = named.env(id=COUNTDOWN, kwargs=kwargs)
    with films(tmp_path / "films", 30.0) as camera:
        scores = [s for s in play(policy(), env, episodes, True, seed=0, spectator=camera) if s is not None]
        return camera.keep(), scores


def pictures(file: str) -> np.ndarray:
    av = pytest.importorskip("av")
    with av.open(file) as container:
        assert container.streams.video[0].average_rate == 30
        return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])


def test_best_median_and_worst_are_kept_as_whole_games(tmp_path: Path) -> None:
    kept, scores = films_of(tmp_path, 5)
    assert {word: film.score for word, film in kept.items()} == {"best": 7.0, "median": 5.0, "worst": 3.0}
    assert sorted(scores) == [3.0, 4.0, 5.0, 6.0, 7.0]
    assert {path.name for path in (tmp_path / "films").iterdir()} == {"best.mp4", "median.mp4", "worst.mp4"}
    for word, length in (("best", 7), ("worst", 3)):
        shown = pictures(kept[word].file)
        assert shown.shape == (length + 1, 260, 364, 3), "from the first picture to the last, sides of 5 and 7 enlarged"
        np.testing.assert_allclose(shown.mean((1, 2, 3)), 20.0 * np.arange(length + 1), atol=5.0)


@pytest.mark.parametrize(
    ("episodes", "words"), [(1, {"best"}), (2, {"best", "worst"}), (9, {"best", "median", "worst"})]
)
def test_a_game_is_kept_once(tmp_path: Path, episodes: int, words: set[str]) -> None:
    kept, _ = films_of(tmp_path, episodes, side=257)
    assert set(kept) == words
    assert len(list((tmp_path / "films").iterdir())) == len(words)
    assert pictures(kept["best"].file).shape[1:] == (258, 260, 3)


def test_what_was_not_finished_leaves_nothing(tmp_path: Path) -> None:
    films = pytest.importorskip("actorlearn.processes.films", exc_type=ImportError).Films
    with films(tmp_path / "films" / "000", 30.0) as camera:
        camera.see(np.zeros((4, 4, 3), np.uint8), 0)
    assert [path.name for path in tmp_path.rglob("*")] == ["films"]


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [({"shown": False}, "does not return uint8"), ({"side": -9}, "ValueError: negative dimensions")],
)
def test_environments_that_show_nothing_are_named(kwargs: dict[str, Any], said: str) -> None:
    recording = Recording(folder="/nowhere", pictures_per_s=30.0)
    env = named.env(id=COUNTDOWN, kwargs=kwargs)
    with pytest.raises(ValueError, match=rf"^env.id: .*Countdown' cannot be shown: .*{said}"):
        check_recording(env, recording)
    check_recording(env, None)
    check_recording(named.env(id=COUNTDOWN), recording)
