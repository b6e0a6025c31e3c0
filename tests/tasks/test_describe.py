"""Methods that a user's classes lack are told in one line before any process starts, and where they are described."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from actorlearn.envs.specs import ENVIRONMENTS
from actorlearn.tasks import describe
from actorlearn.worker.settings import DescribeSettings
from launch.plan import probe
from launch.topology.load import load, parse
from tests.packages import installed
from tests.sizes import ROOT

CONFIGS = ROOT / "configs"
CLASSES = """
import gymnasium
import torch
from torch import nn
from actorlearn.algorithms.a2c import A2C
from actorlearn.algorithms.dqn import DQN
from actorlearn.algorithms.sac import SAC
from actorlearn.algorithms.settings import AlgorithmSpec, OnPolicySettings
from actorlearn.envs.catch import Catch
from actorlearn.envs.specs import EnvironmentSpec, EnvSettings
from actorlearn.models.specs import ModelSettings

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

class Wrong(Net):
    def __init__(self, observation_shape, heads): raise RuntimeError("no such file")

class OfOneRow(Net):
    def forward(self, observation): return {name: out[:1] for name, out in super().forward(observation).items()}

class NoGradient(Net):
    def forward(self, observation):
        with torch.no_grad():
            return super().forward(observation)

class Forgetful(Net):
    state_size = 4
    def forward(self, observation, state, first):
        outputs = super().forward(observation.flatten(0, 1))
        after = (state * ~first[-1, :, None])
        return {name: out.unflatten(0, observation.shape[:2]) for name, out in outputs.items()}, after

class OddSettings(ModelSettings, frozen=True, kw_only=True):
    phase: complex = 1j

class Odd(Net):
    Settings = OddSettings

class RaisesInReset(Catch):
    def reset(self, *, seed=None, options=None): raise OSError("no licence")

class ReturnsFour(Catch):
    def step(self, action): return super().step(action)[:4]

class LeavesAtOnce(Catch):
    def __init__(self): raise SystemExit(3)

class Prints(Catch):
    def close(self):
        import atexit
        atexit.register(print, "bye")
        print("closing")

class NumbersOfHeads(A2C):
    def heads(self, actions): return {"logits": 3.0}

class UnknownColumn(A2C):
    def columns(self, actions): return {"mine": ("floats", ())}

class UnwrittenColumn(A2C):
    def columns(self, actions): return {"mine": ("float32", ())}

class TooFar(A2C):
    def act(self, outputs, generator, greedy=False): return {"action": torch.tensor([7])}

class Unmasked(A2C):
    def act(self, outputs, generator, greedy=False):
        return super().act({"logits": outputs["logits"]}, generator, greedy)

class NoBatch(A2C):
    def prepare(self, batch, outputs): return None

class NotFinite(A2C):
    def loss(self, outputs, batch, progress):
        loss, metrics = super().loss(outputs, batch, progress)
        return loss / 0, metrics

class OneLossTooFew(DQN):
    def loss(self, outputs, batch, progress): return super().loss(outputs, batch, progress)[0]

class FewPriorities(DQN):
    def loss(self, outputs, batch, progress):
        loss, metrics = super().loss(outputs, batch, progress)
        return loss, {**metrics, "priority": metrics["priority"][:, :1]}

class ActorTwice(SAC):
    def extra_networks(self, actions): return {"actor": super().extra_networks(actions)["critic_1"]}

class DictOfHeads(SAC):
    def extra_networks(self, actions): return {"critic_1": {"value": 1}}

class LossOfNothing(SAC):
    def losses(self, networks, batch, generator, progress):
        losses, metrics = super().losses(networks, batch, generator, progress)
        return {**losses, "critic_3": losses["critic_1"]}, metrics

class WordsForMetrics(A2C):
    def loss(self, outputs, batch, progress):
        loss, metrics = super().loss(outputs, batch, progress)
        return loss, {**metrics, "mood": "good"}

class UnknownDefaults(A2C):
    defaults = {"vector": {"algorithm": {"horizn": 4}}}

class NoMetrics(A2C):
    metrics = ("mood",)

class StepsWithoutAnything:
    def __init__(self, settings, parameters, spread): ...
    def step(self): ...
    def state(self): return {}
    def restore(self, state): ...

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


def probed(overrides: list[str]) -> dict[str, Any]:
    """The description of a topology of Catch with these overrides."""
    topology = parse("env: {id: 'actorlearn.envs.catch:Catch'}", overrides)
    parts = {name: getattr(topology, name) for name in ("env", "model", "algorithm", "optimizer")}
    return describe.run(DescribeSettings(devices={}, **parts))


