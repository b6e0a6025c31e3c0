"""Registries: what is shipped comes in by entry points, and a stranger's too, or by name; what does not fit is told."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actorlearn.algorithms.settings import ALGORITHMS, AlgorithmSpec, OffPolicySettings, OnPolicySettings
from actorlearn.envs.specs import ENVIRONMENTS, FINER, EnvironmentSpec, EnvSettings
from actorlearn.models.specs import MODELS
from actorlearn.optim.specs import OPTIMIZERS
from actorlearn.registry import Registry, Spec
from launch.topology.load import parse
from tests.loaded import modules_after
from tests.packages import installed
from tests.sizes import ROOT

NAMED: list[Registry[Any]] = [ALGORITHMS, MODELS, OPTIMIZERS]

STRANGERS = """
import msgspec
from typing import Annotated
from actorlearn.algorithms.settings import AlgorithmSpec, HardCopySettings, OnPolicySettings
from actorlearn.models.specs import ModelSettings

class Mine:
    by_ratio = True
    class Settings(OnPolicySettings, frozen=True, kw_only=True):
        temperature: Annotated[float, msgspec.Meta(gt=0, description="of the policy")] = 1.0
    def heads(self): ...
    columns = act = prepare = loss = heads

class Plain:
    def heads(self): ...
    columns = act = prepare = loss = heads

class Replayed(Plain):
    replayed = True

class ByItsSettings(Plain):
    class Settings(HardCopySettings, frozen=True, kw_only=True): ...

class Half:
    def heads(self): ...

class Wrong(Plain):
    Settings = ModelSettings

SPEC = AlgorithmSpec(name="mine", settings=Mine.Settings, made_by="strangers:Mine", defaults={"atari": {}})
number = 3
def factory(): ...

