"""Saving and restoring the state of gymnasium environments and their wrappers, so that runs can be resumed exactly.

An environment defines its state by two methods of its class:

    def state(self) -> dict: ...            # values are numbers, strings, None, arrays, and lists and dicts of these
    def restore(self, state: dict) -> None  # gets an equal dict, in which tuples have become lists

The state must include that of the random generator: ``self.np_random.bit_generator.state`` is such a dict and can be
assigned. A wrapper with state needs both methods too. For some of gymnasium's classes ATTRIBUTES lists the state.

A saved state is a line of JSON and arrays. Pickle is not used, because a pickle could run code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from actorlearn.envs.dm_env import DmEnv

Arrays = dict[str, npt.NDArray[Any]]
Environment = gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any]

ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "actorlearn.envs.cartpole:CartPole": ("state", "steps", "prev_done", "generators"),
    "actorlearn.envs.pickled:Pickled": (),
    "gymnasium.envs.classic_control.acrobot:AcrobotEnv": ("state",),
    "gymnasium.envs.classic_control.cartpole:CartPoleEnv": ("state", "steps_beyond_terminated"),
    "gymnasium.envs.classic_control.continuous_mountain_car:Continuous_MountainCarEnv": ("state",),
    "gymnasium.envs.classic_control.mountain_car:MountainCarEnv": ("state",),
    "gymnasium.envs.classic_control.pendulum:PendulumEnv": ("state", "last_u"),
    "gymnasium.envs.toy_text.cliffwalking:CliffWalkingEnv": ("s", "lastaction"),
    "gymnasium.envs.toy_text.frozen_lake:FrozenLakeEnv": ("s", "lastaction"),
    "gymnasium.wrappers.common:OrderEnforcing": (),
    "gymnasium.wrappers.common:PassiveEnvChecker": (),
    "gymnasium.wrappers.common:RecordEpisodeStatistics": (),  # its state affects only `info`
    "gymnasium.wrappers.common:TimeLimit": ("_elapsed_steps",),
}
"""Class of an environment or wrapper -> the attributes that are its whole state, apart from the random generator."""
STATELESS = ("gymnasium.wrappers.transform_",)
"""Prefixes of modules whose wrappers have no state: they convert single observations, actions or rewards."""

_ARRAY = "<array>"
_TEXT = "text"


def inexact(env: Environment) -> str:
    """Return the reason why the state of an environment, with its wrappers, cannot be saved; "" if it can."""
    for layer in _layers(env):
        name = _name(layer)
        if not (_has_pair(layer) or name in ATTRIBUTES or name.startswith(STATELESS)):
            what = "wrapper" if isinstance(layer, gymnasium.Wrapper) else "environment"
            return f"the {what} {name} cannot be saved: its class has no methods state() and restore(state)"
    return ""


def read(envs: Sequence[Environment]) -> Arrays:
    """Return the state of environments and their wrappers as arrays.

    Raises TypeError for values of unsupported types, and any exception that a method ``state`` raises.
    """
    arrays: list[npt.NDArray[Any]] = []
    text = json.dumps([[_plain(_of(layer), arrays, _name(layer)) for layer in _layers(env)] for env in envs])
    return {_TEXT: np.frombuffer(text.encode(), np.uint8), **{str(n): array for n, array in enumerate(arrays)}}


def put_back(envs: Sequence[Environment], state: Mapping[str, npt.NDArray[Any]]) -> None:
    """Restore the state that `read` returned; the environments must have been reset before.

    Raises ValueError if the number of environments or their wrappers differ from those of the state.
    """
    try:
        kept = json.loads(state[_TEXT].tobytes())
    except RecursionError as error:
        raise ValueError(f"the values of the state are nested too deeply: {error}") from None
    layers = [list(_layers(env)) for env in envs]
    if [len(own) for own in layers] != [len(own) for own in kept]:
        raise ValueError(
            f"the number of environments ({len(envs)}) or their wrappers differ from those of the saved state "
            f"({len(kept)} environments); use the env.id, env.wrappers and number of environments with which it was "
            "saved"
        )
    for own, states in zip(layers, kept, strict=True):
        for layer, values in zip(own, states, strict=True):
            _put(layer, _whole(values, state))


def _layers(env: Environment) -> Iterator[Environment]:
    """Yield an environment's wrappers, outermost first, and then the environment itself."""
    while isinstance(env, gymnasium.Wrapper):
        yield env
        env = env.env
    yield env.played if isinstance(env, DmEnv) else env


def _has_pair(layer: Environment) -> bool:
    """Whether the class has the methods ``state`` and ``restore``.

    The class is asked, because the instance of a wrapper forwards unknown attributes to the wrapped environment.
    """
    return all(callable(getattr(type(layer), name, None)) for name in ("state", "restore"))


def _name(layer: Environment) -> str:
    return f"{type(layer).__module__}:{type(layer).__qualname__}"


def _of(layer: Any) -> Any:
    if _has_pair(layer):
        return layer.state()
    state = {name: getattr(layer, name) for name in ATTRIBUTES.get(_name(layer), ())}
    generator = {} if isinstance(layer, gymnasium.Wrapper) else {"generator": layer.np_random.bit_generator.state}
    return {**state, **generator}


def _put(layer: Any, state: dict[str, Any]) -> None:
    if _has_pair(layer):
        layer.restore(state)
        return
    if not isinstance(layer, gymnasium.Wrapper):
        layer.np_random.bit_generator.state = state.pop("generator")
    for name in ATTRIBUTES.get(_name(layer), ()):  # only these, whatever names the file contains
        setattr(layer, name, state[name])


def _plain(value: Any, arrays: list[npt.NDArray[Any]], name: str) -> Any:
    """Return a value as JSON can store it: numpy arrays and numbers move to ``arrays``, and their index stays.

    ``name`` is the class whose state contains the value, for errors.
    """
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biufcSU":
        arrays.append(np.array(value))
        return {_ARRAY: len(arrays) - 1}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(part, arrays, name) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part, arrays, name) for part in value]
    raise TypeError(
        f"the state of {name} contains {value!r:.200}; it may contain numbers, strings, None, arrays, and lists and "
        "dicts (by strings) of these"
    )


def _whole(value: Any, state: Mapping[str, npt.NDArray[Any]]) -> Any:
    """Return the value from which `_plain` made ``value``; ``state`` has the arrays by their index."""
    if isinstance(value, dict):
        if set(value) == {_ARRAY}:
            array = np.array(state[str(value[_ARRAY])])
            return array if array.ndim else array[()]
        return {key: _whole(part, state) for key, part in value.items()}
    return [_whole(part, state) for part in value] if isinstance(value, list) else value
