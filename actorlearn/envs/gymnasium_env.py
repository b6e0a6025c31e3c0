"""Any gymnasium environment with box observations and discrete or box actions, by id or "package.module:Class".

Reads: EnvSettings, one seed per environment, actions. Writes: rows, but only values that may be learned from: what an
environment returns is checked here, at the boundary, before a row is touched. Refuses to know: frame stacks, blocks.
"""

from __future__ import annotations

import copy
import difflib
import importlib
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, NoReturn

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.envs.registration import EnvSpec as Registered
from gymnasium.spaces import Box, Discrete

from actorlearn.envs.interface import EnvSettings, EnvSpec, MalformedStepError, Row, check_actions, empty_row, seed31

Environment = gymnasium.Env[Any, Any]

FLOAT32_MAX = float(np.finfo(np.float32).max)
BEAT_EVERY_S = 0.1
"""Least time between two signs of life within a step: most environments take microseconds."""
NUMBERS = (float, int, np.floating, np.integer)


class Gymnasium:
    """B environments of one kind, stepped one after the other.

    Time limits are counted here and not by gymnasium's wrapper: the registered one and `time_limit_steps`, whichever
    is shorter. A step that both ends the game and reaches a limit has ended the game.
    """

    def __init__(self, settings: EnvSettings, seeds: Sequence[int], beat: Callable[[], object] = lambda: None) -> None:
        """One environment per seed. ``beat`` is called between two of them that take longer than BEAT_EVERY_S."""
        self.count = len(seeds)
        self._beat, self._beat_s = beat, 0.0
        self._id = settings.id
        self._seeds = [seed31(seed) for seed in seeds]
        self._envs, limits = zip(*(self._constructed(settings) for _ in seeds), strict=True)
        self.spec = _spec(settings.id, self._envs[0])
        self._box = _box(settings.id, self._envs[0])
        self._action_space = self._envs[0].action_space
        self._start = int(self._action_space.start) if isinstance(self._action_space, Discrete) else 0
        self._limit = min(limits[0] or 2**62, settings.time_limit_steps or 2**62)
        self._steps = [0] * self.count  # of the running game
        self._ended = [False] * self.count
        # Values are gathered here, checked all at once, and only then written.
        shape = (self.count, *self.spec.observation_shape)
        self._observation: npt.NDArray[Any] = np.zeros(shape, self._box.dtype)
        self._reward = np.zeros(self.count, np.float64)

    def reset(self, row: Row) -> None:
        """Start every environment from its seed; writes first rows."""
        self._need_open()
        for i, seed in enumerate(self._seeds):
            self._begin(i, seed)
        self._reward.fill(0.0)
        self._ended = [False] * self.count
        self._write(row, self._ended, self._ended, first=[True] * self.count)

    def restart(self, chosen: npt.NDArray[np.bool_], row: Row) -> None:
        """Start a new game in the chosen environments; writes their first rows."""
        self._need_open()
        for i in np.flatnonzero(chosen).tolist():
            self._begin(i)
            self._reward[i] = 0.0
            self._ended[i] = False
        begun = empty_row(self.spec, self.count)
        self._write(begun, self._ended, self._ended, first=[True] * self.count)
        row.take(begun, chosen)

    def step(self, action: npt.NDArray[Any], row: Row) -> None:
        """Take action [B] or [B, n]; writes the rows it leads to."""
        first, limit, steps = self._ended, self._limit, self._steps
        terminated, truncated = [False] * self.count, [False] * self.count
        for i, choice in enumerate(self._choices(action)):
            if monotonic() >= self._beat_s:
                self._show_life()
            if first[i]:
                self._begin(i)
                self._reward[i] = 0.0
                continue
            result = self._envs[i].step(choice)
            if type(result) is not tuple or len(result) != 5:
                self._refuse(i, "step()", result, "it must return 5 values: see gymnasium.Env.step")
            observation, reward, over, cut, _ = result
            self._gather(i, observation)
            self._reward[i] = reward if type(reward) is float else self._number(i, reward)
            steps[i] += 1
            terminated[i] = over if type(over) is bool else self._flag(i, "terminated", over)
            cut = cut if type(cut) is bool else self._flag(i, "truncated", cut)
            truncated[i] = (cut or steps[i] >= limit) and not terminated[i]
        self._write(row, terminated, truncated, first)
        self._ended = [over or cut for over, cut in zip(terminated, truncated, strict=True)]

    def random_actions(self, random: np.random.Generator) -> npt.NDArray[Any]:
        """Draw one action for each environment."""
        space, actions = self._action_space, self.spec.actions
        if isinstance(space, Box):
            return random.uniform(space.low, space.high, (self.count, *space.shape)).astype(np.float32)
        return random.integers(actions, size=self.count)

    def close(self) -> None:
        """Close every environment."""
        envs, self._envs = self._envs, ()
        for env in envs:
            self._show_life()
            env.close()

    def _constructed(self, settings: EnvSettings) -> tuple[Environment, int | None]:
        self._show_life()
        return _construct(settings.id)

    def _show_life(self) -> None:
        self._beat_s = monotonic() + BEAT_EVERY_S
        self._beat()

    def _need_open(self) -> None:
        if not self._envs:
            raise RuntimeError("the environments are closed")

    def _choices(self, action: npt.NDArray[Any]) -> list[Any]:
        """Actions as the environments take them: counted from `Discrete.start`, or within the bounds of a Box."""
        self._need_open()
        check_actions(action, self.count, self.spec.actions)
        space = self._action_space
        if isinstance(space, Box):
            return list(np.clip(action, space.low, space.high).astype(space.dtype, copy=False))
        choices: list[int] = action.tolist()
        return [choice + self._start for choice in choices] if self._start else choices

    def _begin(self, i: int, seed: int | None = None) -> None:
        self._show_life()
        result = self._envs[i].reset(seed=seed)
        if type(result) is not tuple or len(result) != 2:
            self._refuse(i, "reset()", result, "it must return 2 values: see gymnasium.Env.reset")
        self._gather(i, result[0])
        self._steps[i] = 0

    def _gather(self, i: int, observation: Any) -> None:
        box = self._box
        if type(observation) is not np.ndarray or observation.dtype != box.dtype or observation.shape != box.shape:
            observation = self._coerce(i, observation)
        self._observation[i] = observation

    def _coerce(self, i: int, observation: Any) -> npt.NDArray[Any]:
        """An observation that is not an array of the declared shape and dtype, if it can become one."""
        box = self._box
        try:
            array = np.asarray(observation)
        except Exception:  # an environment may return anything
            self._refuse(i, "observation", observation, f"it must be an array of shape {box.shape}")
        if array.shape != box.shape:
            self._refuse(i, "the shape of observation", array.shape, f"its space says {box.shape}")
        # Bytes would wrap around, so they must be bytes; other numbers are cast within their kind.
        casting: Any = "no" if box.dtype == np.uint8 else "same_kind"
        if array.dtype.kind not in "biuf" or not np.can_cast(array.dtype, box.dtype, casting):
            self._refuse(i, "the dtype of observation", str(array.dtype), f"its space says {box.dtype}")
        with np.errstate(over="ignore"):  # becomes infinite, and is refused as such
            return array.astype(box.dtype)

    def _number(self, i: int, reward: Any) -> float:
        if not isinstance(reward, NUMBERS):
            self._refuse(i, "reward", reward, "it must be one number")
        try:
            return float(reward)
        except OverflowError:
            self._refuse(i, "reward", reward, "it must be finite in float32")

    def _flag(self, i: int, name: str, value: Any) -> bool:
        if not isinstance(value, np.bool_):
            self._refuse(i, name, value, "it must be True or False")
        return bool(value)

    def _write(self, row: Row, terminated: list[bool], truncated: list[bool], first: list[bool]) -> None:
        """Check everything that was gathered, then write it."""
        for field, values in (("reward", self._reward), ("observation", self._observation)):
            good = _finite(values)
            if not good.all():
                i, *place = np.argwhere(~good)[0].tolist()
                self._refuse(i, f"{field}{place or ''}", values[(i, *place)].item(), "it must be finite in float32")
        row.observation[...] = self._observation
        row.reward[...] = self._reward
        row.terminated[...] = terminated
        row.truncated[...] = truncated
        row.life_lost.fill(False)
        row.first[...] = first

    def _refuse(self, i: int, field: str, value: object, rule: str) -> NoReturn:
        raise MalformedStepError(self._id, i, field, value, rule)


