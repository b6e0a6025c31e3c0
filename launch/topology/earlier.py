"""Keys that were added with a default that changes runs; topologies that earlier versions saved lack them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actorlearn.envs.specs import ENVIRONMENTS

ENV = {"action_mask": "none"}
"""Such keys of ``env``, and the value with which a run is as before."""
EARLIER = {f"env.{key}": value for key, value in ENV.items()}
"""All such keys, by section.key."""


def complete(saved: dict[str, Any]) -> dict[str, Any]:
    """Return the raw topology that a run has saved, with these keys if the version of the run did not have them."""
    env = saved.get("env")
    if not isinstance(env, Mapping):
        return saved
    known = ENVIRONMENTS.of(str(env.get("id", ""))).settings.__struct_fields__
    return saved | {"env": {**env, **{key: value for key, value in ENV.items() if key in known and key not in env}}}