def described(overrides: list[str]) -> str:
    """The error of a topology of Catch with these overrides; empty where its parts can all be made."""
    try:
        probed(overrides)
    except ValueError as refused:  # by the topology, or by describe
        return str(refused)
    return ""


@pytest.mark.usefixtures("misfits")
@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("env.id=misfits:NoStep", ["env.id: 'misfits:NoStep' does not define step", "gymnasium.Env"]),
        ("env.id=misfits:NoEnv", ["must be a subclass of gymnasium.Env"]),
        ("algorithm.name=misfits:NoHeads", ["lacks heads", "actorlearn/algorithms/interface.py"]),
        ("algorithm.name=misfits:HEADLESS", ["misfits:NoHeads lacks heads", "actorlearn/algorithms/interface.py"]),
        ("algorithm.name=misfits:NoNumber", ["lacks the integer prepared_rows", "interface.py"]),
        ("model.name=misfits:NoModule", ["lacks forward, parameters", "actorlearn/models/interface.py"]),
        ("model.name=misfits:NoArguments", ["Name(observation_shape, heads)", "actorlearn/models/interface.py"]),
        ("model.name=misfits:NoForward", ["NoForward", "forward"]),
        ("model.name=misfits:NoValue", ["returns logits, but not the head value", "actorlearn/models/interface.py"]),
        ("model.name=misfits:NoDict", ["returns Tensor", "actorlearn/models/interface.py"]),
        ("model.name=misfits:Narrow", ["returns logits as torch.float32 [2, 1], not float32 [2, 3]"]),
        ("model.name=misfits:Wrong", ["'misfits:Wrong' cannot be made: RuntimeError: no such file (misfits.py, line"]),
        ("model.name=misfits:OfOneRow", ["returns logits as torch.float32 [1, 3], not float32 [2, 3]"]),
        ("model.name=misfits:NoGradient", ["returns outputs without a gradient"]),
        ("model.name=misfits:Forgetful", ["returns the state after with values that are not finite"]),
        ("model.name=misfits:Odd", ["its key phase has type complex, which no topology can contain"]),
        ("env.id=misfits:RaisesInReset", ["cannot be reset: OSError: no licence (misfits.py, line"]),
        ("env.id=misfits:ReturnsFour", ["env.id: environment 0 of 'misfits:ReturnsFour': step() is", "5 values"]),
        ("env.id=misfits:LeavesAtOnce", ["env.id: 'misfits:LeavesAtOnce' cannot be made: SystemExit: 3"]),
        ("algorithm.name=misfits:NumbersOfHeads", ["heads returns {'logits': 3.0}; it must map the name of each"]),
        ("algorithm.name=misfits:UnknownColumn", ["columns returns 'mine': ('floats', ())", "numpy dtype name"]),
        (
            "algorithm.name=misfits:UnwrittenColumn",
            ["act returns action; it must return action and ['mine'] (columns)"],
        ),
        ("algorithm.name=misfits:TooFar", ["cannot act", "action 7 must be in 0 … 2"]),
        ("algorithm.name=misfits:NoBatch", ["prepare returns NoneType; it must be a Batch"]),
        ("algorithm.name=misfits:NotFinite", ["its loss is", "must be finite"]),
        ("algorithm.name=misfits:OneLossTooFew", ["'misfits:OneLossTooFew' cannot learn from a batch: TypeError"]),
        ("algorithm.name=misfits:FewPriorities", ["the metric priority as torch.float32 [1, 1], not float32 [1, 2]"]),
        (
            "algorithm.name=misfits:WordsForMetrics",
            ["its metric 'mood' is 'good'; it must be a detached tensor of one number"],
        ),
        ("algorithm.name=misfits:UnknownDefaults", ["its defaults of vector have 'horizn', which its settings lack"]),
        ("algorithm.name=misfits:NoMetrics", ["its metrics contain 'mood', which is not a Metric"]),
        ("optimizer.name=misfits:StepsWithoutAnything", ["cannot take a step: TypeError", "optim/interface.py"]),
        ("optimizer.name=misfits:NoModule", ["lacks step, state, restore", "actorlearn/optim/interface.py"]),
    ],
)
def test_a_class_that_does_not_fit_is_refused_by_what_it_lacks(override: str, says: list[str]) -> None:
    line = described([override])
    assert [words for words in says if words not in line] == [], line
    assert "\n" not in line


