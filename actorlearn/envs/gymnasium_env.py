"""Gymnasium environments as a `VectorEnv` (``envs/interface.py``), which steps them one after the other.

`make` uses a vector environment instead (``envs/gymnasium_vector.py``) if ``env.vector`` selects one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any

import numpy as np
import numpy.typing as npt

from actorlearn.envs import states
from actorlearn.envs.checked_rows import CheckedRows
from actorlearn.envs.construct import Environment, construct, construct_vector
from actorlearn.envs.gymnasium_vector import GymnasiumVector
from actorlearn.envs.interface import EnvSpec, RenderedEnv, Row, seed31
from actorlearn.envs.observations import layout_of, short
from actorlearn.envs.pictures import picture_of, with_pictures
from actorlearn.envs.spaces import Spaces
from actorlearn.envs.specs import GymnasiumSettings

Beat = Callable[[], object]
BEAT_EVERY_S = 0.1
"""Least time in seconds between two calls of ``beat`` within a step; most environments need only microseconds."""


class Gymnasium(CheckedRows):
    """B environments of one id, stepped one after the other.

    This class applies the time limit, instead of gymnasium's wrapper. The limit is the registered one or
    `time_limit_steps`, whichever is shorter. A step that ends the game and reaches the limit counts as terminated, not
    as truncated.
    """

    interface = "gymnasium.Env"

    def __init__(self, settings: GymnasiumSettings, seeds: Sequence[int], beat: Beat = lambda: None) -> None:
        """Make one environment per seed; ``beat`` is called between environments, in a step at most every 0.1 s."""
        self._beat, self._beat_s = beat, 0.0
        self._seeds = [seed31(seed) for seed in seeds]
        self._envs, limits = zip(*(self._constructed(settings) for _ in seeds), strict=True)
        first = self._envs[0]
        spaces = Spaces.of(
            settings.id,
            first.observation_space,
            first.action_space,
            scale_actions=settings.scale_actions,
            action_mask=settings.action_mask,
            first_info=self._first_info,
        )
        super().__init__(settings.id, spaces, len(seeds))
        self.spec = spaces.spec(inexact=states.inexact(first))
        _check_equal_spaces(settings.id, self._envs)
        self._limit = min(limits[0] or 2**62, settings.time_limit_steps or 2**62)
        self._steps = [0] * self.count  # steps of each running game
        self._ended = [False] * self.count

    def reset(self, row: Row) -> None:
        """Start every environment from its seed, and write the first observations to ``row``."""
        self._need_open()
        for i, seed in enumerate(self._seeds):
            self._begin(i, seed)
        self._reward.fill(0.0)
        self._ended = [False] * self.count
        self._write(row, self._ended, self._ended, first=[True] * self.count)

    def restart(self, chosen: npt.NDArray[np.bool_], row: Row) -> None:
        """Start a new game in the chosen environments, and write their first observations to ``row``."""
        self._need_open()
        for i in np.flatnonzero(chosen).tolist():
            self._begin(i)
            self._reward[i] = 0.0
            self._ended[i] = False
        self._write_first(row, chosen)

    def step(self, action: npt.NDArray[Any], row: Row) -> None:
        """Take action [B, …], and write the results to ``row``."""
        self._need_open()
        first, limit, steps = self._ended, self._limit, self._steps
        terminated, truncated = [False] * self.count, [False] * self.count
        for i, choice in enumerate(self._actions.taken(action, self.count)):
            if monotonic() >= self._beat_s:
                self._show_life()
            if first[i]:
                self._begin(i)
                self._reward[i] = 0.0
                continue
            observation, reward, over, cut, info = self._answered(i, "step", self._envs[i].step(choice), 5)
            self._reward[i] = reward if type(reward) is float else self._number(i, reward)
            steps[i] += 1
            terminated[i] = over if type(over) is bool else self._flag(i, "terminated", over)
            cut = cut if type(cut) is bool else self._flag(i, "truncated", cut)
            truncated[i] = (cut or steps[i] >= limit) and not terminated[i]
            self._gather(i, observation, info, terminated[i] or truncated[i])
        self._write(row, terminated, truncated, first, steps)
        self._ended = [over or cut for over, cut in zip(terminated, truncated, strict=True)]

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return the environments' states, and the number of steps of each game."""
        return self._saved(self._envs, {"steps": self._steps, "ended": self._ended})

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore a state; each environment is reset before, because some set their attributes only in ``reset``."""
        with self._restoring():
            steps, ended = state["steps"].tolist(), state["ended"].tolist()
            if len(steps) != self.count or len(ended) != self.count:
                raise ValueError(f"the state has {len(steps)} environments instead of {self.count}")
            for i, seed in enumerate(self._seeds):
                self._begin(i, seed)
            self._restore_valid(state)
            states.put_back(self._envs, state)
        self._steps, self._ended = steps, ended

    def close(self) -> None:
        """Close every environment."""
        envs, self._envs, self._open = self._envs, (), False
        for env in envs:
            self._show_life()
            env.close()

    def render(self) -> list[npt.NDArray[np.uint8]]:
        """Return the environments' pictures; raises ValueError if they cannot make any."""
        return [picture_of(self._id, env) for env in self._envs]

    def _first_info(self) -> Any:
        """Begin a game, and return its info."""
        self._show_life()
        return self._envs[0].reset(seed=self._seeds[0])[1]

    def _constructed(self, settings: GymnasiumSettings) -> tuple[Environment, int | None]:
        self._show_life()
        return construct(settings)

    def _show_life(self) -> None:
        self._beat_s = monotonic() + BEAT_EVERY_S
        self._beat()

    def _begin(self, i: int, seed: int | None = None) -> None:
        self._show_life()
        self._gather(i, *self._answered(i, "reset", self._envs[i].reset(seed=seed), 2))
        self._steps[i] = 0


