"""EnvPool's environments: rows, limits and states, and what is refused before one is made."""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import Any

import msgspec
import numpy as np
import pytest

from actorlearn.envs.interface import MalformedStepError, empty_row
from actorlearn.envs.make import make, make_rendered, spec
from actorlearn.envs.specs import ENVIRONMENTS, EnvPoolSettings
from actorlearn.testing.environment import assert_same, play, random_actions
from tests.envs.playing import needs_envpool, opened


@pytest.mark.parametrize(
    ("env_id", "kind"),
    [
        ("envpool:ALE/Pong-v5", "envpool-atari"),
        ("envpool:CartPole-v1", "envpool"),
        ("ALE/Pong-v5", "atari"),
        ("minigrid:MiniGrid-Empty-5x5-v0", "gymnasium"),
    ],
)
def test_the_id_decides_the_kind_of_an_environment(env_id: str, kind: str) -> None:
    assert ENVIRONMENTS.of(env_id).name == kind


def test_without_envpool_the_error_says_what_to_install() -> None:
    hidden = "import sys; sys.modules['envpool'] = None\n"
    code = f"""{hidden}
from actorlearn.envs.make import spec
from actorlearn.envs.specs import EnvPoolSettings
try:
    spec(EnvPoolSettings(id="envpool:CartPole-v1"))
except ValueError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    assert "env.kind: 'envpool' needs 'envpool', which is not installed: `pip install" in said


@needs_envpool
@pytest.mark.parametrize(
    ("env_id", "kwargs", "says"),
    [
        ("envpool:CartPle-v1", {}, "did you mean 'envpool:CartPole-v1'"),
        ("envpool:Pong-v5", {}, "did you mean 'envpool:ALE/Pong-v5'"),
        ("envpool:Hopper-v4", {"num_threads": 8}, "env.kwargs.num_threads: the topology sets this argument; "),
        (
            "envpool:Hopper-v4",
            {"gravity": 8},
            "env.kwargs.gravity: EnvPool has no such argument; .* takes .*frame_skip",
        ),
        (
            "envpool:Hopper-v4",
            {"xml_file": "nothing.xml"},
            "'envpool:Hopper-v4' cannot be made: .*ParseXML",
        ),
        ("envpool:Hopper-v4", {"frame_stack": 0}, "with kwargs .*: ValueError: frame_stack must be greater than 0"),
        ("envpool:Hopper-v4", {"frame_skip": "two"}, "cannot be made with kwargs {'frame_skip': 'two'}"),
    ],
)
def test_ids_and_arguments_that_envpool_does_not_have_are_refused(
    env_id: str, kwargs: dict[str, object], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        spec(EnvPoolSettings(id=env_id, kwargs=kwargs))


@needs_envpool
def test_a_dict_of_observations_becomes_one_vector() -> None:
    with opened(EnvPoolSettings(id="envpool:CartpoleBalance-v1"), [3, 4]) as env:
        assert env.spec.observation_shape == (5,)
        assert (env.spec.observation_dtype, env.spec.actions) == ("float32", (1,))
        assert env.spec.observation_from == "Dict of position (Box float64[3]), velocity (Box float64[2])"
        rows = play(env, np.zeros((3, 2, 1), np.float32))
    assert all(np.isfinite(row.observation).all() for row in rows)


@needs_envpool
def test_a_step_of_envpools_cartpole_is_that_of_gymnasium() -> None:
    """From the same state, the same action leads to the same next state."""
    import gymnasium

    theirs = gymnasium.make("CartPole-v1").unwrapped
    theirs.reset(seed=0)
    with opened(EnvPoolSettings(id="envpool:CartPole-v1"), [3]) as env:
        rows = play(env, np.ones((8, 1), np.int64))
    for before, after in itertools.pairwise(rows):
        theirs.state = before.observation[0].astype(np.float64)
        observation = theirs.step(1)[0]
        np.testing.assert_allclose(after.observation[0], observation, atol=1e-5)


@needs_envpool
def test_the_shorter_of_the_registered_limit_and_time_limit_steps_holds() -> None:
    for limit, longest in ((0, 200), (50, 50), (900, 200)):
        with opened(EnvPoolSettings(id="envpool:Pendulum-v1", time_limit_steps=limit), [3]) as env:
            rows = play(env, np.zeros((201, 1, 1), np.float32))
        assert [int(row.truncated[0]) for row in rows].index(1) == longest


@needs_envpool
def test_a_game_that_ends_in_the_step_of_the_limit_counts_as_truncated() -> None:
    """EnvPool does not tell the two apart; only for Atari games the emulator is asked (test_envpool_atari.py)."""
    actions = np.ones((30, 1), np.int64)
    with opened(EnvPoolSettings(id="envpool:CartPole-v1"), [3]) as env:
        length = [bool(row.terminated[0]) for row in play(env, actions)].index(True)
    with opened(EnvPoolSettings(id="envpool:CartPole-v1", time_limit_steps=length), [3]) as env:
        last = play(env, actions[:length])[-1]
    assert (bool(last.terminated[0]), bool(last.truncated[0])) == (False, True)


@needs_envpool
@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("module", ["envpool.classic_control", "envpool.mujoco.dmc", "envpool.mujoco.gym"])
def test_every_environment_that_claims_to_be_restorable_continues_exactly(module: str) -> None:
    from envpool.registration import registry

    ids = [env_id for env_id, (found, *_) in registry.specs.items() if found == module]
    assert ids
    for env_id in ids:
        settings = EnvPoolSettings(id=f"envpool:{env_id}", time_limit_steps=15)
        with opened(settings, [3, 4]) as env, opened(settings, [5, 6]) as other:
            actions = random_actions(env.spec, 2, 60)
            play(env, actions[:40])
            other.restore(env.state())
            rows = [[empty_row(each.spec, 2) for _ in range(20)] for each in (env, other)]
            for each, played in zip((env, other), rows, strict=True):
                for action, row in zip(actions[40:], played, strict=True):
                    each.step(action, row)
            assert_same(*rows)


@needs_envpool
def test_a_number_that_is_not_finite_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import envpool

    made = envpool.make_gymnasium
    monkeypatch.setattr(envpool, "make_gymnasium", lambda **arguments: Broken(made(**arguments)))
    with opened(EnvPoolSettings(id="envpool:HalfCheetah-v4"), [3, 4]) as env:
        row = empty_row(env.spec, 2)
        env.reset(row)
        with pytest.raises(MalformedStepError, match=r"environment 1 of 'envpool:HalfCheetah-v4': observation\[5\]"):
            env.step(np.zeros((2, 6), np.float32), row)


class Broken:
    """A pool whose second environment explodes in its first step."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool

    def __getattr__(self, name: str) -> Any:
        return getattr(self.pool, name)

    def step(self, action: np.ndarray) -> tuple[Any, ...]:
        observation, *rest = self.pool.step(action)
        observation[1, 5] = 1e300
        return observation, *rest


