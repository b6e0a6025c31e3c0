"""Gymnasium environments play the games that gymnasium itself plays; malformed steps and ids are refused."""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import Any, ClassVar

import gymnasium
import msgspec
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Sequence, Text
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from actorlearn.envs.catch import Catch
from actorlearn.envs.interface import ActionError, MalformedStepError
from actorlearn.envs.make import make, spec
from actorlearn.envs.specs import GymnasiumSettings
from actorlearn.testing.environment import column, play, poisoned_row, random_actions
from tests import named
from tests.envs.playing import opened
from tests.examples import examples

GOOD = np.zeros(3, np.float32)


class Scripted(gymnasium.Env):
    """Its steps return the values in ``answers``."""

    observation_space = Box(-np.inf, np.inf, (3,), np.float32)
    action_space = Discrete(2)
    start: object = (GOOD, {})
    answers: object = ()

    def reset(self, *, seed=None, options=None):
        self.remaining = itertools.cycle(self.answers)
        return self.start

    def step(self, action):
        return next(self.remaining)


class Bytes(Scripted):
    observation_space = Box(0, 255, (2, 2), np.uint8)
    start = (np.zeros((2, 2), np.uint8), {})


class Integers(Scripted):
    observation_space = Box(-9, 9, (3,), np.int64)
    start = (np.arange(3), {})


class Unbounded(Scripted):
    action_space = Box(np.array([-1, -np.inf], np.float32), np.array([1, 1], np.float32))


class Image(Scripted):
    action_space = Box(0, 1, (2, 2), np.float32)


class Whole(Scripted):
    action_space = Box(0, 9, (2,), np.int64)


class Nested(Scripted):
    action_space = Dict(a=Discrete(2))


class Wordy(Scripted):
    observation_space = Dict(said=Text(3))


class Endless(Scripted):
    observation_space = Dict(seen=Sequence(Discrete(2)))


class Remembers(Scripted):
    """Keeps the action that it was given, as an environment may; ``there`` lists all instances."""

    there: ClassVar[list[Any]] = []
    action_space = Box(np.array([-1, 0], np.float32), np.array([1, 5], np.float32))
    answers = ((GOOD, 0.0, False, False, {}),)

    def reset(self, **how):
        if self not in self.there:
            self.there.append(self)
        return super().reset(**how)

    def step(self, action):
        self.given = action
        return super().step(action)


class Slow(Scripted):
    """Takes a second for each call, on its own clock."""

    now_s = 0.0
    answers = ((GOOD, 0.0, False, False, {}),)

    def __init__(self) -> None:
        Slow.now_s += 1.0

    def reset(self, *, seed=None, options=None):
        Slow.now_s += 1.0
        return super().reset()

    def step(self, action):
        Slow.now_s += 1.0
        return super().step(action)

    def close(self) -> None:
        Slow.now_s += 1.0


class NeedsArgument(Scripted):
    def __init__(self, size: int) -> None:
        self.size = size


SETTINGS = named.env(id=f"{__name__}:Scripted")
GOOD_STEP = (GOOD, 0.0, False, False, {})


def reward(value: object) -> tuple[object, ...]:
    return (GOOD, value, False, False, {})


