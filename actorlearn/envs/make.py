"""From settings to environments: ALE ids take the fast path, everything else is a gymnasium environment.

Reads EnvSettings; writes nothing. Imports ale_py only for a game that needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from actorlearn.envs import gymnasium_env
from actorlearn.envs.interface import EnvSettings, EnvSpec, VectorEnv


def make(settings: EnvSettings, seeds: Sequence[int], beat: Callable[[], object] = lambda: None) -> VectorEnv:
    """One environment per seed; raises ValueError, one line, for settings that name none.

    ``beat`` shows a sign of life: called between environments that are not of ALE, whose games take a moment together,
    and while these are replayed.
    """
    if not seeds:
        raise ValueError("seeds: there must be one seed per environment, and at least one")
    if settings.id.startswith("ALE/"):
        from actorlearn.envs import atari

        return atari.make(settings, seeds, beat)
    return gymnasium_env.make(settings, seeds, beat)


def spec(settings: EnvSettings) -> EnvSpec:
    """Shapes and counts without making B environments."""
    if settings.id.startswith("ALE/"):
        from actorlearn.envs import atari

        return atari.spec(settings)
    return gymnasium_env.spec(settings)
