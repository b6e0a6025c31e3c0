"""Environments of EnvPool, written in C++, as a `VectorEnv`. The only file that imports envpool.

`EnvPool` is for classic control, MuJoCo, dm_control and all other environments whose observations and actions are
single spaces or a Dict of spaces, except Atari games (``envs/envpool_atari.py``). Ids are EnvPool's with a prefix:
envpool:HalfCheetah-v4, envpool:CartpoleBalance-v1.

EnvPool begins a game in the step after the end of the previous one, as `VectorEnv` requires. A pool, EnvPool's set of B
environments, has one thread, which steps the environments one after the other while the calling thread waits. More
threads would take cores from other simulator processes.

This file works around these properties of EnvPool 1.2.5, each with a test:

* A seed has an effect only when a pool is made. So `reset` makes a new pool unless the present one is unused.
* State cannot be saved or loaded, so the actions of the running game are recorded and repeated (``envs/history.py``).
  This works for the modules in REPLAYED: a game depends on the seed and on the number of earlier games, but not on what
  happened in them.
* A game that ends in the step in which it reaches its time limit is reported as truncated, not as terminated.
* The bounds of dm_control's observation spaces are wrong (from 2.2e-308) and are not used here.
"""

from __future__ import annotations

import ctypes
import re
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from typing import Any

import numpy as np
import numpy.typing as npt

from actorlearn.actions import cell, draw
from actorlearn.envs.history import ActionHistory
from actorlearn.envs.interface import EnvSpec, MalformedStepError, Row, ShortRepr, check_actions, seed31
from actorlearn.envs.observations import MisfitError
from actorlearn.envs.spaces import Spaces
from actorlearn.envs.specs import EnvPoolSettings
from actorlearn.nearest import nearest


def _opengl() -> bool:
    """Load the OpenGL library, with which MuJoCo draws; return whether this succeeded before EnvPool was imported."""
    try:
        ctypes.CDLL("libGL.so.1", ctypes.RTLD_GLOBAL)
    except OSError:
        return False
    return "envpool" not in sys.modules


DRAWS = _opengl()
"""Whether MuJoCo can draw: EnvPool finds the library only if it was loaded before EnvPool."""

import envpool  # noqa: E402
from envpool.registration import registry  # noqa: E402

ATARI = "envpool.atari"
"""EnvPool's module of Atari games."""
MUJOCO = "envpool.mujoco."
"""Prefix of EnvPool's modules of MuJoCo environments."""
REPLAYED = ("envpool.atari", "envpool.classic_control", "envpool.mujoco.dmc", "envpool.mujoco.gym")
"""Modules whose games reach the same state when their actions are repeated, as tests have shown."""
POOLS = frozenset(
    {
        "base_path",
        "batch_size",
        "env_seed",
        "gym_reset_return_info",
        "max_episode_steps",
        "max_num_players",
        "num_envs",
        "num_threads",
        "seed",
        "thread_affinity_offset",
    }
)
"""Arguments of all EnvPool environments that the topology determines, so that env.kwargs must not contain them."""

Array = npt.NDArray[Any]
Tree = Any
"""Observations of a pool: an array [B, …], or a dict of such arrays."""


