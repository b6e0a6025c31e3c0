"""Makes environments of any kind: imports only the module of the kind that the settings select.

The module has `make` and `spec` with the same arguments as below, and `make_rendered` if its games have pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from actorlearn.envs.interface import EnvSpec, RenderedEnv, VectorEnv
from actorlearn.envs.specs import ENVIRONMENTS, FINER, EnvSettings

METHODS = ("reset", "step", "restart", "random_actions", "state", "restore", "close")
"""Methods of a `VectorEnv` (``interface.py``)."""


def make(settings: EnvSettings, seeds: Sequence[int], beat: Callable[[], object] = lambda: None) -> VectorEnv:
    """Make one environment per seed; raises ValueError if that fails.

    ``beat`` gives a sign of life. It is called between environments that are stepped one by one in Python, and while
    the games of ALE and EnvPool are replayed.
    """
    if not seeds:
        raise ValueError("seeds: there must be one seed per environment, and at least one")
    made: VectorEnv = _complete(ENVIRONMENTS.spec(settings.kind).load().make(settings, seeds, beat), METHODS)
    return made


def make_rendered(
    settings: EnvSettings, seeds: Sequence[int], beat: Callable[[], object] = lambda: None
) -> RenderedEnv:
    """Make environments as ``make`` does, which also render; raises ValueError if their kind cannot render."""
    module = ENVIRONMENTS.spec(settings.kind).load()
    if not hasattr(module, "make_rendered"):
        raise ValueError(f"env.id: {settings.id!r} cannot be rendered: {module.__name__} has no function make_rendered")
    made: RenderedEnv = _complete(module.make_rendered(settings, seeds, beat), (*METHODS, "render"))
    return made


def _complete(made: Any, methods: Sequence[str]) -> Any:
    """Return ``made``; raises ValueError if it lacks any of these methods."""
    if missing := [name for name in methods if not callable(getattr(made, name, None))]:
        raise ValueError(
            f"env.kind: {type(made).__name__} lacks {', '.join(missing)} (see actorlearn/envs/interface.py)"
        )
    return made


def spec(settings: EnvSettings) -> EnvSpec:
    """Return shapes and counts, without making B environments."""
    found: EnvSpec = ENVIRONMENTS.spec(settings.kind).load().spec(settings)
    return found


def like(settings: EnvSettings, found: EnvSpec) -> str:
    """Return the kind of default numbers for this environment (``specs.FINER``), from its actions and its kind."""
    kind = ENVIRONMENTS.spec(settings.kind).like
    finer = "continuous" if isinstance(found.actions, tuple) else kind
    return finer if FINER.get(finer) == kind else kind
