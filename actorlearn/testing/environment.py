"""Contract tests for an environment: steps, seeds, restarts and states as ``actorlearn.envs.interface`` describes."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest

from actorlearn.actions import MultiDiscrete, cell, choices, draw
from actorlearn.envs.interface import ActionError, EnvSpec, Row, VectorEnv
from actorlearn.envs.make import make, spec
from actorlearn.envs.specs import ENVIRONMENTS, EnvSettings

FLAGS = ("terminated", "truncated", "life_lost", "first")
SEEDS = (3, 11)


class EnvironmentContract:
    """Tests of one environment; derive a class whose name begins with ``Test``, and set ``section``."""

    section: ClassVar[Mapping[str, Any]]
    """The section ``env`` of a topology: ``{"id": "my_package:MyEnv", "kwargs": {…}}``."""
    steps: ClassVar[int] = 200
    """Number of random actions that suffice for a game to end in each of two environments."""
    exact: ClassVar[bool] = True
    """Whether the environment has ``state()`` and ``restore(state)``, so that a run with it can be resumed exactly."""
    independent: ClassVar[bool] = True
    """Whether an environment's games depend only on its seed and actions, not on other environments."""
    restarts: ClassVar[bool] = True
    """Whether ``restart`` can begin games at any time; if not, ``EnvSpec.no_restart`` must have the reason."""

    settings: ClassVar[EnvSettings]
    env: ClassVar[VectorEnv]
    """Two environments with the seeds 3 and 11; all tests share them, and each test begins with a reset."""
    agents: ClassVar[int]
    """Number of agents of a game, each of which counts as one of B environments."""
    second: ClassVar[npt.NDArray[np.bool_]]
    """[B] which agents belong to the second environment."""
    actions: ClassVar[npt.NDArray[Any]]
    """Random actions [steps, B, …]; `made_valid` replaces choices that a mask forbids."""
    rows: ClassVar[list[Row]]
    """The `Row` after a reset, and that after each of ``actions``."""

    @classmethod
    def setup_class(cls) -> None:
        """Make two environments, and step them with random actions."""
        kind = ENVIRONMENTS.of(cls.section["id"]).name
        cls.settings = ENVIRONMENTS.read({"kind": kind, **cls.section})
        cls.env = make(cls.settings, SEEDS)
        cls.agents = cls.env.spec.agents
        cls.second = np.arange(cls.env.count) >= cls.agents
        cls.actions = random_actions(cls.env.spec, cls.env.count, cls.steps)
        cls.rows = play(cls.env, cls.actions)

    @classmethod
    def teardown_class(cls) -> None:
        """Close the environments."""
        cls.env.close()

    def test_the_rules_of_rows_hold(self) -> None:
        """Rewards and flags are as in the table in ``actorlearn.envs.interface``."""
        rows = self.rows
        terminated, truncated, life_lost, first = (
            column(rows, name) for name in ("terminated", "truncated", "life_lost", "first")
        )
        over = terminated | truncated
        assert over.any(axis=0).all(), f"no game ended within {self.steps} random actions: set `steps` higher"
        assert first[0].all(), "reset must set the flag `first` in all rows"
        if self.agents == 1:
            np.testing.assert_array_equal(
                first[1:],
                over[:-1],
                err_msg="the flag `first` must be set in each row after the last row of a game, and in no other row",
            )
        assert first[1:][over[:-1]].all(), "the flag `first` must be set in the row after an agent's last row"
        assert (over | first)[:-1][first[1:]].all(), (
            "the flag `first` may be set only in a row after an agent's last row or a void row"
        )
        assert not (terminated & truncated).any()
        assert not (first & over).any()
        assert not (life_lost & (first | over)).any()
        reward = column(rows, "reward")
        assert np.isfinite(reward).all()
        assert not reward[first].any(), "the reward of a row with the flag `first` must be 0"
        if self.env.spec.observation_dtype == "float32":
            assert np.isfinite(column(rows, "observation")).all()

    def test_its_description_says_what_rows_hold(self) -> None:
        """The function ``spec`` returns the `EnvSpec` of the environment that ``make`` makes."""
        assert spec(self.settings) == self.env.spec
        assert self.env.count == len(SEEDS) * self.agents
        assert self.env.spec.observation_dtype in ("uint8", "float32")
        row = poisoned_row(self.env.spec, self.env.count)
        self.env.reset(row)
        assert not (row.observation == 0xA5).all(), "reset must write the observation"

    def test_reset_replays_the_same_games(self) -> None:
        """After ``reset``, the same actions give the same games again."""
        assert_same(self.rows, play(self.env, self.actions))

    def test_its_seed_alone_makes_its_games(self) -> None:
        """The games of an environment depend on its seed, but not on other environments in the same process."""
        if not self.independent:
            pytest.skip("the environments share a random generator")
        alone = make(self.settings, SEEDS[1:])
        try:
            rows_alone = play(alone, self.actions[:, self.second])
        finally:
            alone.close()
        for name in ("observation", "reward", "terminated", "truncated", "first"):
            np.testing.assert_array_equal(
                column(rows_alone, name), column(self.rows, name)[:, self.second], err_msg=name
            )

    def test_the_action_after_a_game_is_ignored(self) -> None:
        """The action that was chosen for a game's final observation has no effect on the next game."""
        ignored = column(self.rows, "first")[1:]  # the action before a first row
        actions = self.env.spec.actions
        if isinstance(actions, tuple):
            others = np.where(ignored[..., None], self.actions + 1, self.actions)
        else:
            where = ignored[..., None] if isinstance(actions, MultiDiscrete) else ignored
            others = np.where(where, (self.actions + 1) % choices(actions), self.actions)
        assert_same(self.rows, play(self.env, others))

    def test_a_written_row_is_left_alone(self) -> None:
        """An environment does not change a `Row` that it wrote earlier, because other processes read it later."""
        row, copy = (poisoned_row(self.env.spec, self.env.count) for _ in range(2))
        self.env.reset(row)
        newest = row
        for action in self.actions[:8]:
            copy.observation[...] = row.observation
            newest = stepped(self.env, action, newest)
            np.testing.assert_array_equal(copy.observation, row.observation)

    def test_actions_are_left_alone(self) -> None:
        """A step does not change the array of actions, because the trainer reads it later."""
        newest = poisoned_row(self.env.spec, self.env.count)
        self.env.reset(newest)
        for action in self.actions[:8]:
            given = made_valid(self.env.spec, action.copy(), newest)
            before, newest = given.copy(), poisoned_row(self.env.spec, self.env.count)
            self.env.step(given, newest)
            np.testing.assert_array_equal(given, before)

    def test_a_restart_begins_the_chosen_games_and_leaves_the_others_alone(self) -> None:
        """``restart`` begins only the chosen games: at a game's first step, in its middle and at its last step."""
        self._need_restarts()
        env, rows = self.env, self.rows
        played = play(env, self.actions[:0])
        ended, second = column(rows, "terminated") | column(rows, "truncated"), self.second
        of_first, of_second = ended[:, ~second].any(axis=1), ended[:, second].any(axis=1)
        moments = {0, 3, *np.flatnonzero(of_first)[:1].tolist(), *np.flatnonzero(of_second)[:2].tolist()}
        for t, action in enumerate(self.actions):
            if t in moments:
                begun = poisoned_row(env.spec, env.count)
                env.restart(second, begun)
                untouched = np.isnan(begun.reward[~second]) & begun.terminated[~second]
                assert untouched.all(), "restart wrote cells of an environment that was not chosen"
                assert not begun.reward[second].any() and begun.first[second].all()
                assert not (begun.terminated | begun.truncated | begun.life_lost)[second].any()
                assert not (begun.observation[second] == 0xA5).all()
                assert not np.isnan(begun.observation[second].astype(float)).any()
                played[-1].take(begun, second)
            played.append(stepped(env, action, played[-1]))
            if t in moments:
                assert not played[-1].first[second].all(), "the first action after a restart was ignored"
        for name in ("observation", "reward", *FLAGS):
            np.testing.assert_array_equal(
                column(played, name)[:, ~second], column(rows, name)[:, ~second], err_msg=name
            )

    def test_restarts_are_repeated_by_the_same_seeds(self) -> None:
        """After ``reset``, the same actions and restarts give the same games again."""
        self._need_restarts()

        def once() -> list[Row]:
            played = play(self.env, self.actions[:10])
            begun = [poisoned_row(self.env.spec, self.env.count) for _ in range(2)]
            both = np.ones_like(self.second)
            self.env.restart(both, begun[0])
            begun[1].take(begun[0], both)
            self.env.restart(self.second, begun[1])
            played += begun
            for action in self.actions[10:30]:
                played.append(stepped(self.env, action, played[-1]))
            return played

        assert_same(once(), once())

    def test_it_says_whether_its_games_can_be_begun_at_will(self) -> None:
        """``spec.no_restart`` is empty if ``restart`` works; otherwise ``restart`` raises RuntimeError."""
        assert (self.env.spec.no_restart == "") == self.restarts, self.env.spec.no_restart
        if not self.restarts:
            with pytest.raises(RuntimeError):
                self.env.restart(self.second, poisoned_row(self.env.spec, self.env.count))

    def _need_restarts(self) -> None:
        if not self.restarts:
            pytest.skip(self.env.spec.no_restart)

    def test_it_says_whether_its_state_can_be_taken(self) -> None:
        """``spec.inexact`` is empty if the state can be saved; otherwise it is the reason why not."""
        assert (self.env.spec.inexact == "") == self.exact, self.env.spec.inexact or "set `exact = True`"

    def test_whoever_has_its_state_goes_on_as_it_does(self) -> None:
        """After ``restore``, other environments continue exactly as those whose state was saved, at any moment."""
        if not self.exact:
            pytest.skip(self.env.spec.inexact)
        over = column(self.rows, "terminated") | column(self.rows, "truncated")
        moments = {7, *np.flatnonzero(over[:, -1])[-1:].tolist()}
        if "ALE/" not in self.settings.id:  # seeding an Atari game takes 0.1 s
            moments |= {0, 1, *np.flatnonzero(over[:, 0])[:1].tolist()}
        on = np.concatenate([self.actions[-20:], self.actions[:30]])
        other = make(self.settings, [1000, 1001])
        try:
            play(other, self.actions[:3])
            for moment in sorted(moments):
                row = play(self.env, self.actions[:moment])[-1]
                if moment == 7 and self.restarts:
                    self.env.restart(self.second, row)
                state = through_a_file(self.env.state())
                went_on = _played_on(self.env, on, row, self.restarts)
                other.restore(state)
                again = through_a_file(other.state())
                assert state.keys() == again.keys() and all((state[name] == again[name]).all() for name in state)
                assert_same(went_on, _played_on(other, on, row, self.restarts))
        finally:
            other.close()

    def test_a_state_of_others_is_refused(self) -> None:
        """``restore`` raises ValueError for the state of another number of environments, and if an array is missing."""
        if not self.exact:
            pytest.skip(self.env.spec.inexact)
        play(self.env, self.actions[:2])
        state = self.env.state()
        three = make(self.settings, [1, 2, 3])
        try:
            with pytest.raises(ValueError, match=str(three.count)):
                three.restore(state)
        finally:
            three.close()
        for name in [*state][:3]:
            with pytest.raises(ValueError, match=self.settings.id):
                self.env.restore({other: array for other, array in state.items() if other != name})

    def test_random_actions_are_uniform_and_drawn_by_the_generator_alone(self) -> None:
        """``random_actions`` draws uniformly from the valid actions, with random numbers only from its generator."""
        count, actions = self.env.count, self.env.spec.actions
        numbers = [] if isinstance(actions, tuple) else np.ravel(choices(actions)).tolist()
        draws = max([600, *(300 * number for number in numbers)])  # enough for each choice to be drawn 300 times
        row = play(self.env, self.actions[:0])[-1]
        generators = (np.random.default_rng(0) for _ in range(2))
        found, again = (np.stack([self.env.random_actions(each) for _ in range(draws)]) for each in generators)
        np.testing.assert_array_equal(found, again)
        dtype, shape = cell(actions)
        assert found.shape == (draws, count, *shape) and found.dtype == dtype
        if isinstance(actions, tuple):
            return
        parts = found.reshape(draws, count, -1).transpose(2, 1, 0)
        for part, valid in zip(parts, _valid(self.env.spec, row), strict=True):
            for drawn, allowed in zip(part, valid, strict=True):
                counts = np.bincount(drawn, minlength=len(allowed))
                assert len(counts) == len(allowed)
                assert not counts[~allowed].any(), "random_actions drew actions that are not valid"
                assert counts[allowed].min() > 0.7 * draws / allowed.sum()

    def test_actions_of_any_width_will_do(self) -> None:
        """``step`` accepts floats of any size for a Box, and integers of any size for other spaces."""
        row = poisoned_row(self.env.spec, self.env.count)
        self.env.reset(row)
        floats = isinstance(self.env.spec.actions, tuple)
        for dtype in (np.float32, np.float64) if floats else (np.uint8, np.int32, np.int64):
            self.env.step(made_valid(self.env.spec, np.zeros_like(self.actions[0], dtype), row), row)
            assert np.isfinite(row.reward).all()

    @pytest.mark.parametrize("wrong", ["too large", "negative", "too few", "of the other kind"])
    def test_a_wrong_action_is_refused_and_does_no_harm(self, wrong: str) -> None:
        """A wrong action raises ActionError, which names environment, action and rule, and changes nothing."""
        actions = self.env.spec.actions
        number = actions if isinstance(actions, int) else 2
        count = self.env.count
        zeros = np.zeros(count, np.int64)
        last = np.arange(count) == count - 1
        action, says = {
            "too large": (
                zeros + number * last,
                f"environment {count - 1}: action {number} must be in 0 … {number - 1}",
            ),
            "negative": (zeros - (zeros == np.arange(count)), f"environment 0: action -1 must be in 0 … {number - 1}"),
            "too few": (zeros[:1], rf"action is int64\[1\]; it must be one integer for each of {count}"),
            "of the other kind": (zeros.astype(np.float64), "action is float64"),
        }[wrong]
        if not isinstance(actions, int):  # then all of these actions have a wrong shape
            says = rf"action is .*; it must be (floats|integers) of shape \[{count}, \d+\]"
        row = poisoned_row(self.env.spec, self.env.count)
        self.env.reset(row)
        right = made_valid(self.env.spec, np.zeros_like(self.actions[0]), row)
        with pytest.raises(ActionError, match=says):
            self.env.step(action, row)
        self.env.step(right, row)
        assert np.isfinite(row.reward).all()

    def test_closing_twice_is_harmless_and_stepping_after_it_is_not(self) -> None:
        """Methods of a closed environment raise RuntimeError; a second ``close`` does nothing."""
        env = make(self.settings, [0])
        row = poisoned_row(env.spec, env.count)
        env.reset(row)
        env.close()
        env.close()
        with pytest.raises(RuntimeError, match="closed"):
            env.step(self.actions[0, : env.count], row)
        with pytest.raises(RuntimeError, match="closed"):
            env.reset(row)
        with pytest.raises(RuntimeError, match="closed"):
            env.restart(np.ones(env.count, np.bool_), row)