@pytest.mark.usefixtures("misfits")
def test_a_class_that_fits_is_described() -> None:
    assert probed(["model.name=misfits:Net", "model.normalize_observation=false"])["weights"] == 101 * 4


@pytest.mark.parametrize(
    "keys",
    [["name=vaco"], ["name=ppo", "proximal=recomputed"], ["name=ppo", "advantages=vtrace"]],
)
def test_a_horizon_of_one_step_will_do_where_outputs_of_the_last_row_are_needed(keys: list[str]) -> None:
    assert described([f"algorithm.{key}" for key in (*keys, "horizon=1")]) == ""


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["optimizer.groups.actor.learning_rate=0.1"], "'actor' is not a network of the algorithm, which has only one"),
        (
            ["env.id=Pendulum-v1", "algorithm.name=sac", "optimizer.groups.temprature.learning_rate=0.1"],
            "networks are actor, critic_1, critic_2, temperature; did you mean temperature?",
        ),
        (["env.id=Pendulum-v1", "algorithm.name=sac", "optimizer.groups.temperature.learning_rate=0.1"], ""),
    ],
)
def test_a_parameter_group_is_a_network_of_the_algorithm(overrides: list[str], says: str) -> None:
    line = described(overrides)
    assert says in line and bool(says) == bool(line)


@pytest.mark.usefixtures("misfits")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("ActorTwice", "extra_networks returns 'actor'; a name must be an identifier other than 'actor'"),
        ("DictOfHeads", "extra_networks returns {'critic_1': {'value': 1}}; it must map names to ExtraNetwork"),
        ("LossOfNothing", "losses returns a loss for 'critic_3', which is not one of actor, critic_1, critic_2, "),
    ],
)
def test_an_algorithm_of_several_networks_is_refused_too(name: str, says: str) -> None:
    line = described(["env.id=Pendulum-v1", f"algorithm.name=misfits:{name}", "env.scale_actions=true"])
    assert f"algorithm.name: 'misfits:{name}'" in line and says in line


@pytest.mark.usefixtures("misfits")
def test_an_algorithm_that_does_not_read_masks_is_refused_for_environments_that_have_them() -> None:
    masked = ["env.id=tests.envs.doors:Doors", "algorithm.name=misfits:Unmasked"]
    assert "act chooses actions that are not valid (env.action_mask: info" in described(masked)
    assert described([*masked, "env.action_mask=none"]) == ""
    sac = described(["env.id=Pendulum-v1", "algorithm.name=sac", "env.scale_actions=true", "env.action_mask=info"])
    assert "env.action_mask: 'info': only choices can be masked, but 'Pendulum-v1' has a Box of shape [1]" in sac


@pytest.mark.usefixtures("misfits")
@pytest.mark.parametrize("key", ["env.id", "model.name", "algorithm.name", "optimizer.name"])
def test_a_module_that_ends_the_process_that_imports_it_is_refused(key: str, tmp_path: Path) -> None:
    (tmp_path / "leaves.py").write_text("raise SystemExit(3)")
    assert "importing 'leaves' fails: SystemExit: 3" in described([f"{key}=leaves:X"])


@pytest.mark.filterwarnings("ignore:.*precision lowered by casting:UserWarning")  # by gymnasium's RescaleObservation
@pytest.mark.parametrize("config", sorted(CONFIGS.rglob("*.yaml")), ids=lambda path: path.stem)
def test_what_is_shipped_fits(config: Path) -> None:
    topology = load(config)
    for package in ENVIRONMENTS.spec(topology.env.kind).needs:
        pytest.importorskip(package.replace("-", "_"))
    parts = {name: getattr(topology, name) for name in ("env", "model", "algorithm", "optimizer")}
    try:
        assert describe.run(DescribeSettings(devices={}, **parts))["weights"]
    except ValueError as error:
        if "install" not in str(error):
            raise
        pytest.skip(str(error))


@pytest.mark.usefixtures("misfits")
def test_an_environment_may_print_what_it_likes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{tmp_path}")
    assert probe.describe(parse("env: {id: 'misfits:Prints'}")).actions == 3


@pytest.mark.usefixtures("misfits")
def test_a_kind_of_environments_without_its_two_functions_is_refused() -> None:
    from misfits import KIND  # type: ignore[import-not-found]

    with pytest.raises(ValueError, match=r"env.kind: 'k': misfits lacks make, spec \(actorlearn/envs/make.py"):
        KIND.load()
