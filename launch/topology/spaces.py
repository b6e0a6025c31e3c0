"""Makes an environment in a child process, to find the properties of its spaces on which defaults depend.

The child process is used so that the command line imports no environment. Each environment is made once. If it cannot
be made, the defaults follow from its id alone. The plan makes the environment too, and reports the error.
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
"""Time limit of the child process, in seconds."""


def ask(env: Mapping[str, Any]) -> Spaces:
    """Return the properties of the spaces of an environment; empty if it cannot be made.

    ``env`` is the section of that name in a raw topology.
    """
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
