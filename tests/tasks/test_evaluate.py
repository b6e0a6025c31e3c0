"""Which checkpoints an evaluation plays: the run's newest, or the newest of each learner that is still there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from actorlearn.parameters import checkpoint
from actorlearn.parameters.checkpoint_folders import CheckpointError
from actorlearn.parameters.chosen_checkpoints import Best, write_best
from actorlearn.tasks.evaluate import newest_of_each, opened, read_chosen, refuse_changed
from tests import named
from tests.acting.policies import policy_settings

THREE_ACTIONS = """
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.spaces import Discrete


class Actions(CartPoleEnv):
    def __init__(self, **_):
        super().__init__()
        self.action_space = Discrete(3)
"""


def save(folder: Path, env_steps: int, **state: Any) -> None:
    weights = {"weights.w": torch.full((2,), float(env_steps))}
    checkpoint.save(folder, env_steps, weights, {"env_steps": env_steps, "policy_version": 1, **state}, keep=3)


def steps(folder: Path, behind_steps: int | None) -> dict[str, int]:
    return {name: own.state["env_steps"] for name, own in newest_of_each(folder, behind_steps)[0].items()}


def test_the_newest_of_each_learner_and_none_that_has_left(tmp_path: Path) -> None:
    for folder, env_steps in (("", 100), ("", 900), ("learner-1", 1000), ("learner-2", 300), ("learner-3", 850)):
        save(tmp_path / folder, env_steps)
    assert steps(tmp_path, 200) == {"trainer-0": 900, "trainer-1": 1000, "trainer-3": 850}
    assert steps(tmp_path, 100) == {"trainer-0": 900, "trainer-1": 1000}
    assert steps(tmp_path, None) == {"trainer-0": 900}


def test_a_learner_that_has_left_is_not_played_with_a_named_checkpoint_of_the_others(tmp_path: Path) -> None:
    for folder, env_steps in (("", 100), ("", 900), ("", 1000), ("learner-1", 950), ("learner-2", 300)):
        save(tmp_path / folder, env_steps)
    write_best(tmp_path, Best(env_steps=890, score=1.0, by="evaluation"))
    for at, first in (("best", 900), (1000, 1000)):
        played, _ = opened(tmp_path, 200, at)
        assert {name: own.state["env_steps"] for name, own in played.items()} == {"trainer-0": first, "trainer-1": 950}
    assert set(opened(tmp_path, 200, 100)[0]) == {"trainer-0", "trainer-2"}


def test_a_checkpoint_from_after_the_first_learner_left_is_played_with_those_near_it(tmp_path: Path) -> None:
    for folder, env_steps in (("", 200), ("learner-1", 1000), ("learner-2", 950)):
        save(tmp_path / folder, env_steps)
    write_best(tmp_path, Best(env_steps=890, score=1.0, by="evaluation"))
    for at in ("best", 1000):
        played, _ = opened(tmp_path, 200, at)
        assert {name: own.state["env_steps"] for name, own in played.items()} == {"trainer-1": 1000, "trainer-2": 950}


def test_learners_of_equal_weights_are_played_by_one_that_went_on_when_the_first_was_lost(tmp_path: Path) -> None:
    for folder in ("", "learner-1"):
        save(tmp_path / folder, 100, learners=[0, 1])
    save(tmp_path / "learner-1", 900, learners=[1])
    assert steps(tmp_path, None) == {"trainer-1": 900}
    write_best(tmp_path, Best(env_steps=890, score=1.0, by="evaluation"))
    for at, expected in (("newest", 900), ("best", 900), (900, 900), (100, 100)):
        played, _ = opened(tmp_path, None, at)
        assert [own.state["env_steps"] for own in played.values()] == [expected]
    save(tmp_path / "learner-1", 950, learners=[0, 1])  # the first has come back, and saves now
    save(tmp_path, 950, learners=[0, 1])
    save(tmp_path, 990, learners=[0, 1])
    assert steps(tmp_path, None) == {"trainer-0": 990}


def test_a_learner_without_a_valid_checkpoint_is_left_out_and_all_without_are_an_error(tmp_path: Path) -> None:
    save(tmp_path / "learner-1", 500)
    (tmp_path / "learner-2" / "000000000700").mkdir(parents=True)
    assert steps(tmp_path, 100) == {"trainer-1": 500}
    with pytest.raises(CheckpointError, match="none found"):
        newest_of_each(tmp_path / "empty", 100)
    with pytest.raises(CheckpointError, match="none found"):
        newest_of_each(tmp_path, None)


def test_a_chosen_checkpoint_that_the_run_has_removed_is_told(tmp_path: Path) -> None:
    save(tmp_path, 100)
    assert read_chosen(tmp_path / "000000000100").state["env_steps"] == 100
    with pytest.raises(ValueError, match=r"/000000000050 has been removed: the run still saves .*; try again"):
        read_chosen(tmp_path / "000000000050")


@pytest.mark.parametrize(
    ("env_id", "said"),
    [
        ("Acrobot-v1", r"its observations are float32\[6\], and were float32\[4\] in training"),
        ("three_actions:Actions", r"its actions are 3 .*, and were 2 .* in training"),
    ],
)
def test_an_environment_that_has_changed_since_training_is_refused(
    env_id: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "three_actions.py").write_text(THREE_ACTIONS)
    monkeypatch.syspath_prepend(tmp_path)
    refuse_changed(named.env(id="CartPole-v1"), policy_settings())
    with pytest.raises(ValueError, match=said):
        refuse_changed(named.env(id=env_id), policy_settings())


def test_damaged_checkpoints_are_told(tmp_path: Path) -> None:
    for folder, env_steps in (("", 100), ("", 200), ("learner-1", 150)):
        save(tmp_path / folder, env_steps)
    for damaged in ("000000000200", "learner-1/000000000150"):
        (tmp_path / damaged / "tensors.safetensors").write_bytes(b"")
    found, (newer, only) = newest_of_each(tmp_path, 100)
    assert [own.path.name for own in found.values()] == ["000000000100"]
    assert newer.startswith(
        f"{tmp_path.name}/000000000200 is damaged, so {tmp_path.name}/000000000100 is used instead: "
    )
    assert "learner-1: no valid checkpoint (learner-1/000000000150: tensors.safetensors has 0 bytes" in only
