"""Methods that a user's classes lack are told in one line before any process starts, and where they are described."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actorlearn.tasks import describe
from actorlearn.worker.settings import DescribeSettings
from launch.topology.load import TopologyError, parse
from tests.packages import installed

CLASSES = """
import gymnasium
import torch
from torch import nn
from actorlearn.algorithms.settings import AlgorithmSpec, OnPolicySettings
from actorlearn.envs.catch import Catch
from actorlearn.envs.specs import EnvironmentSpec, EnvSettings

class NoStep(gymnasium.Env):
    observation_space, action_space = Catch().observation_space, Catch().action_space
    def reset(self, *, seed=None, options=None): ...

class NoEnv: ...

class NoHeads:
    def columns(self, actions): ...
    act = prepare = loss = columns

class NoNumber:
    def __init__(self, settings): ...
    def heads(self, actions): ...
    columns = act = prepare = loss = heads

HEADLESS = AlgorithmSpec(name="headless", settings=OnPolicySettings, made_by="misfits:NoHeads")

class NoModule: ...

class Net(nn.Module):
    def __init__(self, observation_shape, heads):
        super().__init__()
        self.layers = nn.ModuleDict({name: nn.Linear(100, size) for name, size in heads.items()})
    def forward(self, observation):
        return {name: layer(observation.flatten(1) / 255) for name, layer in self.layers.items()}

class NoArguments(Net):
    def __init__(self): ...

class NoForward(Net):
    forward = nn.Module.forward

class NoValue(Net):
    def forward(self, observation): return {"logits": super().forward(observation)["logits"]}

class NoDict(Net):
    def forward(self, observation): return super().forward(observation)["logits"]

class Narrow(Net):
    def forward(self, observation): return {name: out[:, :1] for name, out in super().forward(observation).items()}

class KindSettings(EnvSettings, frozen=True, kw_only=True): ...

KIND = EnvironmentSpec(name="k", settings=KindSettings, made_by="misfits", prefix="misfits/", example="misfits/x")
"""

Refusal = Callable[[list[str]], str]


@pytest.fixture
def misfits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module of classes that do not fit."""
    (tmp_path / "misfits.py").write_text(CLASSES)
    installed(tmp_path, "[actorlearn.algorithms]\nheadless = misfits:HEADLESS\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("misfits", None)


def described(overrides: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The error of a topology of Catch with these overrides; empty where its parts can all be made."""
    try:
        topology = parse("env: {id: 'actorlearn.envs.catch:Catch'}", overrides)
        parts = {name: getattr(topology, name) for name in ("env", "model", "algorithm", "optimizer")}
        describe.run(DescribeSettings(devices={}, **parts))
    except TopologyError as refused:
        return str(refused)
    except SystemExit as ended:
        assert ended.code == 2
        return str(json.loads(capsys.readouterr().out)["error"])
    return ""


@pytest.mark.usefixtures("misfits")
@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("env.id=misfits:NoStep", ["env.id: 'misfits:NoStep' lacks step", "gymnasium.Env"]),
        ("env.id=misfits:NoEnv", ["must be a subclass of gymnasium.Env"]),
        ("algorithm.name=misfits:NoHeads", ["lacks heads", "actorlearn/algorithms/interface.py"]),
        ("algorithm.name=misfits:HEADLESS", ["misfits:NoHeads lacks heads", "actorlearn/algorithms/interface.py"]),
        ("algorithm.name=misfits:NoNumber", ["lacks the whole number prepared_rows", "interface.py"]),
        ("model.name=misfits:NoModule", ["lacks forward, parameters", "actorlearn/models/interface.py"]),
        ("model.name=misfits:NoArguments", ["Name(observation_shape, heads)", "actorlearn/models/interface.py"]),
        ("model.name=misfits:NoForward", ["NoForward", "forward"]),
        ("model.name=misfits:NoValue", ["returns logits and no value", "actorlearn/models/interface.py"]),
        ("model.name=misfits:NoDict", ["returns Tensor", "actorlearn/models/interface.py"]),
        ("model.name=misfits:Narrow", ["returns logits as torch.float32 [1, 1], not float32 [1, 3]"]),
        ("optimizer.name=misfits:NoModule", ["lacks step, state, restore", "actorlearn/optim/interface.py"]),
    ],
)
def test_a_class_that_does_not_fit_is_refused_by_what_it_lacks(
    override: str, says: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    line = described([override], capsys)
    assert [words for words in says if words not in line] == [], line
    assert "\n" not in line


@pytest.mark.usefixtures("misfits")
def test_a_class_that_fits_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert described(["model.name=misfits:Net"], capsys) == ""
    assert json.loads(capsys.readouterr().out)["weights"] == 101 * 4


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["optimizer.groups.actor.learning_rate=0.1"], "'actor' is no network of the algorithm, which has only one"),
        (
            ["env.id=Pendulum-v1", "algorithm.name=sac", "optimizer.groups.temprature.learning_rate=0.1"],
            "networks are actor, critic_1, critic_2, temperature; did you mean temperature?",
        ),
        (["env.id=Pendulum-v1", "algorithm.name=sac", "optimizer.groups.temperature.learning_rate=0.1"], ""),
    ],
)
def test_a_parameter_group_is_a_network_of_the_algorithm(
    overrides: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = described(overrides, capsys)
    assert says in line and bool(says) == bool(line)


@pytest.mark.usefixtures("misfits")
def test_a_kind_of_environments_without_its_two_functions_is_refused() -> None:
    from misfits import KIND  # type: ignore[import-not-found]

    with pytest.raises(ValueError, match=r"env.kind: 'k': misfits lacks make, spec \(actorlearn/envs/make.py"):
        KIND.load()
