"""Makes environments of any kind: imports the module of the kind that settings are for, and no other.

The module has the two functions below with the same arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from actorlearn.envs.interface import EnvSpec, VectorEnv
from actorlearn.envs.specs import ENVIRONMENTS, EnvSettings

METHODS = ("reset", "step", "restart", "random_actions", "state", "restore", "close")
"""Methods of a `VectorEnv` (``interface.py``)."""


def make(settings: EnvSettings, seeds: Sequence[int], beat: Callable[[], object] = lambda: None) -> VectorEnv:
    """One environment per seed; raises ValueError, one line, for settings that name none.

    ``beat`` shows a sign of life: called between environments that are not of ALE, whose games take a moment together,
    and while these are replayed.
    """
    if not seeds:
        raise ValueError("seeds: there must be one seed per environment, and at least one")
    made: VectorEnv = ENVIRONMENTS.spec(settings.kind).load().make(settings, seeds, beat)
    if missing := [name for name in METHODS if not callable(getattr(made, name, None))]:
        raise ValueError(f"env.kind: {type(made).__name__} lacks {', '.join(missing)} (actorlearn/envs/interface.py)")
    return made


def spec(settings: EnvSettings) -> EnvSpec:
    """Shapes and counts without making B environments."""
    found: EnvSpec = ENVIRONMENTS.spec(settings.kind).load().spec(settings)
    return found
