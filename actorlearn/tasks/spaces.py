"""Prints the kind of an environment's actions and observations, which determines defaults of a topology.

Reads its settings; prints one line of JSON: ``{"like": "continuous"}``, or an error. Loads no torch.
"""

from __future__ import annotations

import json
import sys

from actorlearn.envs import make
from actorlearn.worker.settings import SpacesSettings


def run(settings: SpacesSettings) -> None:
    """Make one environment and print its kind; exits 2 with ``{"error": …}`` if it cannot be made."""
    try:
        answer = {"like": make.like(settings.env)}
    except (Exception, SystemExit) as error:  # a user's environment may raise anything
        print(json.dumps({"error": " ".join(str(error).split()) or type(error).__name__}), flush=True)
        sys.exit(2)
    print(json.dumps(answer), flush=True)
