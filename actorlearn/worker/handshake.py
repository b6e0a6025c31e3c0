"""Checks that a simulator's environments fit the blocks in shared memory that the run has planned for it.

When a simulator starts, it reports shapes and types of the environments that it has made (``Hello.shape``). The
supervisor compares them with those of the plan. Both are texts by key, so that an error can show a difference.
"""

from __future__ import annotations

import hashlib

from actorlearn.envs.interface import EnvSpec

_CHARACTERS = 1000
"""Longest text of a shape, far below the limit on texts in messages."""


def shape_to_match(env_id: str, env: EnvSpec, horizon: int, blocks: int, groups: int) -> dict[str, str]:
    """Return the shapes and sizes on which a simulator and the run's plan must agree, as texts by topology key."""
    return {
        "env.id": env_id,
        "observation": f"{env.observation_dtype}{list(env.observation_shape)}",
        "actions": _short(str(env.actions)),
        "agents": str(env.agents),
        "frames_per_step": str(env.frames_per_step),
        "algorithm.horizon": str(horizon),
        "simulators.blocks": str(blocks),
        "simulators.groups": str(groups),
    }


def _short(text: str) -> str:
    """Shorten a text, such as an action space with thousands of parts; different texts stay different."""
    if len(text) <= _CHARACTERS:
        return text
    return f"{text[: _CHARACTERS // 2]}… with SHA-256 {hashlib.sha256(text.encode()).hexdigest()}"
