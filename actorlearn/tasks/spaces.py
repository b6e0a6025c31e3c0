"""Prints the kind of an environment's actions and observations, which determines defaults of a topology.

Reads its settings; answers ``{"like": "continuous", "images": []}``. Loads no torch.
"""

from __future__ import annotations

from typing import Any

import msgspec

from actorlearn.envs import make
from actorlearn.worker.settings import SpacesSettings


def run(settings: SpacesSettings) -> dict[str, Any]:
    """Make one environment and return its kind and the images in its observations of several parts.

    Raises any exception if it cannot be made.
    """
    found = make.spec(settings.env)
    return {"like": make.like(settings.env, found), "images": [msgspec.to_builtins(image) for image in found.images]}