"""


@pytest.fixture
def strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "strangers.py").write_text(STRANGERS)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("strangers", None)


def test_everything_that_is_shipped_can_be_made_and_is_called_what_its_tag_says() -> None:
    assert set(ALGORITHMS.names()) == {"a2c", "ppo", "pqn", "impala", "dqn", "c51", "r2d1", "sac", "vaco"}
    assert set(OPTIMIZERS.names()) == {"rmsprop", "adam"}
    for registry in [*NAMED, ENVIRONMENTS]:
        assert [entry.load().name for entry in registry.entries()] == list(registry.names())
        assert all(callable(spec.load()) or spec.load().make for spec in registry.specs() if _is_here(spec))
        assert {entry.distribution for entry in registry.entries()} == {"actorlearn"}
    for registry in NAMED:
        for spec in registry.specs():
            written = {"name": spec.name, **msgspec.to_builtins(spec.settings())}
            assert msgspec.convert(written, spec.settings) == spec.settings()
            assert spec.settings().name == spec.name


def _is_here(spec: Spec) -> bool:
    """Whether all that it needs is installed: some kinds of environments are extras."""
    return all(find_spec(name.replace("-", "_")) for name in getattr(spec, "needs", ()))


@pytest.mark.parametrize("registry", [*NAMED, ENVIRONMENTS], ids=lambda registry: registry.kind)
def test_every_key_says_what_it_is(registry: Registry[Any]) -> None:
    for spec in registry.specs():
        for field in msgspec.inspect.type_info(spec.settings).fields:  # type: ignore[attr-defined]
            told = getattr(field.type, "extra_json_schema", None) or {}
            assert told.get("description"), f"{registry.kind} {spec.name}: {field.name}"


@pytest.mark.parametrize("algorithm", ALGORITHMS.names())
def test_defaults_are_values_that_the_owners_accept(algorithm: str) -> None:
    spec = ALGORITHMS.spec(algorithm)
    assert {"atari", "vector"} <= set(spec.defaults) <= {"atari", "vector", *FINER}
    for sections in spec.defaults.values():
        msgspec.convert(sections.get("algorithm", {}), spec.settings)
    for by_name in spec.optimizers.values():
        for optimizer, numbers in by_name.items():
            msgspec.convert(numbers, OPTIMIZERS.spec(optimizer).settings)


def test_ctrl_c_while_a_package_is_imported_ends_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = "stopped.of.this.test"
    (tmp_path / "stopped.py").write_text("raise KeyboardInterrupt  # as Python's handler of SIGINT does\n")
    installed(tmp_path, f"[{group}]\nstopped = stopped:SPEC\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry("algorithm", group, AlgorithmSpec)
    with pytest.raises(KeyboardInterrupt):
        registry.spec("stopped")
    with pytest.raises(KeyboardInterrupt):
        registry.specs()


def test_what_pyproject_says_is_what_is_installed() -> None:
    installed = [point for point in metadata.entry_points(group="actorlearn.algorithms") if point.dist]
    if not installed:
        pytest.skip("installed before it had entry points: install it again")
    assert {point.name for point in installed} >= set(ALGORITHMS.names())


def test_a_strangers_entry_comes_in_by_the_same_door_and_a_broken_one_hides_nobody(
    strangers: Path,
) -> None:
    group = "strangers.of.this.test"
    installed(strangers, f"[{group}]\nmine = strangers:SPEC\nbroken = nowhere:SPEC\nnone = strangers:number\n")
    registry = Registry("algorithm", group, AlgorithmSpec)
    assert registry.names() == ("broken", "mine", "none")
    assert registry.entries()[0].distribution == "strange-rl"
    assert registry.spec("mine").settings().name == "mine"
    with pytest.raises(ValueError, match="no module 'nowhere' can be imported"):
        registry.spec("broken")
    with pytest.raises(ValueError, match="strangers:number must be an AlgorithmSpec, not 3"):
        registry.spec("none")
    with pytest.raises(ValueError) as caught:
        registry.spec("strangers:factory")
    assert str(caught.value) == (
        "algorithm.name: 'strangers:factory' must be a class or an AlgorithmSpec, not the function factory; name the "
        "class, or an AlgorithmSpec whose made_by is 'strangers:factory'"
    )
    assert [spec.name for spec in registry.specs()] == ["mine"]


@pytest.mark.usefixtures("strangers")
def test_a_strangers_class_brings_settings_of_its_own_or_has_those_of_its_kind() -> None:
    mine = ALGORITHMS.spec("strangers:Mine")
    made = msgspec.convert({"name": "strangers:Mine", "temperature": 2.0, "horizon": 7}, mine.settings)
    assert (made.name, made.horizon, made.temperature) == ("strangers:Mine", 7, 2.0)  # type: ignore[attr-defined]
    assert mine.by_ratio and not mine.replayed
    assert mine.load().__name__ == "Mine"
    assert issubclass(ALGORITHMS.spec("strangers:Plain").settings, OnPolicySettings)
    replayed = ALGORITHMS.spec("strangers:Replayed")
    assert replayed.replayed and issubclass(replayed.settings, OffPolicySettings)
    assert replayed.defaults["vector"]["replay"]
    assert ALGORITHMS.spec("strangers:ByItsSettings").replayed
    spec: Spec = ALGORITHMS.spec("strangers:SPEC")
    assert (spec.name, spec.made_by, spec.settings().name) == ("strangers:SPEC", "strangers:Mine", "strangers:SPEC")


FACTS = (
    *("replayed", "sequences", "by_ratio", "parts_of_transitions", "unit_actions"),
    *("defaults", "optimizers", "metrics"),
)


@pytest.mark.parametrize("algorithm", ALGORITHMS.names())
def test_a_derived_class_has_the_facts_of_its_base(
    algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = ALGORITHMS.spec(algorithm)
    module, _, name = base.made_by.partition(":")
    (tmp_path / f"derived_{algorithm}.py").write_text(
        f"from {module} import {name}\nclass Middle({name}): pass\nclass Derived(Middle): pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    derived = ALGORITHMS.spec(f"derived_{algorithm}:Derived")
    assert {fact: getattr(derived, fact) for fact in FACTS} == {fact: getattr(base, fact) for fact in FACTS}


def test_a_derived_class_overrides_facts_and_loses_the_defaults_of_keys_that_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "derived_ppo_of_few_keys.py").write_text(
        "from actorlearn.algorithms.ppo import PPO\n"
        "from actorlearn.algorithms.settings import OnPolicySettings\n"
        "class Derived(PPO):\n"
        "    by_ratio = False\n"
        "    class Settings(OnPolicySettings, frozen=True, kw_only=True): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    derived, base = ALGORITHMS.spec("derived_ppo_of_few_keys:Derived"), ALGORITHMS.spec("ppo")
    assert not derived.by_ratio and derived.parts_of_transitions
    ours, theirs = (spec.defaults["vector"]["algorithm"] for spec in (derived, base))
    assert "value_cost" in theirs
    assert ours == {key: value for key, value in theirs.items() if key in derived.settings.__struct_fields__}


def test_a_topology_with_a_class_derived_from_sac_scales_its_actions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "derived_for_pendulum.py").write_text(
        "from actorlearn.algorithms.sac import SAC\nclass MySAC(SAC): pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    topology = parse("env: {id: Pendulum-v1}\nalgorithm: {name: derived_for_pendulum:MySAC}\n")
    assert topology.env.scale_actions is True  # type: ignore[attr-defined]


@pytest.mark.usefixtures("strangers")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a3c", "must be a2c, c51, dqn, impala, ppo, pqn, r2d1, sac, vaco or package.module:Name"),
        ("strangers:Nobody", "strangers has no 'Nobody'"),
        ("strangers:Half", "cannot be used: it lacks columns, act, prepare, loss"),
        ("strangers:Wrong", "its Settings must be a subclass of actorlearn.algorithms.settings.AlgorithmSettings"),
        ("strangers:number", "must be a class or an AlgorithmSpec, not 3"),
        ("strangers.deep:Name", "'strangers' is not a package|has no module"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_is_missing(name: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        ALGORITHMS.spec(name)


def test_a_spec_whose_settings_are_of_a_replay_is_told_how_to_say_so() -> None:
    with pytest.raises(
        ValueError, match="subclass of OnPolicySettings; if it learns from a replay, set replayed=True in its spec"
    ):
        AlgorithmSpec(name="mine", settings=OffPolicySettings, made_by="mine:Mine")


def test_the_kind_of_an_environment_follows_from_its_id() -> None:
    assert ENVIRONMENTS.of("ALE/Pong-v5").name == "atari"
    assert ENVIRONMENTS.of("CartPole-v1").name == ENVIRONMENTS.of("package.module:Class").name == "gymnasium"


def test_a_kind_of_environments_says_how_its_ids_begin() -> None:
    """With an empty prefix a second kind would take what gymnasium makes, or never be asked."""
    with pytest.raises(ValueError, match="kind of environments 'mine': its prefix must be the beginning of its ids"):
        EnvironmentSpec(name="mine", settings=EnvSettings, made_by="strangers", prefix="", example="Mine-v0")


def test_specs_load_no_torch_and_no_environment() -> None:
    names = "ALGORITHMS.specs(), MODELS.specs(), OPTIMIZERS.specs(), ENVIRONMENTS.specs()"
    imports = "\n".join(
        f"from actorlearn.{module} import {name}"
        for module, name in (
            ("algorithms.settings", "ALGORITHMS"),
            ("models.specs", "MODELS"),
            ("optim.specs", "OPTIMIZERS"),
            ("envs.specs", "ENVIRONMENTS"),
        )
    )
    loaded = modules_after(f"{imports}\nassert all(len(found) for found in ({names}))")
    assert not loaded & {"torch", "gymnasium", "ale_py"}


@pytest.mark.parametrize(
    ("annotated", "says"),
    [
        ("weights: list[float] = [1.0]", "default of weights is [1.0]"),
        ("rates: dict[str, float] = {'a': 1.0}", "default of rates is {'a': 1.0}"),
    ],
)
def test_a_default_that_settings_would_share_is_refused_with_its_field_and_the_way_out(
    strangers: Path, monkeypatch: pytest.MonkeyPatch, annotated: str, says: str
) -> None:
    body = "from actorlearn.algorithms.settings import OnPolicySettings\nclass Mine:\n"
    body += f"    class Settings(OnPolicySettings, frozen=True, kw_only=True):\n        {annotated}\n"
    (strangers / "shares.py").write_text(body)
    monkeypatch.delitem(sys.modules, "shares", raising=False)
    with pytest.raises(ValueError) as caught:
        ALGORITHMS.spec("shares:Mine")
    said = str(caught.value)
    assert f"importing 'shares' fails: shares.py:3: the {says}, which all settings of the class would share" in said
    assert "default_factory=lambda: " in said and ("a tuple, (1.0,)," in said) == ("list" in annotated)


def test_a_checkout_reads_its_own_pyproject() -> None:
    assert (ROOT / "pyproject.toml").is_file()
    assert "rmsprop" in OPTIMIZERS.names()


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("nowhere:SPEC", "cannot be used: algorithm 'broken' of strange-rl: no module 'nowhere' can be imported"),
        ("strangers:NUMBER", "strangers:NUMBER must be an AlgorithmSpec, not 5"),
        ("leaves:SPEC", "importing 'leaves' fails: SystemExit: 3"),
    ],
)
def test_a_package_that_cannot_be_loaded_is_refused_by_its_reason(tmp_path: Path, entry: str, says: str) -> None:
    """And not by the names there are, of which it is one."""
    modules = {"strangers": "NUMBER = 5", "leaves": "raise SystemExit(3)"}
    installed(tmp_path, f"[actorlearn.algorithms]\nbroken = {entry}\n", modules)
    command = [
        sys.executable,
        "-m",
        "actorlearn",
        "check",
        str(ROOT / "configs" / "catch.yaml"),
        "algorithm.name=broken",
    ]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert says in line and "did you mean" not in line
