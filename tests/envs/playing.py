"""Environments that are closed at the end of a block, and a mark for those of EnvPool."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec

import pytest

from actorlearn.envs.interface import VectorEnv
from actorlearn.envs.make import make
from actorlearn.envs.specs import EnvSettings

needs_envpool = pytest.mark.skipif(
    find_spec("envpool") is None, reason="envpool is not installed: pip install 'actorlearn[envpool]'"
)


@contextmanager
def opened(settings: EnvSettings, seeds: Sequence[int]) -> Iterator[VectorEnv]:
    env = make(settings, seeds)
    try:
        yield env
    finally:
        env.close()
