"""A kind of environments as a package adds it, with its module and its entry ``SPEC`` in one file, and a writer.

A walker starts at the left of a corridor and is paid when it leaves at the right; all corridors are stepped at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from actorlearn.envs.interface import EnvSpec, Row, VectorEnv, check_actions
from actorlearn.envs.specs import EnvironmentSpec, EnvSettings


class CorridorSettings(EnvSettings, frozen=True, kw_only=True):
    """Keys of corridors."""

    length: Annotated[int, Meta(ge=2, le=100, description="cells of the corridor")] = 4
    bonus: Annotated[float, Meta(gt=0, description="reward at its end")] = 1.0


SPEC = EnvironmentSpec(
    name="corridors",
    settings=CorridorSettings,
    made_by=__name__,
    prefix="corridors/",
    example="corridors/Walk",
    most_simulators=1,
    defaults={"total_steps": 5_000},
)


def spec(settings: EnvSettings) -> EnvSpec:
    """The walker's cell, one-hot; it goes left or right."""
    assert isinstance(settings, CorridorSettings)
    if settings.id != "corridors/Walk":
        raise ValueError(f"env.id: {settings.id!r} is no corridor; there is corridors/Walk")
    return EnvSpec(observation_shape=(settings.length,), observation_dtype="float32", actions=2, frames_per_step=1)


def make(settings: EnvSettings, seeds: Sequence[int], beat: Callable[[], object]) -> VectorEnv:
    """One corridor per seed."""
    assert isinstance(settings, CorridorSettings)
    return Corridors(settings, len(seeds))


class Corridors:
    """B corridors; nothing in them is random."""

    def __init__(self, settings: CorridorSettings, count: int) -> None:
        self.spec, self.count = spec(settings), count
        self._bonus = settings.bonus
        self._cells = np.zeros(count, np.int64)
        self._over = np.zeros(count, np.bool_)

    def reset(self, row: Row) -> None:
        self.restart(np.ones(self.count, np.bool_), row)

    def restart(self, chosen: npt.NDArray[np.bool_], row: Row) -> None:
        self._cells[chosen], self._over[chosen] = 0, False
        row.observation[chosen] = self._seen()[chosen]
        row.reward[chosen] = 0.0
        for flag in (row.terminated, row.truncated, row.life_lost):
            flag[chosen] = False
        row.first[chosen] = True

    def step(self, action: npt.NDArray[Any], row: Row) -> None:
        check_actions(action, self.count, 2)
        begins = self._over.copy()
        self._cells = np.where(begins, 0, np.maximum(self._cells + 2 * action - 1, 0))
        self._over = self._cells >= self.spec.observation_shape[0] - 1
        row.observation[:] = self._seen()
        row.reward[:] = self._over * self._bonus
        row.terminated[:], row.first[:] = self._over, begins
        row.truncated[:] = row.life_lost[:] = False

    def random_actions(self, random: np.random.Generator) -> npt.NDArray[Any]:
        return random.integers(2, size=self.count)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        return {"cells": self._cells, "over": self._over}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        self._cells, self._over = state["cells"].copy(), state["over"].copy()

    def close(self) -> None:
        pass

    def _seen(self) -> npt.NDArray[np.float32]:
        return np.eye(self.spec.observation_shape[0], dtype=np.float32)[self._cells]


class Steps:
    """A writer of metrics: one line with the steps of each row."""

    def __init__(self, run_dir: Path) -> None:
        self._file = (run_dir / "steps.txt").open("a")

    def row(self, values: Mapping[str, Any]) -> None:
        self._file.write(f"{values['env_steps']}\n")

    def close(self) -> None:
        self._file.close()
