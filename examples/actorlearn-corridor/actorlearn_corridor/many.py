"""A kind of environments: many corridors, all stepped at once by NumPy. Its ids begin with corridors/."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from actorlearn.envs.interface import EnvSpec, Row, check_actions
from actorlearn_corridor.specs import CorridorsSettings

INEXACT = "corridors do not save their generators"


def spec(settings: CorridorsSettings) -> EnvSpec:
    """Shapes and counts of one corridor; none is made."""
    del settings
    return EnvSpec(observation_shape=(2,), observation_dtype="float32", actions=2, frames_per_step=1, inexact=INEXACT)


def make(settings: CorridorsSettings, seeds: Sequence[int], beat: Callable[[], object] = lambda: None) -> Corridors:
    """One corridor for each seed; ``beat`` is called between steps that take seconds, which these do not."""
    del beat
    return Corridors(settings, seeds)


class Corridors:
    """The game of ``environment.py``, B times (``actorlearn.envs.interface.VectorEnv``)."""

    def __init__(self, settings: CorridorsSettings, seeds: Sequence[int]) -> None:
        """They begin with `reset`."""
        self.spec, self.count = spec(settings), len(seeds)
        self._settings, self._seeds = settings, seeds
        self._place, self._lamp, self._steps = (np.zeros(self.count, np.int64) for _ in range(3))
        self._over = np.zeros(self.count, np.bool_)
        self._closed = False

    def reset(self, row: Row) -> None:
        """Begin all from their seeds: the same seeds replay the same games, whatever the neighbours are."""
        self._generators = [np.random.default_rng(seed) for seed in self._seeds]
        self.restart(np.ones(self.count, np.bool_), row)

    def restart(self, chosen: npt.NDArray[np.bool_], row: Row) -> None:
        """Begin a game in the chosen corridors, and write only their cells: a first row has no reward and no end."""
        self._check_open()
        self._lamp[chosen] = [self._generators[one].choice((-1, 1)) for one in np.flatnonzero(chosen)]
        for numbers in (self._place, self._steps, self._over):
            numbers[chosen] = 0
        for cells in (row.reward, row.terminated, row.truncated, row.life_lost):
            cells[chosen] = 0
        row.first[chosen] = True
        row.observation[chosen] = self._seen()[chosen]

    def step(self, action: npt.NDArray[Any], row: Row) -> None:
        """Take a step in every corridor; those whose last row was written begin a game, and their action is ignored."""
        self._check_open()
        check_actions(action, self.count, self.spec.actions)
        ended = self._over.copy()
        slips = np.array([generator.random() for generator in self._generators]) < self._settings.slip
        self._place += np.where((action == 1) != slips, 1, -1)
        self._steps += 1
        out, limit = abs(self._place) == self._settings.length, self._settings.time_limit_steps
        row.observation[:] = self._seen()
        row.reward[:] = np.where(out, np.sign(self._place * self._lamp), 0)
        row.terminated[:] = out
        row.truncated[:] = ~out & (limit > 0) & (self._steps == limit)
        row.life_lost[:] = row.first[:] = False
        self._over[:] = row.terminated | row.truncated
        if ended.any():
            self.restart(ended, row)

    def random_actions(self, random: np.random.Generator) -> npt.NDArray[Any]:
        """Left or right for each corridor, with equal probability."""
        return random.integers(2, size=self.count)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Is not called, because of ``spec.inexact``."""
        raise RuntimeError(INEXACT)

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Is not called either."""
        raise ValueError(INEXACT)

    def close(self) -> None:
        """Refuse further steps; there is nothing to free."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the corridors are closed")

    def _seen(self) -> npt.NDArray[np.float32]:
        return np.stack([self._place / self._settings.length, self._lamp], axis=-1).astype(np.float32)