def make(settings: GymnasiumSettings, seeds: Sequence[int], beat: Beat = lambda: None) -> RenderedEnv:
    """Make one environment per seed, as a vector environment or as single environments, as ``env.vector`` says."""
    made = construct_vector(settings, len(seeds))
    if made is None:
        return Gymnasium(settings, seeds, beat)
    vector, limit = made
    try:
        return GymnasiumVector(
            settings.id,
            vector,
            seeds,
            scale_actions=settings.scale_actions,
            action_mask=settings.action_mask,
            time_limit_steps=limit,
            beat=beat,
        )
    except BaseException:
        vector.close()
        raise


def make_rendered(settings: GymnasiumSettings, seeds: Sequence[int], beat: Beat = lambda: None) -> RenderedEnv:
    """Make one environment per seed that can be rendered."""
    return make(with_pictures(settings), seeds, beat)


def spec(settings: GymnasiumSettings) -> EnvSpec:
    """Return the `EnvSpec`; makes one environment and closes it."""
    env = make(settings, [0])
    env.close()
    return env.spec


def _check_equal_spaces(env_id: str, envs: Sequence[Environment]) -> None:
    """Raise ValueError if an environment's action space or shape of observations differs from those of the first."""
    first = envs[0]
    shape = _shape(env_id, first)
    for i, env in enumerate(envs[1:], 1):
        if env.action_space != first.action_space:
            said = f"action space {short(env.action_space)}, but environment 0 has {short(first.action_space)}"
        elif (own := _shape(env_id, env)) != shape:
            said = f"observations of shape {own}, but environment 0 has {shape}"
        else:
            continue
        raise ValueError(
            f"env.id: environment {i} of {env_id!r} has {said}; all environments of a run must have the same spaces"
        )


def _shape(env_id: str, env: Environment) -> list[int]:
    """Return the shape of an environment's converted observations, with a mask if they contain one."""
    return [int(size) for size in layout_of(env_id, env.observation_space)[0].shape]
