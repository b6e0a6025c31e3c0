"""Environments of EnvPool, written in C++, as a `VectorEnv`. The only file that imports envpool.

Reads: settings, one seed per environment, actions. Writes: rows. ``envs/envpool_atari.py`` plays EnvPool's Atari games;
here are all others whose observations and actions are single spaces or a Dict of them: classic control, MuJoCo,
dm_control and the rest. Ids are EnvPool's own after the prefix: envpool:HalfCheetah-v4, envpool:CartpoleBalance-v1.

EnvPool begins a game in the step after the last one's end, as rows have it. A pool has one thread of its own, which
steps the environments one after the other while this one waits: simulators are processes, so more threads than one
would take cores from the others.

Facts of EnvPool 1.2.5 that this file works around, each with a test:

* A seed counts only when a pool is made. So `reset` makes a new pool unless this one is unused.
* No state can be saved or loaded: the running game's actions are recorded and repeated (``envs/history.py``), which
  holds for the families in REPLAYED. Their games depend on the seed and the number of games before, not on these.
* A game that ends in the very step in which it reaches its time limit is reported as truncated, not as terminated.
* The bounds of dm_control's observation spaces are wrong (from 2.2e-308), and are not read here.
"""

from __future__ import annotations

import re
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from typing import Any

import envpool
import numpy as np
import numpy.typing as npt
from envpool.registration import registry

from actorlearn.actions import cell, draw
from actorlearn.envs.history import History
from actorlearn.envs.interface import EnvSpec, MalformedStepError, Row, check_actions, seed31
from actorlearn.nearest import nearest

ATARI = "envpool.atari"
"""EnvPool's module of Atari games."""
REPLAYED = ("envpool.atari", "envpool.classic_control", "envpool.mujoco.dmc", "envpool.mujoco.gym")
"""Modules whose games were found to lead to the same place when their actions are repeated."""
Array = npt.NDArray[Any]
Tree = Any
"""Observations of a pool: an array [B, …], or a dict of these, by name."""


class Pooled:
    """B environments of one EnvPool id: rows, restarts and states; subclasses convert observations and actions."""

    def __init__(
        self, env_id: str, spec: EnvSpec, seeds: Sequence[int], options: Mapping[str, Any], beat: Callable[[], object]
    ) -> None:
        """One environment per seed. ``options`` are EnvPool's arguments; ``beat`` is called during a replay."""
        self.spec, self.count = spec, len(seeds)
        self._id, self._options, self._beat = env_id, options, beat
        self._ids = np.arange(self.count, dtype=np.int32)
        stored = ("uint8", ()) if isinstance(spec.actions, int) and spec.actions <= 256 else cell(spec.actions)
        self._history = History([seed31(seed) for seed in seeds], whole=False, action=stored)
        self._ended = np.zeros(self.count, np.bool_)
        self._lives: Array = np.zeros(self.count, np.int32)
        self._closed, self._used = False, False
        self._pool = self._made()
        self._newest: Array = np.zeros((self.count, *spec.observation_shape), spec.observation_dtype)

    def reset(self, row: Row) -> None:
        """Start every environment from its seed; writes first rows."""
        self._need_open()
        self._history.begin()
        if self._used:
            self._pool = self._made()
        self._used = True
        self._begin(slice(None), row)

    def restart(self, chosen: npt.NDArray[np.bool_], row: Row) -> None:
        """Start a new game in the chosen environments; writes their first rows."""
        self._need_open()
        if chosen.any():
            self._history.restart(chosen)
            self._begin(chosen, row)

    def step(self, action: Array, row: Row) -> None:
        """Take action [B, …]; writes the rows it leads to."""
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
        """Return the history of the games, and a checksum of their newest observations."""
        self._need_open()
        if self.spec.inexact:
            raise RuntimeError(self.spec.inexact)
        return {"ended": self._ended.copy(), "shown": self._checksums()} | self._history.state()

    def restore(self, state: Mapping[str, Array]) -> None:
        """Replay the games of a state; raises ValueError when they do not lead to where they did."""
        self._need_open()
        try:
            ended, shown = state["ended"], state["shown"]
            self._history.restore(state)
            self._replay()
        except (KeyError, IndexError, TypeError, ValueError) as error:
            message = f"{self._id!r} cannot go on from this state: {type(error).__name__}: {error}"
            raise ValueError(message) from error
        for name, was, found in (("ended", ended, self._ended), ("shown", shown, self._checksums())):
            if (wrong := np.flatnonzero(found != was)).size:
                i = wrong[0]
                raise ValueError(
                    f"environment {i} of {self._id!r}, replayed, is not where it was: {name} {found[i]}, and was "
                    f"{was[i]}; envpool must be the version the state was taken with"
                )

    def render(self) -> list[npt.NDArray[np.uint8]]:
        """Return pictures of all environments, of pools made to be shown; raises ValueError, one line."""
        try:
            return list(self._pool.render(self._ids))
        except Exception as error:  # C++ code of many families
            said = f"{type(error).__name__}: {error}".splitlines()[0]
            raise ValueError(f"env.id: {self._id!r} cannot be shown: {said}") from error

    def close(self) -> None:
        """Join the pool's thread and free its memory."""
        self._closed, self._pool = True, None  # ends with the last reference

    def _taken(self, action: Array) -> Array:
        """Return actions [B, …] as the pool takes them."""
        raise NotImplementedError

    def _converted(self, observation: Tree, info: dict[str, Any]) -> Array:
        """Return observations as rows have them: [B, *observation_shape]."""
        raise NotImplementedError

    def _ends(self, terminated: Array, truncated: Array, info: dict[str, Any]) -> tuple[Array, Array]:
        """Return which games are over, and which were cut, [B] each."""
        del info
        return terminated, truncated

    def _made(self) -> Any:
        """Make a pool, whose games begin from the history's seeds."""
        seeds = self._history.seeds().tolist()
        with _quiet():
            pool = envpool.make_gymnasium(**self._options, num_envs=self.count, num_threads=1, seed=seeds)
            _ = pool.observation_space  # made once, at its first use
        return pool

    def _begin(self, chosen: slice | npt.NDArray[np.bool_], row: Row) -> None:
        self._start(chosen)
        self._check(row.reward[:0])
        row.observation[chosen] = self._newest[chosen]
        row.reward[chosen] = 0.0
        for flag in (row.terminated, row.truncated, row.life_lost):
            flag[chosen] = False
        row.first[chosen] = True

    def _start(self, chosen: slice | npt.NDArray[np.bool_]) -> None:
        """Reset the chosen environments."""
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
            ids = self._ids[move.chosen]
            found = self._pool.step(self._taken(move.action)[ids], ids)
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


def known(env_id: str) -> str:
    """Return EnvPool's module of an id; raises ValueError that names the nearest known one."""
    name = re.sub(r"^envpool:(ALE/)?", "", env_id)
    if name not in registry.specs or (registry.specs[name][0] == ATARI) != ("ALE/" in env_id):
        closest = _written(nearest(name, registry.specs, likeness=0.0))
        version = metadata.version("envpool")
        raise ValueError(f"env.id: {env_id!r} is not an id of envpool {version}; did you mean {closest!r}?")
    module: str = registry.specs[name][0]
    return module


def _written(name: str) -> str:
    """Return an id of EnvPool as topologies have it."""
    return f"envpool:ALE/{name}" if registry.specs[name][0] == ATARI else f"envpool:{name}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Ignore gymnasium's warnings of the bounds of EnvPool's spaces."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
