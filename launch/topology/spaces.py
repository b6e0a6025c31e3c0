"""Finds the kind of an environment's actions and observations in a child process, once for each environment.

So the command line imports no environment. If the environment cannot be made, its kind follows from its id, and the
plan, which makes the environment too, reports why it cannot be made.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, cast

import msgspec

from actorlearn.envs.specs import EnvSettings
from actorlearn.worker.settings import SpacesSettings
from launch.spawning import answers
from launch.topology.defaults import Spaces
from launch.topology.keys import struct_at

LIMIT_S = 60.0
"""Longest time in seconds that the child process may take."""


def ask(env: Mapping[str, Any]) -> Spaces:
    """Return the spaces of the environment of a section ``env``; empty if the environment cannot be made."""
    try:
        settings = msgspec.convert(env, cast("type[EnvSettings]", struct_at("env", {"env": env})))
    except ValueError:  # validation reports it
        return Spaces()
    return _ask(msgspec.json.encode(SpacesSettings(env=settings)))


@cache
def _ask(question: bytes) -> Spaces:
    try:
        answer = answers.ask_task("spaces", question, LIMIT_S)
    except answers.NoAnswerError:
        return Spaces()
    return Spaces(str(answer["like"]), tuple(answer["images"]))
