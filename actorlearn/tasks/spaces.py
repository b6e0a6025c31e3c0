"""Prints the kind of an environment's actions and observations, which determines defaults of a topology.

Reads its settings; answers ``{"like": "continuous"}``. Loads no torch.
"""

from __future__ import annotations

from typing import Any

from actorlearn.envs import make
from actorlearn.worker.settings import SpacesSettings


def run(settings: SpacesSettings) -> dict[str, Any]:
    """Make one environment and return its kind; raises any exception if it cannot be made."""
    return {"like": make.like(settings.env)}
