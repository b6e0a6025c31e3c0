"""Exported policies: ONNX gives torch's own actions for each kind of network, and plays without actorlearn."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import msgspec
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from gymnasium.vector.utils import batch_space, iterate
from safetensors.torch import load_file

import actorlearn
from actorlearn.actions import MultiDiscrete as Parts
from actorlearn.envs import pickled
from actorlearn.envs.interface import empty_row
from actorlearn.envs.recipe import Recipe, recipe
from actorlearn.tasks import export as task
from actorlearn.worker.settings import ExportSettings, PolicySettings
from tests import named
from tests.acting.policies import policy_settings, remembering, run_folder
from tests.envs.spaces import of

for package in ("onnx", "onnxscript", "onnxruntime"):
    pytest.importorskip(package, reason=f"{package} is not installed: pip install 'actorlearn[onnx]'")
exported: Any = importlib.import_module("actorlearn.acting.exported")
play: Any = importlib.import_module("actorlearn.acting.play")

WITHOUT = "import sys; sys.modules['actorlearn'] = None; sys.path.insert(0, sys.argv[1]); import play\n"
"""Beginning of a program that finds the exported folder, and no actorlearn."""
UNKNOWN = Recipe(missing="it is not known here")


def mlp(**keys: Any) -> dict[str, Any]:
    return {"model": named.model("mlp", hidden_sizes=[8], **keys)}


def images(network: str, **keys: Any) -> dict[str, Any]:
    seen = {"observation_shape": (4, 84, 84), "observation_dtype": "uint8"}
    return {"model": named.model(network, **keys), **seen}


KINDS: dict[str, PolicySettings] = {
    "choices": policy_settings(),
    "choices of several parts": policy_settings(actions=Parts((3, 2))),
    "numbers, normalised": msgspec.structs.replace(
        policy_settings(actions=(2,), algorithm="ppo"), **mlp(normalize_observation=True)
    ),
    "sac": policy_settings(actions=(2,), algorithm="sac"),
    "gru": remembering(),
    "lstm, normalised": msgspec.structs.replace(
        policy_settings(), **mlp(recurrence="lstm", recurrent_size=4, normalize_observation=True)
    ),
    "dqn, noisy": msgspec.structs.replace(policy_settings(algorithm="dqn"), **mlp(noisy=0.5)),
    "c51, dueling": msgspec.structs.replace(
        policy_settings(), **images("nature"), algorithm=named.algorithm("c51", dueling=True)
    ),
    "r2d1": msgspec.structs.replace(
        policy_settings(), **images("nature", recurrence="lstm", recurrent_size=8), algorithm=named.algorithm("r2d1")
    ),
    "pqn": msgspec.structs.replace(
        policy_settings(), **images("minatar", layer_norm=True), algorithm=named.algorithm("pqn")
    ),
    **{
        network: msgspec.structs.replace(policy_settings(actions=6), **images(network))
        for network in ("a3c", "ba3c", "dqn-net", "gala", "impala", "minatar", "nips")
    },
}
QUICK = ("numbers, normalised", "gru")
"""Kinds that are tried by day; exporting one takes seconds."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind in QUICK else [pytest.mark.nightly]) for kind in KINDS]
)
def test_the_file_gives_the_networks_own_actions(tmp_path: Path, kind: str) -> None:
    settings = KINDS[kind]
    run_folder(tmp_path, settings)
    loaded = actorlearn.load_policy(tmp_path)
    exported.write(loaded, UNKNOWN, tmp_path / "policy.onnx")
    player, random = play.OnnxPolicy(tmp_path / "policy.onnx"), np.random.default_rng(5)
    for moment in range(3):
        rows = random.integers(256, size=(5, *settings.observation_shape))
        observation = (rows / (256.0 if settings.observation_dtype == "float32" else 1)).astype(
            settings.observation_dtype
        )
        first = np.full(5, moment == 0) | (np.arange(5) == moment)
        action = player.act(observation, first)
        expected = loaded.act(observation, greedy=True, first=first)
        assert action.dtype == expected.dtype and action.shape == expected.shape
        np.testing.assert_allclose(action, expected, rtol=1e-4, atol=1e-5)
    assert player.about["not_made"] == UNKNOWN.missing


