"""A task that returns the kind of an environment's actions and observations, on which defaults of a topology depend.

An answer is, for example, ``{"like": "continuous", "images": []}``. Loads no torch.
"""

from __future__ import annotations

from typing import Any

import msgspec

from actorlearn.envs import make
from actorlearn.worker.settings import SpacesSettings


def run(settings: SpacesSettings) -> dict[str, Any]:
    """Make one environment; return its kind, and which elements of its observations are images (`ImagePart`).

    If the environment cannot be made, its exception is raised.
    """
    found = make.spec(settings.env)
    return {"like": make.like(settings.env, found), "images": [msgspec.to_builtins(image) for image in found.images]}
