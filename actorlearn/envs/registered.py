"""Finds the registrations of gymnasium ids, and suggests ids or packages for ids that are not registered.

It loads entry points, and searches the source of installed packages that need gymnasium. It makes no environment.
"""

from __future__ import annotations

import importlib.util
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from functools import cache
from importlib import metadata
from types import ModuleType

import gymnasium
from gymnasium.envs.registration import EnvSpec as Registered
from gymnasium.envs.registration import namespace

from actorlearn import imports
from actorlearn.nearest import ROUGHLY, nearest

ENTRY_POINTS = ("gymnasium.envs", "gymnasium.envs.__root__")
"""Groups of entry points by which packages register environments; highway-env uses the second."""
NO_NAMESPACE = ("__root__", "__internal__")
"""Names of entry points of the first group whose ids have no prefix. The prefix of others is their name and a slash."""

COME_WITH = {
    "flappy_bird_gymnasium": r"FlappyBird-",
    "gymnasium_robotics": r"(AdroitHand|AntMaze|Fetch|FrankaKitchen|HandManipulate|HandReach|PointMaze)",
    "highway_env": r"(exit|highway|intersection|lane-keeping|merge|parking|racetrack|roundabout|two-way|u-turn)-",
    "minatar": r"MinAtar/",
    "minigrid": r"(BabyAI|MiniGrid)-",
    "miniworld": r"MiniWorld-",
    "nle": r"NetHack",
    "panda_gym": r"Panda",
    "shimmy": r"dm_control/",
    "vizdoom.gymnasium_wrapper": r"Vizdoom",
}
"""Module of a known package, which need not be installed -> pattern of the beginning of the ids that it registers."""

FEW_IDS = 2
"""If the source of a package contains fewer ids than this as text, it computes its ids, so other ids may exist too."""
EXAMPLES = "Ids are like 'CartPole-v1', 'ALE/Pong-v5', 'minigrid:MiniGrid-Empty-5x5-v0' or 'package.module:Class'"
_OLD_ATARI = re.compile(r"(\w+?)(-ram)?(Deterministic|NoFrameskip)?-v\d+")
"""Ids of Atari games in gym and in older versions of ale-py, such as PongNoFrameskip-v4."""
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)
"""A class written with a dot instead of a colon, such as shop.Shop."""
_ID = re.compile(r"""["']((?:[\w-]+/)?[\w.-]+-v\d+)["']""")


def find(env_id: str) -> Registered | None:
    """Return the registration of an id, or None; loads the entry points of installed packages if needed."""
    if env_id not in gymnasium.registry:
        load_entry_points()
    return gymnasium.registry.get(env_id)


@cache
def load_entry_points() -> tuple[str, ...]:
    """Let installed packages register their environments by entry points, as gymnasium did before 1.0.

    Returns a message for each entry point that failed.
    """
    failed = []
    for point in (point for group in ENTRY_POINTS for point in metadata.entry_points(group=group)):
        bare = point.group != ENTRY_POINTS[0] or point.name in NO_NAMESPACE
        with nullcontext() if bare else namespace(point.name), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a package may register its ids twice: when imported and when called
            try:
                register = point.load()
                if point.attr:
                    register()
            except Exception as error:  # a broken package must not hide the others
                failed.append(f"{point.value}: {type(error).__name__}: {error}")
    return tuple(failed)


def is_ale(registered: Registered) -> bool:
    """Whether an environment is ale-py's gymnasium environment, whose defaults differ from ours."""
    return module_of(registered).startswith("ale_py")


def module_of(registered: Registered) -> str:
    """Return the name of the module that makes an environment."""
    point = registered.entry_point
    return point.partition(":")[0] if isinstance(point, str) else str(getattr(point, "__module__", ""))


def list_module(module: ModuleType) -> dict[str, str]:
    """Return the environment classes of a module, and the ids that its package registers: name -> value for env.id."""
    root = module.__name__.partition(".")[0]
    found = {name: value for name, value in vars(module).items() if isinstance(value, type)}
    classes = [name for name, value in found.items() if issubclass(value, gymnasium.Env)]
    ids = [env_id for env_id, entry in gymnasium.registry.items() if module_of(entry).partition(".")[0] == root]
    return {name: f"{module.__name__}:{name}" for name in (*classes, *ids)}


def did_you_mean(word: str, known: Mapping[str, str]) -> str:
    """Return a suggestion of the most similar word in ``known`` (name -> how to write it); "" if none is similar."""
    close = nearest(word, known, ROUGHLY)
    return f"did you mean {known[close]!r}? " if close else ""


def way_out(env_id: str) -> str:
    """Return advice for an id that is not registered: a similar id, or a package to install."""
    from actorlearn.envs import atari

    packaged = dict(_packaged())
    if env_id in packaged:
        module = packaged[env_id].partition(":")[0]
        return f"{module} registers it when it is imported: write {packaged[env_id]!r}"
    for module, beginning in COME_WITH.items():
        package = module.partition(".")[0]
        if not re.match(beginning, env_id):
            continue
        if importlib.util.find_spec(package) is None:
            return f"{package} registers such ids: {imports.own_extra(package)}, and write '{module}:{env_id}'"
        literal = [known for known in packaged if re.match(beginning, known)]
        if len(literal) < FEW_IDS:  # the package computes its ids, so they are not in its source
            return f"{package} registers such ids when it is imported: write '{module}:{env_id}'"
    if (old := _OLD_ATARI.fullmatch(env_id)) and (game := f"ALE/{old[1]}-v5") in atari.ids():
        return f"did you mean {game!r}? {EXAMPLES}"
    if _DOTTED.fullmatch(env_id):
        module, _, name = env_id.rpartition(".")
        file = f"{module.replace('.', '/')}.py"
        return f"did you mean '{module}:{name}'? A class is module:Class; start actorlearn in the folder of {file}"
    here = [*(known for known, entry in gymnasium.registry.items() if not is_ale(entry)), *atari.ids()]
    failed = "".join(f"; an entry point failed: {failure}" for failure in load_entry_points())
    return f"{did_you_mean(env_id, packaged | dict(zip(here, here, strict=True)))}{EXAMPLES}{failed}"


def _packaged() -> Iterator[tuple[str, str]]:
    """Yield (id, value for env.id) from the source of installed packages, without importing them."""
    for package in metadata.distributions():
        if not any(re.match(r"gymnasium\b", needed) for needed in package.requires or ()):
            continue
        for file in package.files or ():
            if file.suffix == ".py" and (file.name == "__init__.py" or "regist" in file.name):
                yield from _registered_in(file)


def _registered_in(file: metadata.PackagePath) -> Iterator[tuple[str, str]]:
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError):
        return
    module = ".".join(file.with_suffix("").parts).removesuffix(".__init__")
    if "register(" in text:
        yield from ((env_id, f"{module}:{env_id}") for env_id in _ID.findall(text))