def test_a_layer_that_onnx_has_not_is_told_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_folder(tmp_path, policy_settings())
    loaded = actorlearn.load_policy(tmp_path)

    def branch(outputs: Any, generator: Any, greedy: bool = False) -> dict[str, Any]:
        logits = outputs["logits"]
        return {"action": logits.argmax(-1) if logits[0, 0] > 0 else logits.argmin(-1)}

    monkeypatch.setattr(loaded.algorithm, "act", branch)
    with pytest.raises(exported.ExportError, match="the policy cannot be written as ONNX: ") as error:
        exported.write(loaded, UNKNOWN, tmp_path / "policy.onnx")
    assert len(str(error.value).splitlines()) == 1


def export(run_dir: Path, folder: Path) -> dict[str, Any]:
    """Export and return the answer."""
    folder.mkdir()
    return task.run(ExportSettings(run_dir=str(run_dir), learner=0, folder=str(folder), onnx=True))


OWN = """
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv


class Own(CartPoleEnv):
    def __init__(self, goal=1):
        super().__init__()
        self.goal, self.steps = goal, 0

    def step(self, action):
        self.steps += 1
        seen, *_ = super().step(action)
        return seen, 1.0, self.steps % self.goal == 0, False, {}
"""
ALONE = (
    "import runpy, sys; sys.modules['actorlearn'] = None; sys.argv = sys.argv[1:]; "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)


def played(folder: Path, cwd: Path) -> str:
    """Play three games with an exported folder, without actorlearn, and return what it prints."""
    command = [sys.executable, "-c", ALONE, str(folder / "play.py"), "3"]
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=bare, check=False)
    return done.stdout + done.stderr


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_the_player_finds_an_own_module_in_the_folder_in_which_it_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "mine")
    (tmp_path / "mine" / "own_pole.py").write_text(OWN)
    env = named.env("own_pole:Own", kwargs={"goal": 7})
    run_folder(tmp_path / "run", policy_settings(), env=env)
    assert export(tmp_path / "run", tmp_path / "out")["not_made"] == ""
    assert played(tmp_path / "out", tmp_path / "mine") == "3 games: mean score 7.00, standard deviation 0.00\n"


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_the_player_reads_a_stored_class_from_its_own_folder(tmp_path: Path) -> None:
    found: dict[str, Any] = {"__name__": "__main__"}
    exec(OWN, found)
    (tmp_path / "run").mkdir()
    file = tmp_path / "run" / pickled.FILE
    sha256 = pickled.write(found["Own"], file)
    env = named.env("actorlearn.envs.pickled:Own", kwargs={"file": str(file), "sha256": sha256, "goal": 5})
    run_folder(tmp_path / "run", policy_settings(), env=env)
    assert export(tmp_path / "run", tmp_path / "out")["not_made"] == ""
    shutil.rmtree(tmp_path / "run")  # the export is complete without the run
    (tmp_path / "out").rename(tmp_path / "elsewhere")
    assert played(tmp_path / "elsewhere", tmp_path) == "3 games: mean score 5.00, standard deviation 0.00\n"
    (tmp_path / "elsewhere" / pickled.FILE).write_bytes(b"another")
    assert "environment.pickle was changed after the export" in played(tmp_path / "elsewhere", tmp_path)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "settings",
    [pytest.param(policy_settings(), id="alone"), pytest.param(remembering(), id="gru", marks=pytest.mark.nightly)],
)
def test_it_plays_cartpole_without_actorlearn_as_it_does_with_it(tmp_path: Path, settings: PolicySettings) -> None:
    run_folder(tmp_path / "run", settings)
    answer = export(tmp_path / "run", tmp_path / "out")
    assert (answer["env_steps"], answer["not_made"]) == (500, "")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        *("play.py", "policy.onnx", "weights.safetensors")
    ]
    program = WITHOUT + (
        "import json\n"
        "try:\n    import actorlearn\nexcept ImportError:\n    pass\nelse:\n    sys.exit('it was found')\n"
        "policy, seen = play.OnnxPolicy(), []\n"
        "act = policy.act\n"
        "def told(observation, first, action_mask):\n"
        "    action = act(observation, first)\n"
        "    seen.append((observation.tolist(), first, int(action)))\n"
        "    return action\n"
        "policy.act = told\n"
        "scores = play.play(policy, 4, seed=7)\n"
        "print(json.dumps({'seen': seen, 'scores': scores, 'torch': 'torch' in sys.modules}))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    played = json.loads(done.stdout)
    assert not played["torch"]
    loaded = actorlearn.load_policy(tmp_path / "run")
    for observation, first, action in played["seen"]:
        assert loaded.act(np.asarray(observation, np.float32), greedy=True, first=first) == action
    assert played["scores"] == loaded.play(gymnasium.make("CartPole-v1"), 4, greedy=True, seed=7)


def test_weights_alone_need_no_onnx(tmp_path: Path) -> None:
    trained = run_folder(tmp_path / "run", policy_settings())
    (tmp_path / "out").mkdir()
    wanted = ExportSettings(run_dir=str(tmp_path / "run"), learner=0, folder=str(tmp_path / "out"), onnx=False)
    (tmp_path / "export.json").write_bytes(msgspec.json.encode(wanted))
    command = [sys.executable, "-m", "actorlearn.processes", "export", str(tmp_path / "export.json")]  # as the command
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1])["env_steps"] == 500
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["weights.safetensors"]
    found = load_file(tmp_path / "out" / "weights.safetensors")
    own = trained.network.state_dict()
    assert found.keys() == own.keys() and all(found[name].equal(own[name]) for name in own)