class Pooled(ShortRepr):
    """Base of `VectorEnv`s of one EnvPool id; subclasses convert observations and actions."""

    def __init__(
        self, env_id: str, spec: EnvSpec, seeds: Sequence[int], options: Mapping[str, Any], beat: Callable[[], object]
    ) -> None:
        """Make one environment per seed; ``options`` are EnvPool's arguments.

        ``restore`` calls ``beat`` again and again, as a sign that it does not hang.
        """
        self.spec, self.count = spec, len(seeds)
        self._id, self._options, self._beat = env_id, options, beat
        self._ids = np.arange(self.count, dtype=np.int32)
        self._dtype = cell(spec.actions)[0]
        stored = ("uint8", ()) if isinstance(spec.actions, int) and spec.actions <= 256 else cell(spec.actions)
        self._history = ActionHistory([seed31(seed) for seed in seeds], whole=False, action=stored)
        self._ended = np.zeros(self.count, np.bool_)
        self._lives: Array = np.zeros(self.count, np.int32)
        self._closed, self._used = False, False
        self._pool = self._made()
        self._newest: Array = np.zeros((self.count, *spec.observation_shape), spec.observation_dtype)

    def reset(self, row: Row) -> None:
        """Start every environment from its seed, and write the first observations to ``row``."""
        self._need_open()
        self._history.begin()
        if self._used:
            self._pool = self._made()
        self._used = True
        self._begin(slice(None), row)

    def restart(self, chosen: npt.NDArray[np.bool_], row: Row) -> None:
        """Start a new game in the chosen environments, and write their first observations to ``row``."""
        self._need_open()
        if chosen.any():
            self._history.restart(chosen)
            self._begin(chosen, row)

    def step(self, action: Array, row: Row) -> None:
        """Take action [B, …], and write the results to ``row``."""
        self._need_open()
        check_actions(action, self.count, self.spec.actions)
        observation, reward, terminated, truncated, info = self._pool.step(self._taken(action))
        self._newest = self._converted(observation, info)
        self._check(reward)
        first, lives = self._ended, info.get("lives", self._lives)
        terminated, truncated = self._ends(terminated, truncated, info)
        row.observation[...] = self._newest
        row.reward[...] = reward
        row.reward[first] = 0.0
        row.terminated[...] = terminated
        row.truncated[...] = truncated
        row.first[...] = first
        self._ended = terminated | truncated
        row.life_lost[...] = (lives < self._lives) & (lives > 0) & ~(self._ended | first)
        self._lives = lives
        self._history.step(action, first)

    def random_actions(self, random: np.random.Generator) -> Array:
        """Draw one action for each environment."""
        return draw(self.spec.actions, (self.count,), random)

    def state(self) -> dict[str, Array]:
        """Return the recorded actions of the games, and a checksum of each environment's newest observation."""
        self._need_open()
        if self.spec.inexact:
            raise RuntimeError(self.spec.inexact)
        return {"ended": self._ended.copy(), "shown": self._checksums()} | self._history.state()

    def restore(self, state: Mapping[str, Array]) -> None:
        """Replay the recorded actions; raises ValueError if the newest observations then differ from the saved ones."""
        self._need_open()
        try:
            ended, shown = state["ended"], state["shown"]
            self._history.restore(state)
            self._replay()
        except (KeyError, IndexError, TypeError, ValueError) as error:
            message = f"{self._id!r} cannot restore this state: {type(error).__name__}: {error}"
            raise ValueError(message) from error
        for name, was, found in (("ended", ended, self._ended), ("shown", shown, self._checksums())):
            if (wrong := np.flatnonzero(found != was)).size:
                i = wrong[0]
                raise ValueError(
                    f"environment {i} of {self._id!r} does not reach the saved state: {name} is {found[i]}, and was "
                    f"{was[i]}; use the version of envpool with which the state was saved"
                )

    def render(self) -> list[npt.NDArray[np.uint8]]:
        """Return pictures of all environments; raises ValueError if the pool cannot make any."""
        try:
            return list(self._pool.render(self._ids))
        except Exception as error:  # EnvPool's C++ code may raise anything
            said = f"{type(error).__name__}: {error}".splitlines()[0]
            raise ValueError(f"env.id: {self._id!r} cannot be rendered: {said}") from error

    def close(self) -> None:
        """End the pool's thread and free its memory."""
        self._closed, self._pool = True, None  # the pool ends with its last reference

    def _taken(self, action: Array) -> Array:
        """Return actions [B, …] in the form that the pool accepts."""
        raise NotImplementedError

    def _converted(self, observation: Tree, info: dict[str, Any]) -> Array:
        """Convert the observations of n environments to one array [n, *observation_shape]."""
        raise NotImplementedError

    def _ends(self, terminated: Array, truncated: Array, info: dict[str, Any]) -> tuple[Array, Array]:
        """Return the environments whose games are over, and those whose games were truncated: [n] each."""
        del info
        return terminated, truncated

    def _made(self) -> Any:
        """Make a pool whose games begin from the recorded seeds; raises ValueError if that fails."""
        seeds = self._history.seeds().tolist()
        with _quiet():
            try:
                pool = envpool.make_gymnasium(**self._options, num_envs=self.count, num_threads=1, seed=seeds)
            except Exception as error:  # EnvPool's C++ code may raise anything
                said = f"{type(error).__name__}: {error}".splitlines()[0]
                raise ValueError(f"env.id: {self._id!r} cannot be made: {said}") from error
            _ = pool.observation_space  # EnvPool makes it, with warnings, at its first use
        return pool

    def _begin(self, chosen: slice | npt.NDArray[np.bool_], row: Row) -> None:
        self._start(chosen)
        self._check(row.reward[:0])
        row.observation[chosen] = self._newest[chosen]
        row.begin(chosen)

    def _start(self, chosen: slice | npt.NDArray[np.bool_]) -> None:
        observation, info = self._pool.reset(self._ids[chosen])
        self._newest[chosen] = self._converted(observation, info)
        self._lives[chosen] = info.get("lives", 0)
        self._ended[chosen] = False

    def _replay(self) -> None:
        self._pool, self._used = self._made(), True
        for move in self._history.replay():
            self._beat()
            if move.action is None:
                self._start(move.chosen)
                continue
            ids, action = self._ids[move.chosen], move.action.astype(self._dtype)  # so that scaling rounds as before
            found = self._pool.step(self._taken(action)[ids], ids)
            self._newest[ids] = self._converted(found[0], found[4])
            terminated, truncated = self._ends(found[2], found[3], found[4])
            self._ended[ids] = terminated | truncated
            self._lives[ids] = found[4].get("lives", 0)

    def _checksums(self) -> Array:
        return np.array([zlib.crc32(np.ascontiguousarray(values).tobytes()) for values in self._newest], np.int64)

    def _check(self, reward: Array) -> None:
        """Raise MalformedStepError for rewards, or newest observations, that are not finite in float32."""
        for field, found in (("reward", reward), ("observation", self._newest)):
            if found.dtype.kind == "f" and not np.isfinite(found).all():
                i, *place = np.argwhere(~np.isfinite(found))[0].tolist()
                value, name = found[(i, *place)].item(), f"{field}{place or ''}"
                raise MalformedStepError(self._id, i, name, value, "it must be finite in float32")

    def _need_open(self) -> None:
        if self._closed:
            raise RuntimeError("the environments are closed")


