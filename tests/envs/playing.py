"""Rows for tests: made, filled with what nobody would write, and collected from whole plays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from actorlearn.actions import drawn
from actorlearn.envs.interface import EnvSpec, Row, VectorEnv
from actorlearn.envs.make import make
from actorlearn.envs.specs import EnvSettings

FLAGS = ("terminated", "truncated", "life_lost", "first")


def poisoned_row(spec: EnvSpec, count: int) -> Row:
    """A row in which every value is wrong until it is written."""
    poison = 0xA5 if spec.observation_dtype == "uint8" else np.nan
    observation = np.full((count, *spec.observation_shape), poison, spec.observation_dtype)
    flags = {name: np.ones(count, np.bool_) for name in FLAGS}
    return Row(observation=observation, reward=np.full(count, np.nan, np.float32), **flags)


@contextmanager
def opened(settings: EnvSettings, seeds: Sequence[int]) -> Iterator[VectorEnv]:
    env = make(settings, seeds)
    try:
        yield env
    finally:
        env.close()


def random_actions(spec: EnvSpec, count: int, steps: int, seed: int = 0) -> npt.NDArray[Any]:
    generator = np.random.default_rng(seed)
    if isinstance(spec.actions, tuple):
        return generator.normal(0.0, 2.0, (steps, count, *spec.actions)).astype(np.float32)
    return drawn(spec.actions, (steps, count), generator)


def play(env: VectorEnv, actions: npt.NDArray[Any]) -> list[Row]:
    """The row of reset, then one row for each row of actions."""
    rows = [poisoned_row(env.spec, env.count)]
    env.reset(rows[0])
    for action in actions:
        rows.append(poisoned_row(env.spec, env.count))
        env.step(action, rows[-1])
    return rows


def column(rows: Sequence[Row], name: str) -> npt.NDArray[Any]:
    """One column of many rows, [T, B, …]."""
    return np.stack([getattr(row, name) for row in rows])


def assert_same(a: Sequence[Row], b: Sequence[Row]) -> None:
    for name in ("observation", "reward", *FLAGS):
        np.testing.assert_array_equal(column(a, name), column(b, name), err_msg=name)