IMAGE = Box(0, 255, (12, 10, 3), np.uint8)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("observations", "shape", "actions", "chosen", "scales"),
    [
        pytest.param(Discrete(5), (5,), Discrete(3, start=2), 3, False, id="from a start"),
        pytest.param(
            Box(-1, 1, (2, 2)), (2, 2), Box(-2.0, np.array([4.0, 8.0], np.float32)), (2,), True, id="stretched",
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            Dict({"a": Discrete(2), "b": Box(-1, 1, (2,))}), (4,),
            MultiDiscrete([[2, 3], [4, 5]], start=[[1, 1], [0, 0]]), Parts((2, 3, 4, 5)), False,
            id="in its shape", marks=pytest.mark.nightly,
        ),
    ],
)  # fmt: skip
def test_actions_are_those_that_the_environment_takes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    observations: Any,
    shape: Any,
    actions: Any,
    chosen: Any,
    scales: bool,
) -> None:
    keys = {"scale_actions": True} if scales else {}
    env = of(monkeypatch, observations, actions, time_limit_steps=9, **keys)
    found = recipe(env)
    assert not found.missing
    settings = msgspec.structs.replace(policy_settings(actions=chosen), observation_shape=shape)
    run_folder(tmp_path, settings, env=env)
    exported.write(actorlearn.load_policy(tmp_path), found, tmp_path / "policy.onnx")
    assert play.play(play.OnnxPolicy(tmp_path / "policy.onnx"), 2, seed=3) == [9.0, 9.0]


@pytest.mark.parametrize(
    ("name", "chosen", "keys"),
    [
        pytest.param("Counted", 3, {}, id="integers from 2", marks=pytest.mark.nightly),
        pytest.param("Steered", (2,), {"scale_actions": True}, id="stretched"),
    ],
)
def test_observations_and_actions_are_those_of_an_environment_of_dm_env(
    tmp_path: Path, name: str, chosen: Any, keys: dict[str, Any]
) -> None:
    env = named.env(f"tests.envs.test_dm_env:{name}", **keys)
    settings = msgspec.structs.replace(policy_settings(actions=chosen), observation_shape=(2,))
    run_folder(tmp_path, settings, env=env)
    loaded = actorlearn.load_policy(tmp_path)
    exported.write(loaded, recipe(env), tmp_path / "policy.onnx")
    player = play.OnnxPolicy(tmp_path / "policy.onnx")
    for place in (-3.0, 0.0, 5.0):
        observation = {"place": np.array([place]), "door": np.array(place > 0)}
        np.testing.assert_allclose(player.act(observation), loaded.act(observation, greedy=True), rtol=1e-4, atol=1e-5)
    assert "only actorlearn makes environments of dm_env" in player.about["not_made"]