def observation(value: object) -> tuple[object, ...]:
    return (value, 0.0, False, False, {})


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (reward(float("nan")), r"reward is nan; it must be finite in float32"),
        (reward(np.float32("inf")), r"reward is inf"),
        (reward(-1e39), r"reward is -1e\+39; it must be finite in float32"),
        (reward(10**400), r"reward is 1000.*…; it must be finite"),
        (reward(None), "reward is None; it must be one number"),
        (reward("1"), "reward is '1'; it must be one number"),
        (reward(np.zeros(1)), r"reward is array\(\[0.\]\); it must be one number"),
        (observation(np.array([0, np.nan, 0], np.float32)), r"observation\[1\] is nan; it must be finite in float32"),
        (observation(np.array([0, 0, np.inf], np.float32)), r"observation\[2\] is inf"),
        (observation(np.array([1e300, 0, 0])), r"observation\[0\] is inf"),
        (observation(np.zeros(4, np.float32)), r"the shape of observation is \(4,\); by its space it must be \(3,\)"),
        (observation(np.zeros((1, 3), np.float32)), r"the shape of observation is \(1, 3\)"),
        (observation([[1.0], [1.0, 2.0]]), r"observation is \[\[1.0\], \[1.0, 2.0\]\]; it must be an array of shape"),
        (observation(None), r"the shape of observation is \(\)"),
        (
            observation(np.zeros(3, np.complex64)),
            "the dtype of observation is 'complex64'; by its space it must be float32",
        ),
        (observation(np.array(["a", "b", "c"])), "the dtype of observation is '<U1'"),
        ((GOOD, 0.0, 1, False, {}), "terminated is 1; it must be True or False"),
        ((GOOD, 0.0, False, None, {}), "truncated is None; it must be True or False"),
        ((GOOD, 0.0, False, {}), r"step\(\) is .*; it must return 5 values"),
        (None, r"step\(\) is None; it must return 5 values"),
    ],
)
def test_a_malformed_step_is_named_and_never_written(monkeypatch: pytest.MonkeyPatch, answer, says: str) -> None:
    monkeypatch.setattr(Scripted, "answers", (GOOD_STEP, answer))
    with opened(SETTINGS, [0, 1]) as env:
        play(env, np.zeros((1, 2), np.int64))
        row, untouched = poisoned_row(env.spec, 2), poisoned_row(env.spec, 2)
        with pytest.raises(MalformedStepError, match=f"environment 0 of '{__name__}:Scripted': {says}") as caught:
            env.step(np.zeros(2, np.int64), row)
    assert caught.value.environment == 0
    for name in ("observation", "reward", "terminated", "truncated", "life_lost", "first"):
        np.testing.assert_array_equal(getattr(row, name), getattr(untouched, name))


@pytest.mark.parametrize(
    ("start", "says"),
    [
        ((np.full(3, np.nan, np.float32), {}), r"observation\[0\] is nan"),
        ((np.zeros(2, np.float32), {}), "the shape of observation"),
        (GOOD, r"reset\(\) is .*; it must return 2 values"),
    ],
)
def test_a_malformed_reset_is_refused(monkeypatch: pytest.MonkeyPatch, start: object, says: str) -> None:
    monkeypatch.setattr(Scripted, "start", start)
    with opened(SETTINGS, [0]) as env, pytest.raises(MalformedStepError, match=says):
        env.reset(poisoned_row(env.spec, 1))


def test_observations_of_bytes_must_have_dtype_uint8(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bytes, "answers", [observation(np.full((2, 2), 300))])
    with opened(named.env(id=f"{__name__}:Bytes"), [0]) as env:
        assert env.spec.observation_dtype == "uint8"
        with pytest.raises(
            MalformedStepError, match="the dtype of observation is 'int64'; by its space it must be uint8"
        ):
            play(env, np.zeros((1, 1), np.int64))


def test_integers_and_float64_become_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scripted, "answers", [observation(np.array([0.1, 2, 3])), observation([1, 2, 3])])
    monkeypatch.setattr(Integers, "answers", [observation(np.array([4, 5, 6], np.int32))])
    with opened(SETTINGS, [0]) as env:
        rows = play(env, np.zeros((2, 1), np.int64))
    assert rows[1].observation.dtype == np.float32
    np.testing.assert_array_equal(rows[1].observation[0], np.array([0.1, 2, 3], np.float32))
    np.testing.assert_array_equal(rows[2].observation[0], [1, 2, 3])
    with opened(named.env(id=f"{__name__}:Integers"), [0]) as env:
        assert env.spec.observation_dtype == "float32"
        np.testing.assert_array_equal(play(env, np.zeros((1, 1), np.int64))[1].observation[0], [4, 5, 6])


NUMBERS = st.one_of(st.integers(), st.floats(), st.floats(width=32).map(np.float32), st.complex_numbers())
ARRAYS = st.lists(st.floats(), min_size=3, max_size=3).map(np.array)
OTHERS = st.one_of(st.none(), st.booleans(), st.text(max_size=3), st.binary(max_size=3), st.just(np.array(None)))
ANYTHING = st.one_of(NUMBERS, ARRAYS, OTHERS, st.lists(st.floats(), max_size=4), st.dictionaries(st.text(), NUMBERS))
FLAG = st.booleans()
ANSWERS = st.one_of(
    ANYTHING,
    st.tuples(ANYTHING, ANYTHING, ANYTHING, ANYTHING, st.just({})),
    st.tuples(st.just(GOOD), ANYTHING, FLAG, FLAG, st.just({})),
    st.tuples(ARRAYS, NUMBERS, FLAG, FLAG, st.just({})),
)