class EnvPool(Pooled):
    """B environments of one EnvPool id that is not an Atari game."""

    def __init__(
        self,
        settings: EnvPoolSettings,
        seeds: Sequence[int],
        beat: Callable[[], object] = lambda: None,
        **options: Any,
    ) -> None:
        spaces, arguments = _described(settings)
        self._actions, self._layout = spaces.actions, spaces.layout
        module = known(settings.id)
        inexact = "" if module in REPLAYED else f"it is not known whether games of {module} are repeatable"
        super().__init__(settings.id, spaces.spec(inexact=inexact), seeds, {**arguments, **options}, beat)

    def random_actions(self, random: np.random.Generator) -> Array:
        """Draw one action for each environment, uniformly from the action space."""
        return self._actions.draw(self.count, random)

    def _taken(self, action: Array) -> Array:
        return self._actions.taken_together(action, len(action))

    def _converted(self, observation: Tree, info: dict[str, Any]) -> Array:
        values: Array = np.zeros((len(info["env_id"]), *self._layout.shape), self._layout.dtype)
        try:
            self._layout.store_all(observation, values)
        except MisfitError as misfit:
            raise MalformedStepError(self._id, None, *misfit.args) from None
        with np.errstate(over="ignore"):  # too large a number becomes infinite, which `_check` refuses
            return values.astype(self.spec.observation_dtype, copy=False)