MIXED = Dict(
    {
        "image": Box(0, 255, (4, 3, 3), np.uint8),
        "said": Text(5),
        "speeds": Tuple((Box(-1, 1, (2,)), Discrete(3, start=1))),
        "switches": MultiBinary(3),
        "open": Box(0, 1, (2,), np.bool_),
        "levels": MultiDiscrete([2, 3], start=[0, 4]),
    }
)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("space", "shape", "keys"),
    [
        pytest.param(MIXED, (51,), {}, id="a dict"),
        pytest.param(
            Dict({"screen": Box(0, 1, (12, 10, 3), np.bool_)}),
            (3, 12, 10),
            {"model": named.model("minatar"), "observation_dtype": "uint8"},
            id="a dict of one image",
        ),
    ],
)
def test_the_player_makes_the_rows_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, space: Any, shape: tuple[int, ...], keys: dict[str, Any]
) -> None:
    env = of(monkeypatch, space, Discrete(3, start=2), time_limit_steps=9)
    settings = msgspec.structs.replace(policy_settings(actions=3), observation_shape=shape, **keys)
    run_folder(tmp_path, settings, env=env)
    loaded = actorlearn.load_policy(tmp_path)
    exported.write(loaded, recipe(env), tmp_path / "policy.onnx")
    player, games = play.OnnxPolicy(tmp_path / "policy.onnx"), loaded.environments(1, seed=3)
    row = empty_row(games.spec, 1)
    games.reset(row)
    space.seed(3)
    found, single = player.rows(space.sample())
    assert single and found.dtype == row.observation.dtype
    np.testing.assert_array_equal(np.moveaxis(found, -1, 1) if found.ndim > 2 else found, row.observation)
    together = batch_space(space, 6)
    together.seed(0)
    batch = together.sample()
    expected = [loaded.act(each, greedy=True) for each in iterate(together, batch)]
    assert player.act(batch).tolist() == expected
    assert [player.act(each) for each in iterate(together, batch)] == expected
    assert play.play(player, 2, seed=3) == [9.0, 9.0]


def test_an_observation_of_another_shape_is_refused_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = Dict({"image": IMAGE, "speed": Box(-1, 1, (2,))})
    env = of(monkeypatch, space, Discrete(2))
    run_folder(tmp_path, msgspec.structs.replace(policy_settings(), observation_shape=(362,)), env=env)
    exported.write(actorlearn.load_policy(tmp_path), recipe(env), tmp_path / "policy.onnx")
    turned = {"image": np.zeros((3, 12, 10), np.uint8), "speed": np.zeros(2, np.float32)}
    with pytest.raises(ValueError, match=r"observation\['image'\] has shape \[3, 12, 10\]; it must be \[12, 10, 3\]"):
        play.OnnxPolicy(tmp_path / "policy.onnx").act(turned)


@pytest.mark.nightly
def test_images_come_as_the_environment_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = of(monkeypatch, IMAGE, Discrete(2))
    assert recipe(env).channels_last
    settings = msgspec.structs.replace(
        policy_settings(), model=named.model("minatar"), observation_shape=(3, 12, 10), observation_dtype="uint8"
    )
    run_folder(tmp_path, settings, env=env)
    loaded = actorlearn.load_policy(tmp_path)
    exported.write(loaded, recipe(env), tmp_path / "policy.onnx")
    images = np.random.default_rng(0).integers(256, size=(6, *IMAGE.shape), dtype=np.uint8)
    expected = loaded.act(np.moveaxis(images, -1, 1), greedy=True)
    player = play.OnnxPolicy(tmp_path / "policy.onnx")
    assert player.act(images).tolist() == [player.act(image) for image in images] == expected.tolist()
