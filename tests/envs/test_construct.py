"""Environments of packages: by module and id, with arguments and wrappers; errors say what to write or install."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from actorlearn import imports
from actorlearn.envs import registered
from actorlearn.envs.construct import construct, construct_vector
from actorlearn.envs.make import make, spec
from actorlearn.envs.specs import EnvSettings, GymnasiumSettings, WrapperSettings
from actorlearn.testing.environment import column, play
from tests import named
from tests.envs.playing import opened

PACKAGE = '''
import gymnasium
from gymnasium.envs.registration import register

class Corridor(gymnasium.Env):
    """Has ``length`` cells. Its end gives the prize, which grows by 1 each time: the argument itself is changed."""

    def __init__(self, length=3, prize={"worth": 1}):
        self.observation_space = gymnasium.spaces.Discrete(length)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.length, self.prize = length, prize

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.at, {}

    def step(self, action):
        self.at += action
        over, worth = self.at == self.length - 1, self.prize["worth"]
        self.prize["worth"] += over
        return self.at, float(over) * worth, over, False, {}

class Broken(gymnasium.Env):
    def __init__(self):
        raise RuntimeError("no\\nscreen")

NOT_A_CLASS = 3

def make():
    return Corridor()

def make_nothing():
    return None

register(id="Corridor-v0", entry_point="corridors:Corridor", max_episode_steps=7, kwargs={"length": 4})
register(id="rooms/Corridor-v2", entry_point="corridors:Corridor")
register(id="Lacking-v0", entry_point="corridors.lacking:Env")
register(id="Broken-v0", entry_point="corridors:Broken")
'''
METADATA = """Metadata-Version: 2.1
Name: corridors-of-ours
Version: 1.0
Provides-Extra: lights
Provides-Extra: rendering
Requires-Dist: gymnasium>=1.0
Requires-Dist: no-such-lights>=2; extra == "rendering"
Requires-Dist: no-such-lights>=2; extra == "lights"
"""


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    """Restore the registry of ids, and forget which entry points have been loaded."""
    before = dict(gymnasium.registry)
    registered.load_entry_points.cache_clear()
    yield
    gymnasium.registry.clear()
    gymnasium.registry.update(before)
    registered.load_entry_points.cache_clear()


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed packages with one, `corridors`, that registers its environments when it is imported."""
    folder = tmp_path / "site"
    (folder / "corridors").mkdir(parents=True)
    (folder / "corridors" / "__init__.py").write_text(PACKAGE)
    (folder / "corridors" / "lacking.py").write_text("import no_such_lights\n")
    (folder / "corridors" / "failing.py").write_text("1 / 0\n")
    (folder / "corridors" / "unnamed.py").write_text("raise ModuleNotFoundError('jax requires jaxlib')\n")
    information = folder / "corridors_of_ours-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(METADATA)
    (information / "top_level.txt").write_text("corridors\n")
    files = ["corridors/__init__.py", "corridors/lacking.py"]
    (information / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "corridors"]:
        del sys.modules[name]


def refusal(settings: EnvSettings) -> str:
    for ask in (spec, lambda settings: make(settings, [0])):
        with pytest.raises(ValueError) as caught:
            ask(settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("env_id", "cells", "limit"),
    [
        ("corridors:Corridor-v0", 4, 7),
        ("corridors:rooms/Corridor-v2", 3, None),
        ("corridors:Corridor", 3, None),
        ("corridors:make", 3, None),
    ],
)
def test_an_id_of_a_named_module_and_a_class_or_function_of_it_are_environments(
    installed: Path, env_id: str, cells: int, limit: int | None
) -> None:
    env, found = construct(named.env(id=env_id))
    assert env.observation_space.n == cells and found == limit
    env.close()


