"""A policy loaded from a run folder: it acts as the run's would, alone and with memory, and refuses what is no run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import msgspec
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, VectorEnv

import actorlearn
from actorlearn.parameters.checkpoint_folders import CheckpointError
from actorlearn.parameters.chosen_checkpoints import Best, write_best
from tests import named
from tests.acting.policies import policy_settings, remembering, run_folder, save_policy


def test_it_acts_with_the_weights_of_the_checkpoint(tmp_path: Path) -> None:
    trained = run_folder(tmp_path, policy_settings())
    loaded = actorlearn.load_policy(tmp_path, seed=5)
    assert (loaded.env_steps, loaded.checkpoint.name) == (500, "000000000500")
    games = loaded.environments(3, seed=1)
    assert games.count == 3 and games.spec.observation_shape == (4,)
    assert repr(games) == "<GymnasiumVector 3 x CartPole-v1: observation float32[4], 2 discrete actions>"
    assert repr(loaded) == f"<LoadedPolicy mlp for CartPole-v1: 500 steps, from {loaded.checkpoint}>"
    observation = np.random.default_rng(0).normal(size=(64, 4))
    expected = trained.choose(torch.from_numpy(observation).float(), 0, greedy=True)["action"]
    assert loaded.act(observation, greedy=True).tolist() == expected.tolist()
    sampled = [actorlearn.load_policy(str(tmp_path), seed=seed).act(observation).tolist() for seed in (5, 5, 6)]
    assert sampled[0] == sampled[1] != sampled[2]
    assert set(loaded.network(torch.zeros(2, 4))) == {"logits", "value"}


def test_the_name_of_acting_in_another_library_is_answered_with_ours(tmp_path: Path) -> None:
    run_folder(tmp_path, policy_settings())
    loaded = actorlearn.load_policy(tmp_path)
    with pytest.raises(AttributeError, match=r"has no predict; write act\(observation, greedy=True\)"):
        loaded.predict(np.zeros(4))  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="'LoadedPolicy' object has no attribute 'forget'"):
        loaded.forget()  # type: ignore[attr-defined]


def test_memory_is_carried_from_call_to_call_and_cleared_where_a_game_begins(tmp_path: Path) -> None:
    trained = run_folder(tmp_path, remembering())
    loaded = actorlearn.load_policy(tmp_path)
    random, state = np.random.default_rng(0), torch.full((8, 4), torch.nan)
    for moment in range(6):
        observation = random.normal(size=(8, 4)).astype(np.float32)
        begins = np.full(8, moment == 0) | (np.arange(8) == moment)
        chosen = trained.choose(torch.from_numpy(observation), moment, True, state, torch.from_numpy(begins))
        state = chosen["state"]
        found = loaded.act(observation, greedy=True, first=None if moment == 0 else begins)
        assert found.tolist() == chosen["action"].tolist(), f"call {moment}"


def test_one_observation_of_the_environment_gives_one_action_that_its_step_accepts(tmp_path: Path) -> None:
    trained = run_folder(tmp_path, policy_settings())
    loaded = actorlearn.load_policy(tmp_path)
    observation, _ = gymnasium.make("CartPole-v1").reset(seed=1)
    expected = trained.choose(torch.from_numpy(observation)[None], 0, greedy=True)["action"].tolist()
    assert [loaded.act(observation, greedy=True)] == expected
    assert loaded.act(observation[None], greedy=True).tolist() == expected


class Parts(gymnasium.Env[dict[str, Any], Any]):
    """An image, a number and a choice as a Dict; an action is a float from 10 to 20; a game has three steps."""

    observation_space = gymnasium.spaces.Dict(
        image=gymnasium.spaces.Box(0, 255, (2, 2, 3), np.uint8),
        number=gymnasium.spaces.Box(-1, 1, (1,), np.float32),
        choice=gymnasium.spaces.Discrete(3),
    )
    action_space = gymnasium.spaces.Box(10.0, 20.0, (1,), np.float32)
    taken: ClassVar[list[Any]] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), "scaled to the bounds, in the dtype of the space"
        self.taken.append(action)
        self.steps += 1
        return self.observation_space.sample(), 1.0, self.steps == 3, False, {}


def test_a_dict_of_image_and_numbers_is_played_as_the_environment_gives_it(tmp_path: Path) -> None:
    env = named.env(f"{__name__}:Parts", scale_actions=True)
    run_folder(tmp_path, policy_settings(numbers=16, actions=(1,), algorithm="ppo"), env=env)
    loaded = actorlearn.load_policy(tmp_path)
    assert loaded.play(Parts(), episodes=2, greedy=True) == [3.0, 3.0]
    assert len(Parts.taken) == 6
    observation, _ = Parts().reset(seed=0)
    rows = np.concatenate(
        [np.ravel(observation["image"]) / 255, observation["number"], np.eye(3)[observation["choice"]]]
    )
    rows = rows.astype(np.float32)[None]
    scaled = 10 + (loaded.act(rows, greedy=True) + 1) / 2 * 10
    assert np.allclose(loaded.act(observation, greedy=True), np.clip(scaled, 10, 20)[0])


def test_a_missing_part_of_a_dict_is_named_in_one_line(tmp_path: Path) -> None:
    env = named.env(f"{__name__}:Parts", scale_actions=True)
    run_folder(tmp_path, policy_settings(numbers=16, actions=(1,), algorithm="ppo"), env=env)
    loaded = actorlearn.load_policy(tmp_path)
    whole, _ = Parts().reset(seed=0)
    with pytest.raises(ValueError) as raised:
        loaded.act({"image": whole["image"], "number": whole["number"]})
    said = "the list of keys of observation is ['image', 'number']; by its space it must contain 'choice'"
    assert str(raised.value) == said
    with pytest.raises(ValueError, match="observation is array.* by its space it must contain 'image'") as raised:
        loaded.act(np.zeros((9, 9)))
    assert "\n" not in str(raised.value) and "pass N rows of shape [16]" in str(raised.value)


class Board(gymnasium.Env[Any, Any]):
    """A board of 2 x 2 zeros and ones, which has as many dimensions as rows of vectors; a game has one step."""

    observation_space = gymnasium.spaces.MultiBinary((2, 2))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.eye(2, dtype=np.int8), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.eye(2, dtype=np.int8), 1.0, True, False, {}


def test_an_observation_with_as_many_dimensions_as_rows_is_one_observation(tmp_path: Path) -> None:
    run_folder(tmp_path, policy_settings(), env=named.env(f"{__name__}:Board"))
    assert actorlearn.load_policy(tmp_path).play(Board()) == [1.0]


class Together(VectorEnv[Any, Any, Any]):
    """Environments that can only be stepped together; their actions are 1 and 2."""

    metadata: ClassVar[dict[str, Any]] = {"autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self.single_observation_space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)
        self.single_action_space = gymnasium.spaces.Discrete(2, start=1)


@pytest.mark.parametrize(
    "keys", [{"id": f"{__name__}:Together"}, {"id": "a-label", "vector": f"{__name__}:Together"}], ids=["id", "vector"]
)
def test_a_policy_of_a_vector_class_acts_on_one_observation(tmp_path: Path, keys: dict[str, str]) -> None:
    run_folder(tmp_path, policy_settings(), env=named.env(**keys))
    loaded = actorlearn.load_policy(tmp_path)
    observations = np.random.default_rng(0).uniform(-1, 1, (20, 4)).astype(np.float32)
    expected = loaded.act(observations, greedy=True) + 1
    assert [loaded.act(observation, greedy=True) for observation in observations] == expected.tolist()
    assert set(expected.tolist()) == {1, 2}


class Thermometer(gymnasium.Env[Any, Any]):
    """An observation is one number, without a dimension; a game has one step."""

    observation_space = gymnasium.spaces.Box(-1, 1, (), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return np.float32(0.5), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.float32(0.5), 1.0, True, False, {}


def test_a_number_without_a_dimension_is_one_observation(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(policy_settings(), observation_shape=())
    run_folder(tmp_path, settings, env=named.env(f"{__name__}:Thermometer"))
    loaded = actorlearn.load_policy(tmp_path)
    assert loaded.play(Thermometer(), episodes=2) == [1.0, 1.0]
    assert loaded.act(np.zeros(3, np.float32), greedy=True).shape == (3,)


@pytest.mark.parametrize(
    ("observation", "error", "said"),
    [
        (np.zeros(5, np.float32), ValueError, r"shape of observation is \(5,\); by its space it must be \(4,\)"),
        (np.zeros((2, 5)), ValueError, r"is \(2, 5\); by its space .* pass N rows of shape \[4\]"),
        (0.0, ValueError, r"shape of observation is \(\)"),
        ({"seen": 0}, ValueError, "by its space it must be"),
        (np.zeros((2, 4), complex), TypeError, "float32"),
    ],
)
def test_other_observations_are_refused(tmp_path: Path, observation: Any, error: type[Exception], said: str) -> None:
    run_folder(tmp_path, policy_settings())
    with pytest.raises(error, match=said):
        actorlearn.load_policy(tmp_path).act(observation)


def test_the_beginning_of_a_name_is_answered_with_the_whole_one(tmp_path: Path) -> None:
    run_folder(tmp_path / "multi-policy-1", policy_settings())
    with pytest.raises(ValueError, match="did you mean .*multi-policy-1\\?"):
        actorlearn.load_policy(tmp_path / "multi")


def test_a_run_is_loaded_by_its_name_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``actorlearn.open`` and all commands find it."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs" / "named-policy-20260101-000000"
    run_folder(folder, policy_settings())
    (folder / "meta.json").write_text("{}")
    for word in ("named-policy", "named-pol", folder.name, f"runs/{folder.name}"):
        assert actorlearn.load_policy(word).checkpoint.resolve().is_relative_to(folder)
    with pytest.raises(ValueError, match="'pong-policy' is neither a run folder nor the beginning of a run's name"):
        actorlearn.load_policy("pong-policy")


def test_folders_without_a_policy_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not the folder of a run: it has no policy.json"):
        actorlearn.load_policy(tmp_path)
    run_folder(tmp_path, policy_settings())
    with pytest.raises(CheckpointError, match="learner-1: no valid checkpoint"):
        actorlearn.load_policy(tmp_path, learner=1)
    (tmp_path / "policy.json").write_text("{}")
    with pytest.raises(ValueError, match="policy.json.*env"):
        actorlearn.load_policy(tmp_path)


@pytest.mark.parametrize("own_weights", [False, True])
def test_the_policy_of_learners_of_equal_weights_is_that_of_one_that_went_on_without_the_first(
    own_weights: bool, tmp_path: Path
) -> None:
    run_folder(tmp_path, policy_settings(), own_weights=own_weights)
    save_policy(tmp_path / "checkpoints" / "learner-1", policy_settings(), 900, seed=4, learners=[1])
    assert actorlearn.load_policy(tmp_path).env_steps == (500 if own_weights else 900)
    assert actorlearn.load_policy(tmp_path, learner=1).env_steps == 900


def test_the_policy_of_a_run_whose_first_learner_has_left_is_that_of_the_next(tmp_path: Path) -> None:
    run_folder(tmp_path, policy_settings(), own_weights=True, behind_steps=20)
    for learner, env_steps in ((2, 520), (1, 515)):  # they save at different steps
        save_policy(tmp_path / "checkpoints" / f"learner-{learner}", policy_settings(), env_steps, seed=learner)
    assert actorlearn.load_policy(tmp_path).env_steps == 500
    save_policy(tmp_path / "checkpoints" / "learner-2", policy_settings(), 521, seed=4)
    write_best(tmp_path / "checkpoints", Best(510, 3.0, "evaluation"))
    for at, expected in (("newest", 515), ("best", 515), (521, 521), (500, 500)):
        assert actorlearn.load_policy(tmp_path, at=at).env_steps == expected
    assert actorlearn.load_policy(tmp_path, learner=0).env_steps == 500
    with pytest.raises(ValueError, match="at best: no checkpoint is as new as the best score"):
        actorlearn.load_policy(tmp_path, learner=0, at="best")


def test_importing_the_package_loads_no_torch() -> None:
    program = "import sys, actorlearn; assert actorlearn.load_policy and 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