@given(answer=ANSWERS)
@hypothesis_settings(max_examples=examples(1000), deadline=None)
def test_whatever_a_step_returns_gives_a_finite_row_or_is_refused(answer: object) -> None:
    Scripted.answers = (answer,)
    with opened(SETTINGS, [0]) as env:
        row = poisoned_row(env.spec, 1)
        env.reset(row)
        try:
            env.step(np.zeros(1, np.int64), row)
        except MalformedStepError:
            assert row.first.all()
        else:
            assert np.isfinite(row.observation).all() and np.isfinite(row.reward).all() and not row.first.any()


@pytest.fixture
def remembering(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The environments of class Remembers that this test makes."""
    monkeypatch.setattr(Remembers, "there", [])
    return Remembers.there


def test_box_actions_are_clipped_in_a_copy_for_the_environment(remembering: list[Any]) -> None:
    with opened(named.env(id=f"{__name__}:Remembers"), [0, 1]) as env:
        assert env.spec.actions == (2,)
        action = np.array([[0.5, -3.0], [-7.0, 9.0]], np.float32)
        play(env, action[None])
        assert [game.given.tolist() for game in remembering] == [[0.5, 0.0], [-1.0, 5.0]]
        assert all(game.given.dtype == np.float32 for game in remembering)
        assert action.tolist() == [[0.5, -3.0], [-7.0, 9.0]]


def test_scaled_actions_reach_from_bound_to_bound_and_no_further(remembering: list[Any]) -> None:
    with opened(named.env(id=f"{__name__}:Remembers", scale_actions=True), [0, 1]) as env:
        play(env, np.array([[[-1.0, 0.0], [1.0, 7.0]]], np.float32))
        assert [game.given.tolist() for game in remembering] == [[-1.0, 2.5], [1.0, 5.0]]
        assert all(game.given.dtype == np.float32 for game in remembering)
        drawn = np.concatenate([env.random_actions(np.random.default_rng(seed)) for seed in range(50)])
        assert -1.0 <= drawn.min() < -0.9 and 0.9 < drawn.max() <= 1.0


def test_several_choices_reach_the_environment_in_the_form_of_its_space(remembering: list[Any]) -> None:
    for space, expected in (
        (MultiDiscrete([[2, 3], [4, 5]], start=[[1, 1], [0, 0]]), [[2, 3], [3, 4]]),
        (MultiBinary((2, 2)), [[1, 1], [1, 1]]),
    ):
        Remembers.action_space, before = space, Remembers.action_space
        try:
            with opened(named.env(id=f"{__name__}:Remembers"), [0]) as env:
                sizes = env.spec.actions.sizes
                play(env, np.array(sizes)[None, None] - 1)
                assert remembering[-1].given.tolist() == expected
                assert space.contains(remembering[-1].given)
                for action in (np.array([sizes]), -np.ones((1, 4), np.int64)):
                    with pytest.raises(ActionError, match="environment 0: action .* must be below"):
                        env.step(action, poisoned_row(env.spec, 1))
        finally:
            Remembers.action_space = before


class Shifts(Remembers):
    """Converts its action in place."""

    def step(self, action):
        answer = super().step(action.copy())
        action -= 1
        return answer


@pytest.mark.parametrize(
    ("space", "action"),
    [
        (MultiDiscrete([3, 4]), np.array([[[2, 0], [1, 3]]])),
        (MultiBinary(2), np.array([[[1, 0], [0, 1]]])),
        (Box(-9, 9, (2,), np.float32), np.array([[[0.5, -3.0], [1.0, 2.0]]], np.float32)),
    ],
)
def test_an_environment_may_change_its_action_in_place(
    space: Any, action: np.ndarray, remembering: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Shifts, "action_space", space, raising=False)
    before = action.copy()
    with opened(named.env(id=f"{__name__}:Shifts"), [0, 1]) as env:
        play(env, action)
    np.testing.assert_array_equal([game.given for game in remembering], before[0])
    np.testing.assert_array_equal(action, before)


@pytest.mark.parametrize(
    ("action", "says"),
    [
        (np.array([[0.0, 0.0], [0.0, np.nan]], np.float32), r"environment 1: action \[0.0, nan\] must be finite"),
        (np.array([[np.inf, 0.0], [0.0, 0.0]], np.float32), r"environment 0: action \[inf, 0.0\] must be finite"),
        (np.zeros((2, 3), np.float32), r"action is float32\[2, 3\]; it must be floats of shape \[2, 2\]"),
        (np.zeros((2, 2), np.int64), "action is int64"),
    ],
)
def test_invalid_box_actions_are_refused(action: np.ndarray, says: str) -> None:
    with opened(named.env(id=f"{__name__}:Remembers"), [0, 1]) as env:
        row = poisoned_row(env.spec, 2)
        env.reset(row)
        with pytest.raises(ActionError, match=says):
            env.step(action, row)


def test_a_step_that_is_terminated_and_truncated_counts_as_terminated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scripted, "answers", [(GOOD, 1.0, True, True, {})])
    with opened(SETTINGS, [0]) as env:
        last = play(env, np.zeros((1, 1), np.int64))[-1]
    assert last.terminated[0] and not last.truncated[0]


def test_a_truncation_by_the_environment_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scripted, "answers", [GOOD_STEP, (GOOD, 1.0, False, True, {})])
    with opened(SETTINGS, [0]) as env:
        rows = play(env, np.zeros((3, 1), np.int64))
    assert column(rows, "truncated")[:, 0].tolist() == [False, False, True, False]
    assert column(rows, "first")[:, 0].tolist() == [True, False, False, True]


@pytest.mark.parametrize(("limit", "cut"), [(0, 200), (27_000, 200), (50, 50)])
def test_the_shorter_of_the_registered_limit_and_time_limit_steps_holds(limit: int, cut: int) -> None:
    with opened(named.env(id="MountainCar-v0", time_limit_steps=limit), [0]) as env:
        rows = play(env, random_actions(env.spec, 1, 201))
    assert int(np.argmax(column(rows, "truncated")[:, 0])) == cut


def test_games_equal_those_of_gymnasium_itself() -> None:
    with opened(named.env(id="CartPole-v1", time_limit_steps=0), [7, 8]) as env:
        actions = random_actions(env.spec, 2, 150)
        rows = play(env, actions)
    for i, seed in enumerate((7, 8)):
        theirs = gymnasium.make("CartPole-v1")
        expected, _ = theirs.reset(seed=seed)
        over = False
        np.testing.assert_array_equal(rows[0].observation[i], expected)
        for row, action in zip(rows[1:], actions[:, i], strict=True):
            if over:
                (expected, _), over = theirs.reset(), False
            else:
                expected, value, over, _, _ = theirs.step(action)
                assert row.reward[i] == value and row.terminated[i] == over
            np.testing.assert_array_equal(row.observation[i], expected)
        theirs.close()


@pytest.mark.parametrize(
    ("env_id", "says"),
    [
        ("CartPoll-v1", r"'CartPoll-v1' is not registered with gymnasium; did you mean 'CartPole-v\d'"),
        ("CartPole-v9", r"'CartPole-v9' is not registered with gymnasium; did you mean 'CartPole-v\d'"),
        ("x", "'x' is not registered with gymnasium; Ids are like"),
        (
            f"{__name__}:Unbounded",
            r"action space Box.*inf.*; a Box must have one dimension of one or more floats, all with bounds",
        ),
        (f"{__name__}:Image", r"action space Box.*; a Box must have one dimension of one or more floats"),
        (f"{__name__}:Whole", r"action space Box.*int64\); a Box must have one dimension of one or more floats"),
        (f"{__name__}:Nested", r"action space Dict.*; only Discrete, MultiDiscrete, MultiBinary and Box are supported"),
        (f"{__name__}:NoAction", r"action space Box.*; a Box must have one dimension of one or more floats"),
        (f"{__name__}:Blind", r"observation space Box.*; it is empty"),
        (f"{__name__}:Wordy", r"observation space Dict.*; it has no numbers; wrap the environment"),
        (
            f"{__name__}:Endless",
            r"observation space Dict.*; seen in it is neither Box, Discrete.*; wrap the environment",
        ),
        (f"{__name__}:SETTINGS", "it must be a subclass of gymnasium.Env"),
        (
            f"{__name__}:NeedsArgument",
            r"cannot be made with kwargs {}: missing a required argument: 'size'; it takes size",
        ),
    ],
)
@pytest.mark.parametrize("ask", [spec, lambda settings: make(settings, [0])])
def test_an_unusable_id_is_refused_in_one_line(ask, env_id: str, says: str) -> None:
    with pytest.raises(ValueError, match=rf"^env\.id: .*{says}") as caught:
        ask(named.env(id=env_id))
    assert "\n" not in str(caught.value)


class NoAction(Catch):
    """Has actions without numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = Box(-1.0, 1.0, (0,), np.float32)  # type: ignore[assignment]


class Blind(Catch):
    """Has empty observations."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = Box(-1.0, 1.0, (0,), np.float32)


class Vast(Catch):
    """Has bounds of actions whose distance exceeds float32."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = Box(-3e38, 3e38, (2,), np.float32)  # type: ignore[assignment]


class Growing(Catch):
    """Each new instance has one action more."""

    made = 0

    def __init__(self) -> None:
        super().__init__()
        Growing.made += 1
        self.action_space = Discrete(2 + Growing.made)


class Widening(Growing):
    """Observations of each new instance have one number more."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = Discrete(3)
        self.observation_space = Box(0.0, 1.0, (Growing.made,), np.float32)


def test_bounds_too_far_apart_are_refused_if_actions_are_scaled_to_them() -> None:
    settings = GymnasiumSettings(id=f"{__name__}:Vast", scale_actions=True)
    with pytest.raises(
        ValueError, match=r"^env.scale_actions: true cannot scale .*Vast': the bounds of Box.* are too far apart"
    ):
        make(settings, [0])
    make(msgspec.structs.replace(settings, scale_actions=False), [0]).close()


@pytest.mark.parametrize(
    ("name", "says"), [("Growing", "has action space Discrete"), ("Widening", "has observations of shape")]
)
def test_environments_of_one_run_with_different_spaces_are_refused(name: str, says: str) -> None:
    with pytest.raises(ValueError, match=rf"^env.id: environment 1 of .*{name}' {says}.*, but environment 0"):
        make(GymnasiumSettings(id=f"{__name__}:{name}"), [0, 1])


def test_slow_environments_send_heartbeats_between_their_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actorlearn.envs.gymnasium_env.monotonic", lambda: Slow.now_s)
    beats: list[float] = []
    env = make(named.env(id=f"{__name__}:Slow"), range(64), lambda: beats.append(Slow.now_s))
    row = poisoned_row(env.spec, env.count)
    env.reset(row)
    env.step(np.zeros(64, np.int64), row)
    env.restart(np.ones(64, np.bool_), row)
    env.close()
    assert Slow.now_s >= 5 * 64
    assert max(np.diff([0.0, *beats, Slow.now_s])) <= 1.0


def test_quick_environments_send_no_heartbeat_within_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actorlearn.envs.gymnasium_env.monotonic", lambda: 0.0)
    monkeypatch.setattr(Scripted, "answers", ((GOOD, 0.0, False, False, {}),))
    beats: list[int] = []
    env = make(named.env(id=f"{__name__}:Scripted"), range(64), lambda: beats.append(1))
    row = poisoned_row(env.spec, env.count)
    env.reset(row)
    before = len(beats)
    env.step(np.zeros(64, np.int64), row)
    assert len(beats) == before
    env.close()


def test_seeds_are_needed_and_not_negative() -> None:
    with pytest.raises(ValueError, match="seeds: there must be one seed per environment"):
        make(named.env(id="CartPole-v1"), [])
    with pytest.raises(ValueError, match="seed -1 must be 0 or more"):
        make(named.env(id="CartPole-v1"), [-1])


def test_invalid_and_unknown_keys_of_an_environment_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Expected `int` >= 0 - at `\$\.time_limit_steps`"):
        named.env(id="CartPole-v1", time_limit_steps=-1)
    with pytest.raises(ValueError, match="unknown field `frame_skip`"):
        named.env(id="CartPole-v1", frame_skip=4)


def test_neither_torch_nor_ale_is_imported_for_cartpole() -> None:
    code = (
        "import sys; from actorlearn.envs import make, specs;"
        "make.make(specs.GymnasiumSettings(id='CartPole-v1'), [0]).close();"
        "assert 'ale_py' not in sys.modules;"
        "make.make(specs.AtariSettings(id='ALE/Pong-v5'), [0]).close();"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
