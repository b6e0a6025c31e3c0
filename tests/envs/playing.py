"""Environments that are closed at the end of a block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from actorlearn.envs.interface import VectorEnv
from actorlearn.envs.make import make
from actorlearn.envs.specs import EnvSettings


@contextmanager
def opened(settings: EnvSettings, seeds: Sequence[int]) -> Iterator[VectorEnv]:
    env = make(settings, seeds)
    try:
        yield env
    finally:
        env.close()
