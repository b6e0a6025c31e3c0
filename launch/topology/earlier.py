"""Keys whose default changes how a run trains, and that topologies saved by earlier versions lack.

A run that an earlier version has started must continue as before. Therefore `complete` sets such a key to the value
with which that version behaved, and not to its default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actorlearn.envs.specs import ENVIRONMENTS

ENV = {"action_mask": "none"}
"""Such keys of section ``env`` -> the value with which a run behaves as before the key existed."""
EARLIER = {f"env.{key}": value for key, value in ENV.items()}
"""The same values, by section.key."""


def complete(saved: dict[str, Any]) -> dict[str, Any]:
    """Return the raw topology that a run has saved, with the missing keys of ``ENV`` added.

    A key is added only if the run's kind of environments has it.
    """
    env = saved.get("env")
    if not isinstance(env, Mapping):
        return saved
    known = ENVIRONMENTS.of(str(env.get("id", ""))).settings.__struct_fields__
    return saved | {"env": {**env, **{key: value for key, value in ENV.items() if key in known and key not in env}}}