def test_a_class_is_made_without_loading_packages_that_register_ids(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such packages may take seconds to import: MinAtar imports seaborn."""
    monkeypatch.setattr(registered, "load_entry_points", lambda: pytest.fail("packages are loaded"))
    settings = GymnasiumSettings(id="corridors:Corridor")
    assert construct_vector(settings, 2) is None
    construct(settings)[0].close()
    make(settings, [0, 1]).close()


def test_an_id_without_its_module_is_refused_with_the_id_to_write(installed: Path) -> None:
    assert refusal(named.env(id="Corridor-v0")) == (
        "env.id: 'Corridor-v0' is not registered with gymnasium; "
        "corridors registers it when it is imported: write 'corridors:Corridor-v0'"
    )
    assert "write 'corridors:rooms/Corridor-v2'" in refusal(named.env(id="rooms/Corridor-v2"))
    assert "did you mean 'corridors:Corridor-v0'? Ids are like" in refusal(named.env(id="Coridor-v0"))
    assert "corridors" not in sys.modules


@pytest.mark.parametrize(
    ("env_id", "meant"),
    [
        ("PongNoFrameskip-v4", "ALE/Pong-v5"),
        ("Pong-v4", "ALE/Pong-v5"),
        ("MsPacmanDeterministic-v4", "ALE/MsPacman-v5"),
        ("SpaceInvaders-ramNoFrameskip-v4", "ALE/SpaceInvaders-v5"),
    ],
)
def test_an_old_id_of_an_atari_game_is_refused_with_the_new_one(env_id: str, meant: str) -> None:
    assert f"did you mean {meant!r}?" in refusal(named.env(id=env_id))


def test_an_id_of_dm_control_without_shimmy_is_refused_with_the_id_to_write() -> None:
    assert "write 'shimmy:dm_control/cartpole-balance-v0'" in refusal(named.env(id="dm_control/cartpole-balance-v0"))


def test_the_package_of_a_well_known_id_is_named_although_it_is_not_installed() -> None:
    if registered.importlib.util.find_spec("miniworld"):
        pytest.skip("it is installed")
    found = refusal(named.env(id="MiniWorld-Hallway-v0"))
    assert "miniworld registers such ids: `pip install miniworld`, and write 'miniworld:MiniWorld-Hallway-v0'" in found


@pytest.mark.parametrize(
    ("env_id", "package", "written"),
    [
        ("MinAtar/Breakout-v1", "minatar", "minatar:MinAtar/Breakout-v1"),
        ("NetHackScore-v0", "nle", "nle:NetHackScore-v0"),
        ("VizdoomBasic-v1", "vizdoom", "vizdoom.gymnasium_wrapper:VizdoomBasic-v1"),
    ],
)
def test_a_missing_package_that_actorlearn_pins_is_installed_by_an_extra_of_actorlearn(
    monkeypatch: pytest.MonkeyPatch, env_id: str, package: str, written: str
) -> None:
    if registered.importlib.util.find_spec(package):
        pytest.skip("it is installed")
    monkeypatch.setattr(registered.imports.metadata, "requires", lambda name: [f"{package}==1.0; extra == '{package}'"])
    way_out = f"`pip install 'actorlearn[{package}]'`"
    assert f"{package} registers such ids: {way_out}, and write '{written}'" in refusal(named.env(id=env_id))
    assert f"no package {package!r} is installed: run {way_out}" in refusal(named.env(id=written))


@pytest.mark.parametrize(
    ("env_id", "says"),
    [
        (
            "nowhere.at_all:Game",
            "no module 'nowhere' can be imported: start actorlearn in the folder that has it, or add that folder to "
            "PYTHONPATH; if it is a package, install it",
        ),
        (
            "corridors.py:Corridor",
            "env.id: 'corridors.py:Corridor': a module is named without .py: write env.id: 'corridors:Corridor', and "
            "start actorlearn in the folder of corridors.py",
        ),
        ("far/away.py:Game", "write env.id: 'away:Game', and start actorlearn in the folder of away.py"),
        ("away.Game", "did you mean 'away:Game'? A class is module:Class; start actorlearn in the folder of away.py"),
        (
            "far.away.Game",
            "did you mean 'far.away:Game'? A class is module:Class; start actorlearn in the folder of far",
        ),
        ("corridors.nowhere:Game", "the package corridors has no module 'corridors.nowhere'"),
        ("corridors.lacking:Env", "needs 'no_such_lights', which is not installed: `pip install 'corridors-of-ours["),
        ("corridors:Lacking-v0", "which is not installed: `pip install 'corridors-of-ours[rendering]'`"),
        ("corridors.failing:Env", "importing 'corridors.failing' fails: ZeroDivisionError: division by zero"),
        ("corridors.unnamed:Env", "importing 'corridors.unnamed' fails: ModuleNotFoundError: jax requires jaxlib"),
        (
            "corridors:Coridor",
            "corridors has no class 'Coridor' and registers no id 'Coridor'; did you mean 'corridors:",
        ),
        ("corridors:Corridor-v3", "did you mean 'corridors:Corridor-v0'? Ids are like"),
        (
            "corridors:NOT_A_CLASS",
            "is 3; it must be a subclass of gymnasium.Env or dm_env.Environment, a",
        ),
        ("corridors:make_nothing", "makes None; it must make a gymnasium.Env or a dm_env.Environment"),
        (
            "corridors-of-ours:Corridor-v0",
            "no module 'corridors-of-ours' can be imported: the package corridors-of-ours is installed, and its module "
            "is called corridors: write corridors",
        ),
        ("corridors:Broken-v0", "cannot be made: RuntimeError: no screen"),
        ("corridors:Broken", "cannot be made: RuntimeError: no screen"),
        (":", "importing '' fails: ValueError: Empty module name"),
    ],
)
def test_missing_and_broken_modules_and_classes_are_refused_with_what_to_do(
    installed: Path, env_id: str, says: str
) -> None:
    assert says in refusal(GymnasiumSettings(id=env_id))


def test_a_missing_package_of_gymnasium_is_installed_by_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    assert imports.to_install("gymnasium.envs.phys2d.cartpole", "jax") == "`pip install 'gymnasium[jax]'`"
    assert imports.to_install("gymnasium.envs.toy_text.frozen_lake", "unheard.of") == "install the package that has it"
    monkeypatch.setitem(gymnasium.registry, "Own-v0", gymnasium.envs.registration.EnvSpec("Own-v0", "no_such_one:Env"))
    assert "needs 'no_such_one', which is not installed: install the package that has it" in refusal(
        named.env(id="Own-v0")
    )


def test_extras_of_actorlearn_are_named_before_those_of_gymnasium(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = ["mujoco<4; extra == 'dm-control'", "mujoco<4; extra == 'mujoco'", "imageio>=2.31; extra == 'mujoco'"]
    theirs = metadata.requires
    monkeypatch.setattr(metadata, "requires", lambda name: ours if name == "actorlearn" else theirs(name))
    monkeypatch.setitem(sys.modules, "mujoco", None)  # as if it were not installed
    for module in [name for name in sys.modules if name.startswith("gymnasium.envs.mujoco")]:
        monkeypatch.delitem(sys.modules, module)
    assert "needs 'mujoco', which is not installed: `pip install 'actorlearn[mujoco]'`" in refusal(
        GymnasiumSettings(id="HalfCheetah-v5")
    )


@pytest.mark.parametrize(
    ("group", "name", "env_id"),
    [
        ("gymnasium.envs", "__root__", "Entered-v0"),
        ("gymnasium.envs", "ours", "ours/Entered-v0"),
        ("gymnasium.envs.__root__", "anything", "Entered-v0"),
    ],
)
def test_entry_points_register_ids(installed: Path, group: str, name: str, env_id: str) -> None:
    (installed / "corridors" / "entry.py").write_text(
        "from gymnasium.envs.registration import register\n"
        "def ids():\n    register(id='Entered-v0', entry_point='corridors:Corridor')\n"
    )
    points = installed / "corridors_of_ours-1.0.dist-info" / "entry_points.txt"
    points.write_text(f"[{group}]\n{name} = corridors.entry:ids\n")
    assert spec(named.env(id=env_id)).observation_shape == (3,)


def test_a_broken_entry_point_is_reported_and_hides_no_other(installed: Path) -> None:
    points = installed / "corridors_of_ours-1.0.dist-info" / "entry_points.txt"
    points.write_text("[gymnasium.envs]\n__internal__ = corridors.failing:ids\n__root__ = corridors:Corridor\n")
    failed = "an entry point failed: corridors.failing:ids: ZeroDivisionError: division by zero"
    assert failed in refusal(named.env(id="Elsewhere-v0"))
    assert spec(named.env(id="Corridor-v0")).observation_shape == (4,)


def test_a_broken_entry_point_does_not_change_later_registrations(installed: Path) -> None:
    points = installed / "corridors_of_ours-1.0.dist-info" / "entry_points.txt"
    (installed / "alone.py").write_text("1 / 0\n")
    points.write_text("[gymnasium.envs]\nours = alone:ids\n")
    refusal(named.env(id="Elsewhere-v0"))
    assert spec(named.env(id="corridors:Corridor-v0")).observation_shape == (4,)


@pytest.mark.parametrize("env_id", ["corridors:Corridor", "corridors:Corridor-v0"])
def test_each_environment_gets_its_own_copy_of_the_arguments(installed: Path, env_id: str) -> None:
    settings = named.env(id=env_id, kwargs={"length": 5, "prize": {"worth": 2}})
    with opened(settings, [1, 2]) as env:
        rows = play(env, np.ones((5, 2), np.int64))
        assert env.spec.observation_shape == (5,)
    assert column(rows, "reward")[4].tolist() == [2.0, 2.0] and column(rows, "terminated")[4].all()
    assert settings.kwargs == {"length": 5, "prize": {"worth": 2}}
    assert gymnasium.registry.get("Corridor-v0").kwargs == {"length": 4}


@pytest.mark.parametrize("env_id", ["corridors:Corridor", "corridors:Corridor-v0"])
def test_an_unknown_argument_is_refused_with_the_arguments_of_the_constructor(installed: Path, env_id: str) -> None:
    found = refusal(named.env(id=env_id, kwargs={"lenght": 5}))
    assert "cannot be made with kwargs {'lenght': 5}: got an unexpected keyword argument 'lenght'" in found
    assert "it takes length=3, prize={'worth': 1}" in found


def test_wrappers_are_applied_in_order(installed: Path) -> None:
    limit, flat = (
        WrapperSettings(name="gymnasium.wrappers:TimeLimit", kwargs={"max_episode_steps": 2}),
        WrapperSettings(name="gymnasium.wrappers:FlattenObservation"),
    )
    settings = named.env(id="corridors:Corridor", wrappers=(limit, flat))
    env, _ = construct(settings)
    assert [type(env).__name__, type(env.env).__name__] == ["FlattenObservation", "TimeLimit"]
    env.close()
    with opened(settings, [0]) as played:
        rows = play(played, np.zeros((4, 1), np.int64))
    assert column(rows, "truncated")[:, 0].tolist() == [False, False, True, False, False]
    assert column(rows, "first")[:, 0].tolist() == [True, False, False, True, False]


@pytest.mark.parametrize(
    ("wrapper", "says"),
    [
        (
            WrapperSettings(name="nowhere:Wrapper"),
            "env.wrappers[1]: 'nowhere:Wrapper': no module 'nowhere' can be imported",
        ),
        (
            WrapperSettings(name="gymnasium.wrappers:TimeLimits"),
            "gymnasium.wrappers has no 'TimeLimits'; did you mean 'gymnasium.wrappers:TimeLimit'?",
        ),
        (WrapperSettings(name="corridors:NOT_A_CLASS"), "corridors has no 'NOT_A_CLASS'; "),
        (
            WrapperSettings(name="gymnasium.wrappers:TimeLimit", kwargs={"steps": 2}),
            "cannot be made with kwargs {'steps': 2}: missing a required argument: 'max_episode_steps'; it takes max_",
        ),
        (
            WrapperSettings(name="gymnasium.wrappers:FrameStackObservation", kwargs={"stack_size": 0}),
            "cannot be made: ",
        ),
        (WrapperSettings(name="builtins:repr"), "it must make a gymnasium.Env"),
    ],
)
def test_a_wrong_wrapper_is_refused_with_its_number(installed: Path, wrapper: WrapperSettings, says: str) -> None:
    first = WrapperSettings(name="gymnasium.wrappers:OrderEnforcing")
    found = refusal(named.env(id="corridors:Corridor", wrappers=(first, wrapper)))
    assert found.startswith(f"env.wrappers[1]: {wrapper.name!r}") and says in found
