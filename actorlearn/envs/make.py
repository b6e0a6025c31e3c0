"""Makes environments of any kind: Atari, gymnasium, EnvPool, PettingZoo, or a plug-in's.

Each kind has a module with functions `make` and `spec`, which have the same arguments as below, and `make_rendered` if
it can make pictures. Only the module of the kind that the settings select is imported.
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

    The environments call ``beat`` during long operations, so that the supervisor sees that the process does not hang:
    between environments that are stepped one by one in Python, and while games of ALE and EnvPool are replayed.
    """
    if not seeds:
        raise ValueError("seeds: there must be one seed per environment, and at least one")
    made: VectorEnv = _complete(ENVIRONMENTS.spec(settings.kind).load().make(settings, seeds, beat), METHODS)
    return made


def make_rendered(
    settings: EnvSettings, seeds: Sequence[int], beat: Callable[[], object] = lambda: None
) -> RenderedEnv:
    """Make environments as ``make`` does that can also be drawn; raises ValueError if their kind cannot."""
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
    """Return the `EnvSpec`; some kinds of environments make an environment to find it."""
    found: EnvSpec = ENVIRONMENTS.spec(settings.kind).load().spec(settings)
    return found


def like(settings: EnvSettings, found: EnvSpec) -> str:
    """Return the kind of environments whose default hyperparameters apply to this one: see ``specs.FINER``."""
    kind = ENVIRONMENTS.spec(settings.kind).like
    finer = "continuous" if isinstance(found.actions, tuple) else kind
    return finer if FINER.get(finer) == kind else kind
