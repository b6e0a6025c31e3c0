"""Makes a gymnasium environment from env.id, env.kwargs and env.wrappers, or a vector environment from env.vector.

It imports and runs the code that the settings name. Every failure becomes a ValueError with a message of one line.
``envs/registered.py`` finds registered ids.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import gymnasium
from gymnasium.envs.registration import EnvSpec as Registered
from gymnasium.envs.registration import load_env_creator

from actorlearn import imports
from actorlearn.envs import dm_env, registered
from actorlearn.envs.gymnasium_vector import resets_by_mask
from actorlearn.envs.pictures import without_pictures
from actorlearn.envs.specs import GymnasiumSettings
from actorlearn.exceptions import in_one_line, words_of

Environment = gymnasium.Env[Any, Any]
Vector = gymnasium.vector.VectorEnv[Any, Any, Any]
Maker = Callable[..., Any]
Arguments = Mapping[str, Any]


class VectorMaker(NamedTuple):
    """A class or function that makes vector environments, and its arguments."""

    make: Maker
    kwargs: Arguments
    """Keyword arguments, without ``num_envs``."""
    key: str
    """Key and value of the topology that select it, with which errors begin."""
    registration: Registered | None
    """The registration of ``env.id``; None if it has none."""


OWN_CLASSES = {"gymnasium.envs.classic_control.cartpole:CartPoleVectorEnv": "actorlearn.envs.cartpole:CartPole"}
"""Vector class of gymnasium that cannot reset chosen games by a mask -> our subclass of it that can."""


def construct(settings: GymnasiumSettings) -> tuple[Environment, int | None]:
    """Make an environment with its wrappers; return it and its registered time limit in steps (None: no limit).

    The environment does not apply the limit itself. Raises ValueError.
    """
    env, limit = _bare(settings)
    try:
        for number, wrapper in enumerate(settings.wrapper_settings):
            env = _wrapped(env, wrapper.name, wrapper.kwargs, f"env.wrappers[{number}]")
        _check_spaces(settings.id, env, "")
    except BaseException:
        env.close()
        raise
    return env, limit


def construct_vector(settings: GymnasiumSettings, count: int) -> tuple[Vector, int] | None:
    """Make the vector environment that ``env.vector`` selects; return it and the time limit to apply to it, in steps.

    The limit is 0 if the vector environment applies it, or if there is none. Returns None if the environments must be
    made and stepped one by one. Raises ValueError.
    """
    found = _vector_class(settings)
    if found is None:
        return None
    maker, kwargs, what, registration = found
    of_class = registration.max_episode_steps if registration else None
    limits = [kwargs.get("max_episode_steps", of_class), settings.time_limit_steps]
    limit = min((limit for limit in limits if isinstance(limit, int) and limit > 0), default=0)
    if limit and imports.takes(maker, "max_episode_steps"):
        kwargs, limit = {**kwargs, "max_episode_steps": limit}, 0
    made = called(maker, (), {"num_envs": count, **without_pictures(maker, kwargs)}, what)
    if not isinstance(made, gymnasium.vector.VectorEnv):
        raise ValueError(f"{what} makes {imports.describe(made)}; it must make a gymnasium.vector.VectorEnv")
    _check_spaces(settings.id, made, "single_")
    return made, limit


def spaces_of(settings: GymnasiumSettings) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any]]:
    """Return the spaces of one environment's observations and actions; makes an environment and closes it.

    If the run steps environments together, the spaces are those of the vector environment. Raises ValueError.
    """
    if made := construct_vector(settings, 1):
        with closing(made[0]) as vector:
            return vector.single_observation_space, vector.single_action_space
    with closing(construct(settings)[0]) as env:
        return env.observation_space, env.action_space


def _check_spaces(env_id: str, env: Environment | Vector, prefix: str) -> None:
    """Raise ValueError unless ``env`` has an observation space and an action space; ``prefix`` begins their names."""
    for name in (f"{prefix}observation_space", f"{prefix}action_space"):
        found = getattr(env, name, None)
        if not isinstance(found, gymnasium.Space):
            raise ValueError(
                f"env.id: {env_id!r} has {name} {imports.describe(found)}; its constructor must set self.{name} to a "
                "space of gymnasium.spaces"
            )


def _vector_class(settings: GymnasiumSettings) -> VectorMaker | None:
    """Return the class or function of the vector environment; None if the environments must be made one by one."""
    if settings.vector == "none":
        return None
    module_name, colon, name = settings.id.partition(":")
    env_id, of_id = name if colon else settings.id, f"env.id: {settings.id!r}"
    own = getattr(imports.module(module_name, of_id), name, None) if colon else None
    if settings.vector != "auto":
        key = f"env.vector: {settings.vector!r}"
        _check_no_wrappers(settings, key, ", or set env.vector: none")
        maker = imports.attribute(settings.vector, key)  # first, because this import may register the id
        # A class has no id, so packages that register ids need not be loaded.
        return VectorMaker(maker, settings.kwargs, key, None if isinstance(own, type) else registered.find(env_id))
    if isinstance(own, type) and issubclass(own, gymnasium.vector.VectorEnv):
        _check_no_wrappers(settings, of_id, "")
        return VectorMaker(own, settings.kwargs, of_id, None)
    if isinstance(own, type) and (issubclass(own, gymnasium.Env) or dm_env.has_interface(own)):
        return None
    return _registered_class(settings, env_id, of_id)


def _check_no_wrappers(settings: GymnasiumSettings, key: str, way_out: str) -> None:
    """Raise ValueError if there are wrappers; ``key`` names the vector class, ``way_out`` adds to the remedy."""
    if settings.wrappers:
        rule = f"env.wrappers wrap single environments; leave them out{way_out}"
        raise ValueError(f"{key} cannot be used with env.wrappers: {rule}")


def _registered_class(settings: GymnasiumSettings, env_id: str, what: str) -> VectorMaker | None:
    """Return the vector class registered for an id, as `_vector_class` does; None if it cannot be used.

    It can be used if it resets chosen games by a mask, accepts all arguments, and there are no wrappers.
    """
    found = registered.find(env_id)
    if found is None or found.vector_entry_point is None or settings.wrappers or found.additional_wrappers:
        return None
    point = found.vector_entry_point
    maker = imports.attribute(OWN_CLASSES.get(point, point), what) if isinstance(point, str) else point
    kwargs = {**found.kwargs, **settings.kwargs}
    if not resets_by_mask(maker) or not all(imports.takes(maker, name) for name in kwargs):
        return None
    return VectorMaker(maker, kwargs, what, found)


def _bare(settings: GymnasiumSettings) -> tuple[Environment, int | None]:
    """Return the environment without wrappers, and its registered time limit.

    ``env.id`` is a registered id, module:id or module:Class; the module is imported first.
    """
    what, (module_name, colon, name) = f"env.id: {settings.id!r}", settings.id.partition(":")
    if not colon:
        return _registered(settings, settings.id, what)
    module = imports.module(module_name, what)
    found = getattr(module, name, None)
    if isinstance(found, type) and issubclass(found, gymnasium.Env):
        made = called(found, (), without_pictures(found, settings.kwargs), what)
        if missing := [name for name in ("reset", "step") if getattr(found, name) is getattr(gymnasium.Env, name)]:
            raise ValueError(f"{what} does not define {' and '.join(missing)} (see gymnasium.Env)")
        return made, None
    if registered.find(name) is not None:  # registered by the import above, or by an entry point
        return _registered(settings, name, what)
    if found is not None:
        if callable(found) and (not isinstance(found, type) or dm_env.has_interface(found)):
            return _made_by(found, settings.kwargs, what), None
        raise ValueError(
            f"{what} is {imports.describe(found)}; it must be a subclass of gymnasium.Env or dm_env.Environment, a "
            "function that makes an environment, or an id that is registered"
        )
    raise ValueError(
        f"{what}: {module_name} has no class {name!r} and registers no id {name!r}; "
        f"{registered.did_you_mean(name, registered.list_module(module))}{registered.EXAMPLES}"
    )


def _made_by(maker: Maker, kwargs: Arguments, what: str) -> Environment:
    """Call a function, or a class of dm_env, and return the environment that it makes as a gymnasium environment."""
    kwargs = without_pictures(maker, kwargs)
    made = called(maker, (), kwargs, what)
    with _one_line(what, getattr(maker, "__module__", "")):
        env = dm_env.as_gymnasium(made, maker, kwargs)
    if env is None:
        raise ValueError(f"{what} makes {imports.describe(made)}; it must make a gymnasium.Env or a dm_env.Environment")
    return env


def _registered(settings: GymnasiumSettings, env_id: str, what: str) -> tuple[Environment, int | None]:
    """Make a registered environment; return it and its registered time limit in steps."""
    found = registered.find(env_id)
    if found is None:
        raise ValueError(f"{what} is not registered with gymnasium; {registered.way_out(env_id)}")
    if registered.is_ale(found):  # ale_py's own environments skip a random number of frames, in colour
        raise ValueError(f"{what} is not an id of an Atari game in actorlearn; {registered.way_out(env_id)}")
    own = copy.copy(found)
    own.kwargs = {**found.kwargs, **settings.kwargs}
    # The caller counts the time limit and calls methods in order, so the wrappers for these are left out.
    own.order_enforce = False
    with _one_line(what, registered.module_of(found)):
        creator = load_env_creator(found.entry_point) if isinstance(found.entry_point, str) else found.entry_point
    if creator is not None:
        _check_arguments(creator, (), own.kwargs, f"{what} cannot be made with kwargs {settings.kwargs}")
    with _one_line(what, registered.module_of(found)):
        return gymnasium.make(own, max_episode_steps=-1, disable_env_checker=True), found.max_episode_steps


def _wrapped(env: Environment, name: str, kwargs: Mapping[str, Any], key: str) -> Environment:
    what, (module_name, _, attribute) = f"{key}: {name!r}", name.partition(":")
    module = imports.module(module_name, what)
    wrapper = getattr(module, attribute, None)
    if not callable(wrapper):
        known = {word: f"{module_name}:{word}" for word in dir(module) if not word.startswith("_")}
        close = registered.did_you_mean(attribute, known) or "wrappers are like 'gymnasium.wrappers:TimeLimit'"
        raise ValueError(f"{what}: {module_name} has no {attribute!r}; {close}".rstrip())
    wrapped = called(wrapper, (env,), kwargs, what)
    if not isinstance(wrapped, gymnasium.Env):
        raise ValueError(f"{what} makes {imports.describe(wrapped)}; it must make a gymnasium.Env")
    return wrapped


def called(maker: Maker, arguments: tuple[Any, ...], kwargs: Mapping[str, Any], what: str) -> Any:
    """Call a class or function; any exception that it raises becomes a ValueError with a message of one line.

    ``what`` names the key and its value, with which the message begins.
    """
    _check_arguments(maker, arguments, kwargs, f"{what} cannot be made with kwargs {dict(kwargs)}")
    with _one_line(what, getattr(maker, "__module__", "")):
        return maker(*arguments, **copy.deepcopy(dict(kwargs)))


def _check_arguments(maker: Maker, arguments: tuple[Any, ...], kwargs: Mapping[str, Any], failure: str) -> None:
    """Raise ValueError for unknown or missing arguments of a class or function; ``failure`` begins the message."""
    try:
        signature = inspect.signature(maker)
    except (TypeError, ValueError):  # code that is not Python has no signature: the call itself raises
        return
    try:
        signature.bind(*arguments, **kwargs)
    except TypeError as error:
        others = [*signature.parameters.values()][len(arguments) :]
        taken = ", ".join(str(parameter.replace(annotation=inspect.Parameter.empty)) for parameter in others)
        raise ValueError(f"{failure}: {error}; it takes {taken or 'none'}") from error


@contextmanager
def _one_line(what: str, module: str) -> Iterator[None]:
    """Turn any exception raised while an environment is made into a ValueError with a message of one line.

    ``module``, which makes the environment, determines the package that the message recommends to install.
    """
    try:
        yield
    except (ImportError, gymnasium.error.Error) as error:
        missing = error if isinstance(error, ModuleNotFoundError) else error.__cause__  # gymnasium has wrapped it
        if isinstance(missing, ModuleNotFoundError) and missing.name:
            install = imports.to_install(module, missing.name)
            raise ValueError(f"{what} needs {missing.name!r}, which is not installed: {install}") from error
        raise ValueError(f"{what} cannot be made: {words_of(error)}") from error  # gymnasium's messages are for users
    except Exception as error:
        raise ValueError(f"{what} cannot be made: {in_one_line(error)}") from error