def poisoned_row(spec: EnvSpec, count: int) -> Row:
    """Return a row in which all values are invalid, so that values that nobody writes are noticed."""
    poison = 0xA5 if spec.observation_dtype == "uint8" else np.nan
    observation = np.full((count, *spec.observation_shape), poison, spec.observation_dtype)
    flags = {name: np.ones(count, np.bool_) for name in FLAGS}
    return Row(observation=observation, reward=np.full(count, np.nan, np.float32), **flags)


def random_actions(spec: EnvSpec, count: int, steps: int, seed: int = 0) -> npt.NDArray[Any]:
    """Draw random actions [steps, count, …], without regard to masks; those of a Box may exceed its bounds."""
    generator = np.random.default_rng(seed)
    if isinstance(spec.actions, tuple):
        return generator.normal(0.0, 2.0, (steps, count, *spec.actions)).astype(np.float32)
    return draw(spec.actions, (steps, count), generator)


def play(env: VectorEnv, actions: npt.NDArray[Any]) -> list[Row]:
    """Reset the environments and take ``actions`` [T, B, …]; return the row of the reset and of each step.

    With masks, `made_valid` makes the actions valid.
    """
    rows = [poisoned_row(env.spec, env.count)]
    env.reset(rows[0])
    for action in actions:
        rows.append(stepped(env, action, rows[-1]))
    return rows


