"""Arguments of ``train`` and ``start`` give the topology and the errors that the same keys give on the command line."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from actorlearn.envs.catch import Catch
from launch.errors import RunError
from launch.python import asked, child
from launch.python.asked import First
from launch.topology.load import TopologyError, load

KEYS = {"algorithm.horizon": 64, "optimizer.learning_rate": 1e-4, "env.kwargs": {"render_mode": None}, "seed": 5}


def test_an_id_and_keys_give_the_topology_that_the_command_line_gives(tmp_path: Path) -> None:
    (tmp_path / "cart.yaml").write_text("env: {id: CartPole-v1}\n")
    words = ["algorithm.name=ppo", "algorithm.horizon=64", "optimizer.learning_rate=1e-4"]
    expected = load(tmp_path / "cart.yaml", [*words, "env.kwargs={render_mode: null}", "seed=5"])
    wanted = asked.read("CartPole-v1", "ppo", KEYS)
    assert wanted.check() == expected
    assert load(wanted.write(tmp_path), wanted.overrides) == expected
    for first in (tmp_path / "cart.yaml", str(tmp_path / "cart.yaml"), {"env": {"id": "CartPole-v1"}}):
        assert asked.read(first, "ppo", KEYS).check() == expected


def test_a_key_of_the_mixed_network_is_accepted_before_the_observations_are_known() -> None:
    """The default network depends on the observations, which are known only when the run starts."""
    wanted = asked.read("tests.envs.parts:Parts", "ppo", {"model.image_features": 64})
    assert wanted.check().algorithm.name == "ppo"
    with pytest.raises(TopologyError, match=r"^argument: model\.image_feature = 64"):
        asked.read("tests.envs.parts:Parts", "ppo", {"model.image_feature": 64}).check()


def test_a_dict_is_read_like_a_topology_file() -> None:
    """Keys of the dict that another algorithm does not read are left out; such keys of the call are refused."""
    given = {"env": {"id": "CartPole-v1"}, "algorithm": {"name": "ppo", "ratio_clip": 0.3}}
    assert asked.read(given, None, {}).check().algorithm.ratio_clip == 0.3
    assert asked.read(given, "a2c", {}).check().left_out.keys() == {"algorithm.ratio_clip"}
    with pytest.raises(TopologyError, match=r"^argument: algorithm\.ratio_clip = 0.3"):
        asked.read("CartPole-v1", "a2c", {"algorithm.ratio_clip": 0.3}).check()


@pytest.mark.parametrize(
    ("value", "plain"),
    [(np.int64(3), 3), (np.float32(0.5), 0.5), ((1, 2), [1, 2]), (Path("a b"), "a b"), ("1", "1"), (None, None)],
)
def test_values_of_numpy_and_python_types_reach_the_topology_unchanged(value: object, plain: object) -> None:
    wanted = asked.read("CartPole-v1", None, {"env.kwargs.given": value})
    assert wanted.check().env.kwargs == {"given": plain}


@pytest.mark.parametrize(
    ("first", "keys", "said"),
    [
        ("CartPole-v1", {"simulators.cout": 2}, "argument: 'simulators.cout=2'.*did you mean simulators.count?"),
        ("CartPole-v1", {"total_steps": -1}, "argument: total_steps = -1: must be at least"),
        ({"env": {"id": "CartPole-v1"}, "sed": 1}, {}, "argument: sed = 1.*did you mean seed?"),
        ("nowhere.yaml", {}, "nowhere.yaml: No such file or directory"),
    ],
)
def test_a_wrong_request_is_one_line_with_value_rule_and_remedy(first: object, keys: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        asked.read(first, None, keys).check()


def test_an_environment_object_is_refused_with_the_id_or_function_to_give_instead() -> None:
    env = gymnasium.make("CartPole-v1")
    with pytest.raises(
        RunError, match=r'give its id "CartPole-v1", or a function, for .* lambda: gymnasium.make\("Cart'
    ):
        asked.read(env, None, {})
    env.unwrapped.spec = None
    with pytest.raises(RunError, match="simulators make their own: give its class, or a function"):
        asked.read(env.unwrapped, None, {})
    env.close()
    with pytest.raises(RunError, match="5 names no environment"):
        asked.read(5, None, {})


def test_a_wrong_callback_name_and_a_key_with_underscores_suggest_the_right_names() -> None:
    with pytest.raises(RunError, match="callback is no argument .* on_report, on_evaluation or on_checkpoint"):
        asked.read("CartPole-v1", None, {"callback": print})
    with pytest.raises(TopologyError, match=r"did you mean algorithm\.horizon\?"):
        asked.read("CartPole-v1", None, {"algorithm__horizon": 4}).check()


def test_an_importable_class_is_given_by_its_name_and_another_class_is_pickled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asked.read(Catch, None, {}).given == {"env": {"id": "actorlearn.envs.catch:Catch"}}
    monkeypatch.setattr(Catch, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "Catch", Catch, raising=False)
    wanted = asked.read(Catch, "ppo", {"env.kwargs": {"rows": 5}})
    loaded = load(wanted.write(tmp_path), wanted.overrides)
    assert loaded.env.id == "actorlearn.envs.pickled:Catch" and loaded.name == "Catch-ppo"
    assert loaded.env.kwargs.keys() == {"file", "sha256", "rows"}
    assert Path(loaded.env.kwargs["file"]).is_file()


@pytest.mark.parametrize(
    ("first", "keys", "said"),
    [
        ({"env": {"id": "CartPole-v1"}, "seed": -1}, {}, "argument: seed = -1: must"),
        ("CartPole-v1", {"seed": -1}, "argument: seed = -1: must"),
        ("CartPole-v1", {"@seeds.txt": 1}, "argument: '@seeds.txt=1': a topology has no key"),
        (Path("other.yaml"), {}, "other.yaml:1: seed = -1: must"),
    ],
)
def test_an_error_of_the_supervisor_names_the_argument(
    first: First, keys: dict, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.yaml").write_text("{env: {id: CartPole-v1}, seed: -1}")
    wanted, (reads, writes) = asked.read(first, None, keys), os.pipe()
    words = [override.text for override in wanted.overrides]
    with pytest.raises(TopologyError):
        child.supervise(tmp_path, wanted.write(tmp_path), words, writes, None)
    told = json.loads(os.read(reads, 10_000))
    os.close(reads)
    assert told["text"].startswith(said) and told["wrong"]


def test_an_algorithm_that_is_given_twice_must_be_the_same() -> None:
    assert asked.read("CartPole-v1", "ppo", {"algorithm.name": "ppo"}).check().algorithm.name == "ppo"
    said = r"algorithm='ppo' and 'algorithm.name': 'a2c': given twice; leave one of the two out"
    with pytest.raises(RunError, match=said):
        asked.read("CartPole-v1", "ppo", {"algorithm.name": "a2c"})


def test_whole_floats_are_accepted_as_integers() -> None:
    wanted = asked.read("CartPole-v1", None, {"total_steps": 1e6, "seed": np.float64(3.0)}).check()
    assert (wanted.total_steps, wanted.seed) == (1_000_000, 3)
