"""Any gymnasium environment as a `VectorEnv`; ``envs/observations.py`` converts its observations.

Reads: settings, one seed per environment, actions. Writes: rows. All values that an environment returns are checked
here before a row is changed. Knows no frame stacks and no blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from time import monotonic
from typing import Any, NoReturn

import msgspec
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.spaces import Box, Discrete, MultiBinary, Space

from actorlearn.actions import Actions, MultiDiscrete, draw
from actorlearn.envs import states
from actorlearn.envs.construct import Environment, construct
from actorlearn.envs.interface import EnvSpec, MalformedStepError, Row, check_actions, empty_row, seed31
from actorlearn.envs.observations import MisfitError, ObservationLayout, SpaceError, layout
from actorlearn.envs.specs import GymnasiumSettings

FLOAT32_MAX = float(np.finfo(np.float32).max)
BEAT_EVERY_S = 0.1
"""Least time between two signs of life within a step: most environments take microseconds."""
NUMBERS = (float, int, np.floating, np.integer)


class Gymnasium:
    """B environments of one kind, stepped one after the other.

    Time limits are counted here and not by gymnasium's wrapper: the registered one and `time_limit_steps`, whichever
    is shorter. A step that both ends the game and reaches a limit has ended the game.
    """

    def __init__(
        self, settings: GymnasiumSettings, seeds: Sequence[int], beat: Callable[[], object] = lambda: None
    ) -> None:
        """One environment per seed. ``beat`` is called between two of them that take longer than BEAT_EVERY_S."""
        self.count = len(seeds)
        self._beat, self._beat_s = beat, 0.0
        self._id, self._scales = settings.id, settings.scale_actions
        self._seeds = [seed31(seed) for seed in seeds]
        self._envs, limits = zip(*(self._constructed(settings) for _ in seeds), strict=True)
        self._layout, left_out = _layout(settings.id, self._envs[0])
        self.spec = _spec(settings.id, self._envs[0], self._layout, left_out)
        self._action_space = self._envs[0].action_space
        _refuse_others(settings.id, self._envs, self.spec)
        if self._scales and isinstance(self._action_space, Box) and not _can_be_stretched(self._action_space):
            space = _short(self._action_space)
            raise ValueError(f"env.scale_actions: true, and {settings.id!r} has {space}: its bounds are too far apart")
        start = getattr(self._action_space, "start", 0)  # a Box and a MultiBinary have none
        self._start: Any = int(start) if np.ndim(start) == 0 else start
        self._limit = min(limits[0] or 2**62, settings.time_limit_steps or 2**62)
        self._steps = [0] * self.count  # of the running game
        self._ended = [False] * self.count
        # Values are gathered here, checked all at once, and only then written.
        shape = (self.count, *self.spec.observation_shape)
        self._observation: npt.NDArray[Any] = np.zeros(shape, self._layout.dtype)
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
        """Take action [B, …]; writes the rows it leads to."""
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
        space = self._action_space
        if isinstance(space, Box):
            low, high = (-1.0, 1.0) if self._scales else (space.low, space.high)
            return random.uniform(low, high, (self.count, *space.shape)).astype(np.float32)
        return draw(self.spec.actions, (self.count,), random)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Take the environments' states, and how far each is in its game."""
        self._need_open()
        if self.spec.inexact:
            raise RuntimeError(self.spec.inexact)
        steps, ended = np.array(self._steps, np.int64), np.array(self._ended, np.bool_)
        return {"steps": steps, "ended": ended, **states.read(self._envs)}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore a state; each environment is reset first, as some allocate what they need in ``reset``."""
        self._need_open()
        try:
            steps, ended = state["steps"].tolist(), state["ended"].tolist()
            for i, seed in enumerate(self._seeds):
                self._begin(i, seed)
            states.put_back(self._envs, state)
        except Exception as error:  # an environment may raise anything
            raise ValueError(f"{self._id!r} cannot go on from this state: {type(error).__name__}: {error}") from error
        if len(steps) != self.count or len(ended) != self.count:
            raise ValueError(f"{self._id!r}: a state of {len(steps)} environments, for {self.count}")
        self._steps, self._ended = steps, ended

    def close(self) -> None:
        """Close every environment."""
        envs, self._envs = self._envs, ()
        for env in envs:
            self._show_life()
            env.close()

    def _constructed(self, settings: GymnasiumSettings) -> tuple[Environment, int | None]:
        self._show_life()
        return construct(settings)

    def _show_life(self) -> None:
        self._beat_s = monotonic() + BEAT_EVERY_S
        self._beat()

    def _need_open(self) -> None:
        if not self._envs:
            raise RuntimeError("the environments are closed")

    def _choices(self, action: npt.NDArray[Any]) -> list[Any]:
        """Actions as the environments take them: counted from `start`, or stretched or clipped to a Box's bounds."""
        self._need_open()
        check_actions(action, self.count, self.spec.actions)
        space = self._action_space
        if isinstance(space, Box):
            if self._scales:
                action = space.low + (action + 1.0) / 2.0 * (space.high - space.low)
            return list(np.clip(action, space.low, space.high).astype(space.dtype, copy=False))
        if isinstance(space, Discrete):
            choices: list[int] = action.tolist()
            return [choice + self._start for choice in choices] if self._start else choices
        chosen = action.reshape(self.count, *(space.shape or ())).astype(space.dtype)
        return list(chosen + self._start)

    def _begin(self, i: int, seed: int | None = None) -> None:
        self._show_life()
        result = self._envs[i].reset(seed=seed)
        if type(result) is not tuple or len(result) != 2:
            self._refuse(i, "reset()", result, "it must return 2 values: see gymnasium.Env.reset")
        self._gather(i, result[0])
        self._steps[i] = 0

    def _gather(self, i: int, observation: Any) -> None:
        try:
            self._layout.store(observation, self._observation, i)
        except MisfitError as misfit:
            self._refuse(i, *misfit.args)

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
                name = self._layout.name(place) if field == "observation" else field
                self._refuse(i, name, values[(i, *place)].item(), "it must be finite in float32")
        row.observation[...] = self._observation
        row.reward[...] = self._reward
        row.terminated[...] = terminated
        row.truncated[...] = truncated
        row.life_lost.fill(False)
        row.first[...] = first

    def _refuse(self, i: int, field: str, value: object, rule: str) -> NoReturn:
        raise MalformedStepError(self._id, i, field, value, rule)