@needs_envpool
@pytest.mark.parametrize("env_id", ["envpool:CartPole-v1", "envpool:HalfCheetah-v4", "envpool:CartpoleSwingup-v1"])
def test_rendered_games_give_different_pictures(env_id: str) -> None:
    try:
        env = make_rendered(EnvPoolSettings(id=env_id), [3, 4])
    except ValueError as error:
        pytest.skip(str(error))
    try:
        env.reset(empty_row(env.spec, 2))
        try:
            pictures = env.render()
        except ValueError as error:
            pytest.skip(str(error))
        assert len(pictures) == 2 and pictures[0].shape[2:] == (3,) and pictures[0].dtype == np.uint8
        assert (pictures[0] != pictures[1]).any()
    finally:
        env.close()


@needs_envpool
def test_without_opengl_rendering_mujoco_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    from actorlearn.envs import envpool_env

    monkeypatch.setattr(envpool_env, "DRAWS", False)
    with pytest.raises(ValueError, match="'envpool:Hopper-v4' cannot be rendered: rendering needs libGL.so.1, "):
        make_rendered(EnvPoolSettings(id="envpool:Hopper-v4"), [3])


@needs_envpool
def test_rendering_a_game_that_was_not_made_for_it_is_refused() -> None:
    env = make(EnvPoolSettings(id="envpool:CartPole-v1"), [3])
    try:
        env.reset(empty_row(env.spec, 1))
        with pytest.raises(ValueError, match="'envpool:CartPole-v1' cannot be rendered"):
            env.render()  # type: ignore[attr-defined]
    finally:
        env.close()


def test_keys_of_atari_are_refused_for_other_environments_of_envpool() -> None:
    with pytest.raises(msgspec.ValidationError, match="stack"):
        ENVIRONMENTS.read({"kind": "envpool", "id": "envpool:CartPole-v1", "stack": 4})