def stepped(env: VectorEnv, action: npt.NDArray[Any], newest: Row) -> Row:
    """Take an action [B, …], which `made_valid` makes valid after the row ``newest``; return the row of the step."""
    row = poisoned_row(env.spec, env.count)
    env.step(made_valid(env.spec, action, newest), row)
    return row


def made_valid(spec: EnvSpec, action: npt.NDArray[Any], newest: Row) -> npt.NDArray[Any]:
    """Return an action [B, …] in which each choice is valid by the masks in the row ``newest``.

    A choice a becomes valid choice a modulo k, if k are valid; without masks the action is returned as it is. Equal
    actions and rows give equal results, so games can be repeated.
    """
    if spec.action_mask is None:
        return action
    parts = action.reshape(len(action), -1).copy()
    for i, valid in enumerate(_valid(spec, newest)):
        for b, allowed in enumerate(valid):
            parts[b, i] = np.flatnonzero(allowed)[parts[b, i] % allowed.sum()]
    return parts.reshape(action.shape)


def _valid(spec: EnvSpec, row: Row) -> list[npt.NDArray[np.bool_]]:
    """Return for each part of an action which of its choices are valid after ``row``: [B, choices]."""
    assert not isinstance(spec.actions, tuple)
    numbers = np.ravel(choices(spec.actions))
    if spec.action_mask is None:
        return [np.ones((len(row.first), number), np.bool_) for number in numbers]
    cells = row.observation[:, -spec.action_mask.length :] != 0
    return np.split(cells, np.cumsum(numbers)[:-1], axis=1)


def column(rows: Sequence[Row], name: str) -> npt.NDArray[Any]:
    """Return one array of each of T rows, stacked: [T, B, …]."""
    return np.stack([getattr(row, name) for row in rows])


def assert_same(a: Sequence[Row], b: Sequence[Row]) -> None:
    """Assert that two sequences of rows are equal."""
    for name in ("observation", "reward", *FLAGS):
        np.testing.assert_array_equal(column(a, name), column(b, name), err_msg=name)


def through_a_file(state: dict[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """Save a state and load it again, as checkpoints do: arrays without pickle."""
    file = io.BytesIO()
    np.savez(file, **state)  # type: ignore[arg-type]
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def _played_on(env: VectorEnv, actions: npt.NDArray[Any], newest: Row, restarts: bool) -> list[Row]:
    """Take ``actions`` after the row ``newest``; ``restarts``: also restart games in between. Return the rows."""
    both = np.ones(env.count, np.bool_)
    second = np.arange(env.count) >= env.count // 2
    rows = [newest]
    for t, action in enumerate(actions):
        rows.append(stepped(env, action, rows[-1]))
        if restarts and t % 11 == 5:
            env.restart(second if t % 2 else both, rows[-1])
    return rows[1:]