class RenderedGymnasium(Gymnasium):
    """B environments that are shown too: made with render_mode rgb_array."""

    def __init__(
        self, settings: GymnasiumSettings, seeds: Sequence[int], beat: Callable[[], object] = lambda: None
    ) -> None:
        """One environment per seed."""
        kwargs = {**settings.kwargs, "render_mode": "rgb_array"}
        super().__init__(msgspec.structs.replace(settings, kwargs=kwargs), seeds, beat)

    def render(self) -> list[npt.NDArray[np.uint8]]:
        """Return the environments' own pictures; raises ValueError, one line, where there are none."""
        return [self._picture(env) for env in self._envs]

    def _picture(self, env: Environment) -> npt.NDArray[np.uint8]:
        try:
            picture = env.render()
        except Exception as error:  # an environment may raise anything
            said = f"{type(error).__name__}: {error}".splitlines()[0]
            raise ValueError(f"env.id: {self._id!r} cannot be shown: {said}") from error
        if not (isinstance(picture, np.ndarray) and picture.dtype == np.uint8 and picture.shape[2:] == (3,)):
            raise ValueError(
                f"env.id: {self._id!r} cannot be shown: its render() does not return uint8[lines, columns, 3]"
            )
        return picture


def _finite(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which values are finite as float32, elementwise; NaN compares as false."""
    if values.dtype.kind != "f":
        return np.ones((), np.bool_)
    finite: npt.NDArray[np.bool_] = np.isfinite(values) if values.dtype.itemsize <= 4 else np.abs(values) <= FLOAT32_MAX
    return finite


def make(settings: GymnasiumSettings, seeds: Sequence[int], beat: Callable[[], object] = lambda: None) -> Gymnasium:
    """One environment per seed."""
    return Gymnasium(settings, seeds, beat)


def make_rendered(
    settings: GymnasiumSettings, seeds: Sequence[int], beat: Callable[[], object] = lambda: None
) -> RenderedGymnasium:
    """One environment per seed, which is shown."""
    return RenderedGymnasium(settings, seeds, beat)


def spec(settings: GymnasiumSettings) -> EnvSpec:
    """Shapes and counts; makes one environment and closes it."""
    env, _ = construct(settings)
    try:
        return _spec(settings.id, env, *_layout(settings.id, env))
    finally:
        env.close()


def _spec(env_id: str, env: Environment, observations: ObservationLayout, left_out: tuple[str, ...]) -> EnvSpec:
    return EnvSpec(
        observation_shape=tuple(int(size) for size in observations.shape),
        observation_dtype="uint8" if observations.dtype == np.uint8 else "float32",
        actions=_actions(env_id, env.action_space),
        frames_per_step=1,
        observation_from=observations.words,
        left_out=left_out,
        inexact=states.inexact(env),
    )


def _refuse_others(env_id: str, envs: Sequence[Environment], spec: EnvSpec) -> None:
    """Refuse environments of one id whose actions or observations are not like those of the first, of this spec."""
    for i, env in enumerate(envs[1:], 1):
        own, first = env.action_space, envs[0].action_space
        if own != first:
            said = f"action space {_short(own)}, and environment 0 {_short(first)}"
        elif (shape := _spec(env_id, env, *_layout(env_id, env)).observation_shape) != spec.observation_shape:
            said = f"observations of shape {list(shape)}, and environment 0 {list(spec.observation_shape)}"
        else:
            continue
        raise ValueError(f"env.id: environment {i} of {env_id!r} has {said}; those of a run must be alike")


def _can_be_stretched(space: Box) -> bool:
    """Whether numbers from -1 to 1 reach each number between the bounds: the distance of these is finite."""
    with np.errstate(over="ignore"):
        return bool(np.isfinite(space.high - space.low).all())


def _layout(env_id: str, env: Environment) -> tuple[ObservationLayout, tuple[str, ...]]:
    try:
        found, left_out = layout(env.observation_space)
        if not prod(found.shape):
            raise SpaceError("there is nothing in it to learn from: wrap it (env.wrappers)")
        return found, left_out
    except SpaceError as error:
        raise ValueError(f"env.id: {env_id!r} has observation space {_short(env.observation_space)}; {error}") from None


def _actions(env_id: str, space: Space[Any]) -> Actions:
    """The actions of a space as policies choose them."""
    if isinstance(space, Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return MultiDiscrete(tuple(space.nvec.ravel().tolist()))
    if isinstance(space, MultiBinary):
        return MultiDiscrete((2,) * prod(space.shape))
    rule = "only Discrete, MultiDiscrete, MultiBinary and Box are supported"
    if isinstance(space, Box):
        if len(space.shape) == 1 and space.shape[0] and space.dtype.kind == "f" and space.is_bounded():
            return tuple(int(size) for size in space.shape)
        rule = "a Box must have one dimension of one or more floats, all with bounds, to which actions are clipped"
    raise ValueError(f"env.id: {env_id!r} has action space {_short(space)}; {rule}: wrap it (env.wrappers)")


def _short(space: Space[Any]) -> str:
    text = str(space)
    return text if len(text) <= 200 else text[:200] + "…"
