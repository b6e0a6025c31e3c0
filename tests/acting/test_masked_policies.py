"""Policies outside and inside a run never choose an invalid action: thousands of draws in a game that would end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.vector import SyncVectorEnv

import actorlearn
from actorlearn.acting.loaded import LoadedPolicy
from actorlearn.acting.policy import Policy
from actorlearn.envs.interface import empty_row
from actorlearn.envs.make import make, spec
from actorlearn.worker.settings import PolicySettings
from tests import named
from tests.acting.policies import run_folder
from tests.envs.doors import DOORS, ROOMS, Strict


def settings_of(env: Any, algorithm: str, **model: Any) -> PolicySettings:
    found = spec(env)
    return PolicySettings(
        observation_shape=found.observation_shape,
        observation_dtype=found.observation_dtype,
        actions=found.actions,
        action_mask=found.action_mask,
        model=named.model("mlp", hidden_sizes=[8], **model),
        algorithm=named.algorithm(algorithm),
    )


def game(source: str = "info", **kwargs: Any) -> Any:
    return named.env("tests.envs.doors:Strict", action_mask=source, kwargs={"source": source, **kwargs})


def loaded(folder: Path, env: Any, algorithm: str = "ppo", **model: Any) -> LoadedPolicy:
    run_folder(folder, settings_of(env, algorithm, **model), env=env)
    return actorlearn.load_policy(folder)


@pytest.mark.parametrize("algorithm", ["ppo", "dqn", "c51", "pqn"])
@pytest.mark.parametrize("greedy", [False, True])
def test_in_a_run_and_in_evaluations(algorithm: str, greedy: bool) -> None:
    policy, env = Policy(settings_of(game(), algorithm), "cpu", 0, stream=0), make(game(), range(32))
    row = empty_row(env.spec, env.count)
    env.reset(row)
    for moment in range(100):  # 3,200 actions, of which one that is not valid would raise
        epsilon = torch.full((32,), 0.5) if moment % 2 else None
        env.step(
            policy.choose(torch.from_numpy(row.observation), moment, greedy, epsilon=epsilon)["action"].numpy(), row
        )
    env.close()


@pytest.mark.parametrize("source", ["info", "observation"])
@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("greedy", [False, True])
def test_a_loaded_policy_plays_the_environment_itself(tmp_path: Path, source: str, pairs: bool, greedy: bool) -> None:
    policy = loaded(tmp_path / "run", game(source, pairs=pairs))
    scores = policy.play(Strict(source, pairs=pairs), 100, greedy=greedy)
    assert len(scores) == 100


def test_a_loaded_policy_with_memory_acts_for_many(tmp_path: Path) -> None:
    policy = loaded(tmp_path / "run", game(), "ppo", recurrence="gru", recurrent_size=4)
    vector = SyncVectorEnv([Strict] * 16)
    observation, info = vector.reset(seed=0)
    ended = np.ones(16, np.bool_)
    for _ in range(100):
        # A game's last mask has no valid action; the vector ignores the action chosen there.
        mask = np.where(ended[:, None] & ~info["action_mask"].any(1, keepdims=True), 1, info["action_mask"])
        observation, _, over, cut, info = vector.step(policy.act(observation, first=ended, action_mask=mask))
        ended = over | cut


def test_a_policy_says_which_mask_it_needs(tmp_path: Path) -> None:
    by_info, by_observation = loaded(tmp_path / "a", game()), loaded(tmp_path / "b", game("observation"))
    seen, info = Strict().reset()
    with pytest.raises(ValueError, match=r"pass action_mask=info\['action_mask'\]"):
        by_info.act(seen)
    with pytest.raises(ValueError, match=r"action_mask is \[1, 0\]; it must be 40 numbers"):
        by_info.act(seen, action_mask=[1, 0])
    with pytest.raises(ValueError, match=r'info\["action_mask"\] has no valid action'):
        by_info.act(seen, action_mask=np.zeros(DOORS))
    with pytest.raises(ValueError, match="expects masks of valid actions in the observations"):
        by_observation.act(Strict("observation").reset()[0], action_mask=info["action_mask"])
    assert Strict().there[0, by_info.act(seen, action_mask=info["action_mask"])]
    assert seen.shape == (ROOMS + 1,)


def test_masks_of_several_observations_are_checked_like_one(tmp_path: Path) -> None:
    policy, (seen, info) = loaded(tmp_path, game()), Strict().reset()
    many, masks = np.stack([seen] * 3), np.stack([info["action_mask"]] * 3)
    with pytest.raises(
        ValueError, match=r"(?s)action_mask is .*; it must be 3 masks of 40 numbers, one for each choice"
    ):
        policy.act(many, action_mask=masks[:2])
    with pytest.raises(ValueError, match=r"(?s)action_mask is .*; it must be 3 masks of 40 numbers"):
        policy.act(many, action_mask=info["action_mask"])
    with pytest.raises(
        ValueError, match="(?s)action_mask is .*; each cell must be 1 for a valid choice and 0 for another"
    ):
        policy.act(many, action_mask=masks * 2)
    with pytest.raises(
        ValueError, match="(?s)action_mask is .*; each cell must be 1 for a valid choice and 0 for another"
    ):
        policy.act(seen, action_mask=info["action_mask"] * 2)
    with pytest.raises(ValueError, match="action_mask: these observations already contain their masks; leave"):
        policy.act(np.concatenate([many, masks], axis=1), action_mask=masks)


def forms(masks: np.ndarray) -> list[tuple[Any, Any]]:
    """Return one mask and a batch of masks of `pairs` in each form that they may have."""
    parts = np.split(masks, [DOORS], axis=1)
    objects = np.empty(len(masks), object)
    objects[:] = [tuple(np.split(mask, [DOORS])) for mask in masks]
    return [
        (masks[0], masks),
        (masks[0].tolist(), masks.tolist()),
        (tuple(masks[0].tolist()), [tuple(mask) for mask in masks.tolist()]),
        (tuple(part[0] for part in parts), tuple(parts)),
        ([part[0] for part in parts], objects),
        ([part[0].tolist() for part in parts], list(objects)),
    ]


def test_a_loaded_policy_reads_masks_in_every_form(tmp_path: Path) -> None:
    policy, single = loaded(tmp_path, game(pairs=True)), Strict(pairs=True)
    seen, info = single.reset()
    masks = np.stack([info["action_mask"], np.roll(info["action_mask"], 1)]) | np.eye(
        1, DOORS + 2, DOORS, dtype=np.int8
    )
    expected = [policy.act(seen, greedy=True, action_mask=mask).tolist() for mask in masks]
    assert expected[0] != expected[1]
    for one, batch in forms(masks):
        assert policy.act(seen, greedy=True, action_mask=one).tolist() == expected[0]
        assert policy.act(np.stack([seen] * 2), greedy=True, action_mask=batch).tolist() == expected


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_the_player_of_an_exported_policy_reads_them_too(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    from actorlearn.acting.exported import write
    from actorlearn.acting.play import OnnxPolicy
    from actorlearn.envs.recipe import recipe

    policy = loaded(tmp_path / "run", game(pairs=True))
    write(policy, recipe(policy.env), tmp_path / "policy.onnx")
    player, (seen, info) = OnnxPolicy(tmp_path / "policy.onnx"), Strict(pairs=True).reset()
    masks = np.stack([info["action_mask"], np.roll(info["action_mask"], 1)]) | np.eye(
        1, DOORS + 2, DOORS, dtype=np.int8
    )
    many = np.stack([seen] * 2)
    expected = policy.act(many, greedy=True, action_mask=masks).tolist()
    for one, batch in forms(masks):
        assert player.act(seen, action_mask=one).tolist() == expected[0]
        assert player.act(many, action_mask=batch).tolist() == expected


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("source", "pairs", "model"),
    [("info", False, {}), ("observation", True, {"recurrence": "gru", "recurrent_size": 4})],
)
def test_an_exported_policy_plays(tmp_path: Path, source: str, pairs: bool, model: dict[str, Any]) -> None:
    pytest.importorskip("onnxruntime")
    from actorlearn.acting.exported import write
    from actorlearn.acting.play import OnnxPolicy, play
    from actorlearn.envs.recipe import recipe

    policy = loaded(tmp_path / "run", game(source, pairs=pairs), **model)
    write(policy, recipe(policy.env), tmp_path / "policy.onnx")
    player = OnnxPolicy(tmp_path / "policy.onnx")
    assert play(player, 300, seed=0) == policy.play(Strict(source, pairs=pairs), 300, greedy=True)
    if source == "info":
        with pytest.raises(ValueError, match=r"pass action_mask=info\['action_mask'\]"):
            player.act(Strict().reset()[0])