def _finite(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where a value is a finite float32 (NaN compares as false)."""
    if values.dtype.kind != "f":
        return np.ones((), np.bool_)
    finite: npt.NDArray[np.bool_] = np.isfinite(values) if values.dtype.itemsize <= 4 else np.abs(values) <= FLOAT32_MAX
    return finite


def make(settings: EnvSettings, seeds: Sequence[int], beat: Callable[[], object] = lambda: None) -> Gymnasium:
    """One environment per seed."""
    return Gymnasium(settings, seeds, beat)


def spec(settings: EnvSettings) -> EnvSpec:
    """Shapes and counts; makes one environment and closes it."""
    env, _ = _construct(settings.id)
    try:
        return _spec(settings.id, env)
    finally:
        env.close()


def _spec(env_id: str, env: Environment) -> EnvSpec:
    box = _box(env_id, env)
    return EnvSpec(
        observation_shape=tuple(int(size) for size in box.shape),
        observation_dtype="uint8" if box.dtype == np.uint8 else "float32",
        actions=_actions(env_id, env),
        frames_per_step=1,
    )


def _box(env_id: str, env: Environment) -> Box:
    space = env.observation_space
    if not isinstance(space, Box):
        raise ValueError(
            f"env.id: {env_id!r} has observation space {space}; only Box is supported: wrap it in a class of your own, "
            "env.id: package.module:Class, that gives numbers or images"
        )
    return space


def _actions(env_id: str, env: Environment) -> int | tuple[int, ...]:
    """How many discrete actions there are, or the shape of a Box of them."""
    space = env.action_space
    if isinstance(space, Discrete):
        return int(space.n)
    rule = "only Discrete and Box are supported"
    if isinstance(space, Box):
        if len(space.shape) == 1 and space.dtype.kind == "f" and space.is_bounded():
            return tuple(int(size) for size in space.shape)
        rule = "a Box must have one dimension of floats, all with bounds, to which actions are clipped"
    raise ValueError(f"env.id: {env_id!r} has action space {space}; {rule}")


def _construct(env_id: str) -> tuple[Environment, int | None]:
    """An environment and its registered time limit in steps."""
    if ":" in env_id:
        return _construct_class(env_id), None
    try:
        registered = copy.copy(gymnasium.spec(env_id))
    except gymnasium.error.Error:
        raise ValueError(f"env.id: {env_id!r} is not registered with gymnasium; {_nearest(env_id)}") from None
    if _is_ale(registered):  # once ale_py is imported it registers ids that skip frames at random, in colour
        raise ValueError(f"env.id: {env_id!r} is not how Atari games are played here; {_nearest(env_id)}")
    # The limit is counted by Gymnasium.step, and the order of calls is ours: no wrapper needs to see every step.
    registered.order_enforce = False
    try:
        env = gymnasium.make(registered, max_episode_steps=-1, disable_env_checker=True)
    except (gymnasium.error.Error, ImportError) as error:
        raise ValueError(f"env.id: {env_id!r} cannot be made: {error}") from error
    return env, registered.max_episode_steps


def _construct_class(env_id: str) -> Environment:
    module_name, _, name = env_id.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"env.id: {env_id!r} cannot be imported as package.module:Class: {error}; start where its "
            "package lies, or put that folder on PYTHONPATH"
        ) from error
    if not (isinstance(found, type) and issubclass(found, gymnasium.Env)):
        raise ValueError(f"env.id: {env_id!r} is {found!r}; it must be a subclass of gymnasium.Env")
    try:
        env: Environment = found()
    except TypeError as error:
        raise ValueError(f"env.id: {env_id!r} must be constructible without arguments: {error}") from error
    except Exception as error:  # a user's code may raise anything
        raise ValueError(f"env.id: {env_id!r} cannot be made: {type(error).__name__}: {error}") from error
    return env


def _is_ale(registered: Registered) -> bool:
    return str(registered.entry_point).startswith("ale_py")


def _nearest(env_id: str) -> str:
    """The way out, for an id nobody registered."""
    from actorlearn.envs import atari

    known = [name for name, registered in gymnasium.registry.items() if not _is_ale(registered)]
    nearest = difflib.get_close_matches(env_id, [*known, *atari.ids()], n=1, cutoff=0.4)
    hint = f"did you mean {nearest[0]!r}? " if nearest else ""
    return hint + "Ids are like 'CartPole-v1', 'ALE/Pong-v5' or 'package.module:Class'"