make = EnvPool


def make_rendered(
    settings: EnvPoolSettings, seeds: Sequence[int], beat: Callable[[], object] = lambda: None
) -> EnvPool:
    """Make one environment per seed that can be rendered; raises ValueError for MuJoCo without OpenGL."""
    if known(settings.id).startswith(MUJOCO) and not DRAWS:  # EnvPool would end the process
        rule = "rendering needs libGL.so.1, loaded before envpool: apt-get install libgl1 libegl1"
        raise ValueError(f"env.id: {settings.id!r} cannot be rendered: {rule}")
    return EnvPool(settings, seeds, beat, render_mode="rgb_array")


def spec(settings: EnvPoolSettings) -> EnvSpec:
    """Return the `EnvSpec`; makes one environment, because only this checks all arguments."""
    env = EnvPool(settings, [0])
    env.close()
    return env.spec


def _described(settings: EnvPoolSettings) -> tuple[Spaces, dict[str, Any]]:
    """Return the conversions of observations and actions, and the arguments for EnvPool.

    Raises ValueError if the id or an argument is not supported.
    """
    known(settings.id)
    name, what = settings.id.removeprefix("envpool:"), f"env.id: {settings.id!r}"
    config = envpool.make_spec(name).config
    _check_arguments(settings, config)
    if config.max_num_players > 1:
        raise ValueError(
            f"{what} has {config.max_num_players} players; only environments with one player are supported"
        )
    with _quiet():
        try:
            made = envpool.make_spec(name, **settings.kwargs)
            observation, action = made.observation_space, made.action_space
        except Exception as error:  # EnvPool's C++ code may raise anything
            said = f"{type(error).__name__}: {error}".splitlines()[0]
            raise ValueError(f"{what} cannot be made with kwargs {settings.kwargs}: {said}") from error
    limits = [limit for limit in (config.max_episode_steps, settings.time_limit_steps) if limit > 0]
    limit = {"max_episode_steps": min(limits)} if limits else {}
    spaces = Spaces.of(settings.id, observation, action, scale_actions=settings.scale_actions)
    return spaces, {"task_id": name, **settings.kwargs, **limit}


def _check_arguments(settings: EnvPoolSettings, config: Any) -> None:
    """Raise ValueError for arguments that EnvPool does not accept or that the topology determines."""
    taken = sorted(set(config._fields) - POOLS)
    for name in settings.kwargs:
        if name not in taken:
            rule = "the topology sets this argument" if name in POOLS else "EnvPool has no such argument"
            raise ValueError(f"env.kwargs.{name}: {rule}; {settings.id!r} takes {', '.join(taken) or 'none'}")


def known(env_id: str) -> str:
    """Return the EnvPool module of an id; raises ValueError for an unknown id, with the most similar known id."""
    name = re.sub(r"^envpool:(ALE/)?", "", env_id)
    if name not in registry.specs or (registry.specs[name][0] == ATARI) != ("ALE/" in env_id):
        closest = _written(nearest(name, registry.specs, likeness=0.0))
        version = metadata.version("envpool")
        raise ValueError(f"env.id: {env_id!r} is not an id of envpool {version}; did you mean {closest!r}?")
    module: str = registry.specs[name][0]
    return module


def _written(name: str) -> str:
    """Return an id of EnvPool as it is written in topologies."""
    return f"envpool:ALE/{name}" if registry.specs[name][0] == ATARI else f"envpool:{name}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Ignore gymnasium's warnings about the bounds of EnvPool's spaces."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
