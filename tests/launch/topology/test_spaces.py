"""Defaults that depend on an environment's spaces; the environment is made only if a key depends on them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from actorlearn.algorithms.settings import ALGORITHMS
from actorlearn.observation_parts import ImagePart
from launch.topology import load, spaces
from launch.topology.defaults import Spaces
from launch.topology.load import Topology, TopologyError

PENDULUM = "env: {id: Pendulum-v1}\nalgorithm: {name: ppo}\ntotal_steps: 100_000\n"
CONTINUOUS = ALGORITHMS.spec("ppo").defaults["continuous"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "three-keys.yaml"
    path.write_text(PENDULUM)
    return path


def has_the_numbers_of(topology: Topology, sections: Mapping[str, Mapping[str, Any]]) -> bool:
    return all(
        getattr(getattr(topology, name), key) == value for name, keys in sections.items() for key, value in keys.items()
    )


def test_an_environment_with_a_box_of_actions_has_the_defaults_of_continuous_control(file: Path) -> None:
    assert has_the_numbers_of(load.load(file), CONTINUOUS)


def test_an_environment_with_discrete_actions_has_other_defaults(file: Path) -> None:
    made = load.load(file, ["env.id=CartPole-v1"])
    assert made == load.parse(PENDULUM, ["env.id=CartPole-v1"])
    assert not has_the_numbers_of(made, CONTINUOUS)


def test_keys_that_are_set_are_kept_and_only_missing_keys_get_defaults(file: Path) -> None:
    made = load.load(file, ["algorithm.reward_clip=null", "model.normalize_observation=false"])
    assert made.algorithm.reward_clip is None
    assert not made.model.normalize_observation
    assert made.algorithm.horizon == CONTINUOUS["algorithm"]["horizon"]


def test_a_text_is_parsed_without_making_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spaces, "ask", refuse_to_be_asked)
    assert not has_the_numbers_of(load.parse(PENDULUM), CONTINUOUS)


def test_the_environment_of_a_complete_topology_is_not_made(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = load.load(file)
    file.write_text(load.dump(whole))
    monkeypatch.setattr(spaces, "ask", refuse_to_be_asked)
    assert load.load(file) == whole


def test_games_of_ale_are_not_made(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spaces, "ask", refuse_to_be_asked)
    load.load(file, ["env.id=ALE/Pong-v5"])


@pytest.mark.parametrize("env_id", ["NoSuchTask-v1", "no_such_package:Class"])
def test_an_environment_that_cannot_be_made_has_the_defaults_that_its_id_implies(env_id: str, file: Path) -> None:
    assert load.load(file, [f"env.id={env_id}"]) == load.parse(PENDULUM, [f"env.id={env_id}"])


PARTS = "env.id=tests.envs.parts:Parts"


@pytest.mark.parametrize("algorithm", ["ppo", "a2c", "dqn", "sac"])
def test_an_image_in_a_dict_gets_a_network_with_convolutions(algorithm: str, file: Path) -> None:
    made = load.load(file, [PARTS, f"algorithm.name={algorithm}"])
    assert made.model.name == "mixed"
    assert made.model.images == (ImagePart(0, (16, 16, 1)),)  # type: ignore[attr-defined]
    file.write_text(load.dump(made))
    assert load.load(file) == made


def test_a_network_that_is_set_is_kept(file: Path) -> None:
    assert load.load(file, [PARTS, "model.name=mlp"]).model.name == "mlp"


def test_a_wrong_key_of_the_environment_is_reported_as_written(file: Path) -> None:
    with pytest.raises(TopologyError, match="env has no key 'colour'|section env has no key 'colour'"):
        load.load(file, ["env={id: Pendulum-v1, colour: red}"])


def refuse_to_be_asked(env: Mapping[str, Any]) -> Spaces:
    raise AssertionError(f"the environment was made: {env}")


@pytest.mark.parametrize(("keys", "normalized"), [([], True), (["model.name=nature"], False)])
def test_observations_of_networks_of_images_are_normalized_only_if_the_topology_says_so(
    keys: list[str], normalized: bool
) -> None:
    ppo = ["env.id=CartPole-v1", "algorithm.name=ppo", *keys]
    assert load.parse(PENDULUM, ppo).model.normalize_observation is normalized
    assert load.parse(PENDULUM, [*ppo, "model.normalize_observation=true"]).model.normalize_observation
