"""Histories of actions restore games of emulators that remember all earlier games, or only the number of resets."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorlearn.envs import history
from actorlearn.envs.history import ActionHistory
from tests.examples import examples

B, LONGEST = 3, 9


def checksum(*numbers: int) -> int:
    return zlib.crc32(str(numbers).encode())


class Game:
    """Plays one game after the other; its memory is a checksum of all that its next states depend on."""

    def __init__(self, whole: bool) -> None:
        self.whole = whole
        self.seed = self.resets = self.memory = self.steps = 0

    def reset(self, seed: int = -1) -> None:
        if seed >= 0:
            self.seed, self.resets, self.memory = seed, 0, 0
        self.resets += 1
        self.memory = checksum(self.seed, self.resets, self.memory if self.whole else 0)
        self.steps = 0

    def step(self, action: int) -> None:
        self.memory = checksum(self.memory, action)
        self.steps += 1

    @property
    def over(self) -> bool:
        return self.steps > checksum(self.seed, self.resets) % LONGEST


class Games:
    """``B`` games, as in a vector environment."""

    def __init__(self, seeds: list[int], whole: bool) -> None:
        self.games = [Game(whole) for _ in seeds]
        self.history = ActionHistory(seeds, whole)
        self.history.begin()
        self.reset(np.ones(B, np.bool_), np.array(seeds))

    def reset(self, chosen: np.ndarray[Any, Any], seeds: np.ndarray[Any, Any] | None = None) -> None:
        each = np.flatnonzero(chosen).tolist()
        for i, seed in zip(each, [-1] * len(each) if seeds is None else seeds.tolist(), strict=True):
            self.games[i].reset(seed)

    def step(self, action: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Returns which games began anew instead of taking a step."""
        begun = np.array([game.over for game in self.games])
        for game, choice in zip(self.games, action.tolist(), strict=True):
            if game.over:
                game.reset()
            else:
                game.step(choice)
        return begun

    def play(self, action: np.ndarray[Any, Any]) -> None:
        begun = self.step(action)
        reseeded = self.history.step(action, begun)
        if reseeded is not None:
            self.reset(reseeded, self.history.seeds()[reseeded])

    def restart(self, chosen: np.ndarray[Any, Any]) -> None:
        self.reset(chosen, self.history.restart(chosen))

    def restore(self, state: dict[str, Any]) -> None:
        self.history.restore(state)
        for move in self.history.replay():
            if move.action is None:
                self.reset(move.chosen, move.seeds)
            else:
                self.step(move.action)

    def stands(self) -> list[list[int]]:
        return [[game.memory, game.steps, game.over] for game in self.games]


def drawn(games: Games, random: np.random.Generator, moves: int) -> list[list[list[int]]]:
    stood = []
    for _ in range(moves):
        chosen = random.random(B) < 0.3
        if random.random() < 0.1 and chosen.any():
            games.restart(chosen)
        else:
            games.play(random.integers(18, size=B))
        stood.append(games.stands())
    return stood


@settings(max_examples=examples(60), deadline=None)
@given(st.booleans(), st.integers(0, 80), st.integers(0, 2**32))
def test_replayed_games_continue_as_the_original_ones(whole: bool, moves: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    games, others = Games([5, 6, 7], whole), Games([105, 106, 107], whole)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(history, "RESEED_STEPS", 25)
        patched.setattr(history, "ROOM", 4)
        drawn(games, random, moves)
        drawn(others, random, 5)
        others.restore(games.history.state())
        assert others.stands() == games.stands()
        on = [drawn(each, np.random.default_rng(seed + 1), 40) for each in (games, others)]
        assert on[0] == on[1]
        again = [each.history.state() for each in (games, others)]
        assert all((again[0][name] == again[1][name]).all() for name in again[0])


def test_the_log_of_actions_has_a_limit() -> None:
    for whole in (True, False):
        games = Games([5, 6, 7], whole)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(history, "RESEED_STEPS", 25)
            drawn(games, np.random.default_rng(1), 2000)
        assert len(games.history.state()["log"]) < B * (25 + 1000 / 25 + LONGEST + 3 if whole else LONGEST + 3)


def test_a_state_that_does_not_fit_is_refused() -> None:
    games = Games([5, 6, 7], True)
    drawn(games, np.random.default_rng(1), 10)
    state = games.history.state()
    for other in (
        {**state, "log": state["log"][:-1]},
        {**state, "log": np.append(state["log"], state["log"])},
        {**state, "length": state["length"][:2]},
        {**state, "games": -state["games"]},
    ):
        with pytest.raises(ValueError, match="environments instead of|records instead of"):
            games.history.restore(other)


@pytest.mark.parametrize("whole", [True, False])
def test_a_reset_of_all_games_after_a_restore_uses_their_own_seeds(whole: bool) -> None:
    games, others = Games([5, 6, 7], whole), Games([105, 106, 107], whole)
    drawn(games, np.random.default_rng(1), 10)
    others.restore(games.history.state())
    others.history.begin()
    assert others.history.seeds().tolist() == [105, 106, 107]
