"""Converts environments of the interface ``dm_env.Environment`` to gymnasium environments.

Environments are recognised by their methods, so dm_env itself is not imported. Environments of dm_control are converted
by the package shimmy, which can also seed and draw them.

A game that ends with discount 0 counts as terminated, and with any other discount as truncated. Discounts within a game
are not used.
"""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable, Mapping
from itertools import zip_longest
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from actorlearn import imports

METHODS = ("reset", "step", "observation_spec", "action_spec")
"""Methods by which an environment of dm_env is recognised."""
_CONVERTED = "_converted_from_dm_env"
"""Attribute of environments that `as_gymnasium` has converted."""


def has_interface(found: object) -> bool:
    """Whether a class or an object has the methods of ``dm_env.Environment``."""
    return all(callable(getattr(found, name, None)) for name in METHODS)


def as_gymnasium(made: Any, maker: Callable[..., Any], kwargs: Mapping[str, Any]) -> gymnasium.Env[Any, Any] | None:
    """Convert ``made``, which ``maker(**kwargs)`` returned, to a gymnasium environment; None if it is no environment.

    ``maker`` is kept, because a reset with a seed may make the environment again. Raises ValueError if the spec of
    actions or observations is not supported, or if shimmy is needed but not installed.
    """
    if isinstance(made, gymnasium.Env):
        return made
    if not has_interface(made):
        return None
    converted: gymnasium.Env[Any, Any]
    if any(base.__module__.startswith("dm_control.") for base in type(made).__mro__):
        converted = _by_shimmy(made)
    else:
        seeded = imports.takes(maker, "seed") and "seed" not in kwargs
        converted = DmEnv(made, lambda seed: maker(**copy.deepcopy(dict(kwargs)), seed=seed) if seeded else None)
    setattr(converted, _CONVERTED, True)
    return converted


def is_converted(env: gymnasium.Env[Any, Any]) -> bool:
    """Whether `as_gymnasium` has converted the environment, which may have wrappers."""
    return hasattr(env.unwrapped, _CONVERTED)


class DmEnv(gymnasium.Env[Any, Any]):
    """A gymnasium environment around an environment of dm_env."""

    def __init__(self, env: Any, make: Callable[[int], Any]) -> None:
        """Wrap ``env``; ``make(seed)`` makes the environment that replaces it at a reset with a seed, or None."""
        self.played = env
        self._make = make
        self._action = env.action_spec()
        self._observation = env.observation_spec()
        self.observation_space = _space(self._observation, "observation_spec()")
        self.action_space = _action_space(self._action)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a game; with a seed, the environment is made again if its class or function takes one."""
        super().reset(seed=seed, options=options)
        if seed is not None and (made := self._make(seed)) is not None:
            self.close()
            self.played = made
        return _plain(self.played.reset().observation, self._observation), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take an action, which is cast to the dtype of the environment's action spec."""
        kind = self._action.dtype.type
        taken = self.played.step(np.asarray(action, kind) if self._action.shape else kind(action))
        ended = taken.last()
        over = ended and not np.any(taken.discount)
        reward = np.asarray(0.0 if taken.reward is None else taken.reward)
        if reward.size != 1:
            raise ValueError(f"step() returned the reward {taken.reward!r:.100}; it must be one number")
        seen = _plain(taken.observation, self._observation)
        return seen, float(reward.item()), bool(over), bool(ended and not over), {}

    def close(self) -> None:
        """Close the environment, if it has such a method."""
        getattr(self.played, "close", lambda: None)()


def _by_shimmy(made: Any) -> gymnasium.Env[Any, Any]:
    if importlib.util.find_spec("shimmy") is None:
        raise ValueError(
            f"environments of dm_control need shimmy, which is not installed: {imports.own_extra('shimmy')}"
        )
    wrapper = imports.attribute(
        "shimmy.dm_control_compatibility:DmControlCompatibilityV0", "an environment of dm_control"
    )
    wrapped: gymnasium.Env[Any, Any] = wrapper(made)
    return wrapped


def _space(spec: Any, what: str) -> spaces.Space[Any]:
    """Return the gymnasium space for a spec of dm_env, or for a mapping or sequence of specs.

    ``what`` names the spec in errors.
    """
    if isinstance(spec, Mapping):
        return spaces.Dict({name: _space(part, f"{what}[{name!r}]") for name, part in spec.items()})
    if isinstance(spec, list | tuple):
        return spaces.Tuple([_space(part, f"{what}[{number}]") for number, part in enumerate(spec)])
    dtype = np.dtype(spec.dtype)
    if hasattr(spec, "num_values"):
        return spaces.Discrete(int(spec.num_values))
    if dtype.kind not in "biuf":
        raise ValueError(f"{what} is {spec!r:.200}; its dtype must be bool, an integer type or a float type")
    least, most = (0, 1) if dtype.kind == "b" else (-np.inf, np.inf)
    if dtype.kind in "iu":
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    low, high = getattr(spec, "minimum", least), getattr(spec, "maximum", most)
    return spaces.Box(
        np.broadcast_to(low, spec.shape).astype(dtype),
        np.broadcast_to(high, spec.shape).astype(dtype),
        dtype=dtype.type,
    )


def _action_space(spec: Any) -> spaces.Space[Any]:
    """Return the gymnasium space for an action spec; a single integer with bounds becomes Discrete."""
    space = _space(spec, "action_spec()")
    if isinstance(space, spaces.Box) and not space.shape and space.dtype.kind in "iu" and hasattr(spec, "maximum"):
        return spaces.Discrete(int(space.high) - int(space.low) + 1, start=int(space.low))
    return space


def _plain(observation: Any, spec: Any) -> Any:
    """Return an observation of plain dicts, tuples and arrays, as its gymnasium space needs."""
    if isinstance(spec, Mapping) and isinstance(observation, Mapping):
        return {name: _plain(part, spec.get(name)) for name, part in observation.items()}
    if isinstance(spec, list | tuple) and isinstance(observation, list | tuple):
        return tuple(_plain(*both) for both in zip_longest(observation, spec))
    return np.asarray(observation)
