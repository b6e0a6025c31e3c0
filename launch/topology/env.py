"""The keys of the environment: Atari games, and everything that gymnasium has.

A part of ``launch/topology/schema.py``, to which the same holds. Names of classes are code, and trusted like code.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from launch.topology.fields import Arguments, Code, EnvId, Section, refuse


class WrapperSection(Section):
    """A wrapper of the environment; its name alone will do."""

    name: Code = Field(description="package.module:Class, called with the environment")
    kwargs: Arguments = Field(description="and with these arguments")

    @model_validator(mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        written = {"name": value} if isinstance(value, str) else value
        return {"kwargs": {}, **written} if isinstance(written, dict) else written


class EnvSection(Section):
    """The environment (actorlearn.envs.interface.EnvSettings)."""

    id: EnvId = Field(description="gymnasium id (ALE/... takes the fast path), module:id or package.module:Class")
    kwargs: Arguments = Field(description="gymnasium: arguments of its constructor")
    wrappers: list[WrapperSection] = Field(
        max_length=64, description="gymnasium: put around it, the first innermost; names or {name, kwargs}"
    )
    preset: Literal["dqn", "paac", "stooke-abbeel"] = Field(description="atari: how a screen becomes an observation")
    frame_skip: int = Field(ge=1, le=64, description="atari: emulator frames per agent step")
    stack: int = Field(ge=1, le=64, description="atari: frames in one observation")
    noop_max: int = Field(ge=0, le=1_000, description="atari: most random no-op frames at the start of a game")
    repeat_action_probability: float = Field(ge=0, lt=1, description="atari: sticky actions; probability per frame")
    full_action_space: bool = Field(description="atari: all 18 actions instead of the game's own")
    fire_on_reset: bool = Field(description="atari: press FIRE at the start of a game")
    time_limit_steps: int = Field(ge=0, le=10**9, description="agent steps per game; 0 = none, or the id's own limit")

    @model_validator(mode="after")
    def _of_gymnasium(self) -> EnvSection:
        for key in ("kwargs", "wrappers"):
            if self.id.startswith("ALE/") and getattr(self, key):
                refuse(
                    f"Atari games are played by ale-py's own vector environment, which takes no {key}",
                    "leave the key out, and write frame_skip, stack and the other keys of env instead",
                    key,
                )
        return self
