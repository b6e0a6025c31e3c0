"""Kinds of environments before they are made: the keys that each reads, and what topologies are on it by default.

The kind follows from the id: ALE/... is played by ale-py's own vector environment, all else is gymnasium's. Loads
neither, and no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from actorlearn import imports
from actorlearn.registry import Registry, Settings, Spec

EnvId = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./:-]{0,199}$",
        extra={
            "rule": "an environment is a gymnasium id, module:id or package.module:Class",
            "way_out": "write for example ALE/Pong-v5, or minigrid:MiniGrid-Empty-5x5-v0",
        },
    ),
]
Code = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$",
        extra={"rule": "it must be package.module:Class", "way_out": "write for example gymnasium.wrappers:TimeLimit"},
    ),
]


class EnvSettings(Settings, frozen=True, kw_only=True, tag_field="kind"):
    """The section ``env`` of a topology: what every kind of environment has."""

    id: Annotated[
        EnvId, Meta(description="gymnasium id (ALE/... takes the fast path), module:id or package.module:Class")
    ]
    time_limit_steps: Annotated[
        int, Meta(ge=0, le=10**9, description="agent steps per game; 0 = none, or the id's own limit")
    ] = 0

    @property
    def kind(self) -> str:
        """The name of its kind."""
        return self.name


class AtariSettings(EnvSettings, frozen=True, kw_only=True, tag="atari"):
    """What Atari games have; the defaults are PAAC's."""

    preset: Annotated[
        Literal["dqn", "paac", "stooke-abbeel"], Meta(description="how a screen becomes an observation")
    ] = "paac"
    frame_skip: Annotated[int, Meta(ge=1, le=64, description="emulator frames per agent step")] = 4
    stack: Annotated[int, Meta(ge=1, le=64, description="frames in one observation, oldest first")] = 4
    noop_max: Annotated[int, Meta(ge=0, le=1_000, description="most random no-op frames at the start of a game")] = 30
    repeat_action_probability: Annotated[
        float, Meta(ge=0, lt=1, description="sticky actions; probability per frame")
    ] = 0.0
    full_action_space: Annotated[bool, Meta(description="all 18 actions instead of the game's own")] = False
    fire_on_reset: Annotated[bool, Meta(description="press FIRE at the start of a game, if it has FIRE")] = False


class WrapperSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A wrapper of the environment; in a topology its name alone will do."""

    name: Annotated[Code, Meta(description="package.module:Class, called with the environment")]
    kwargs: Annotated[dict[str, Any], Meta(description="and with these arguments")] = {}


class GymnasiumSettings(EnvSettings, frozen=True, kw_only=True, tag="gymnasium"):
    """What all other environments have."""

    kwargs: Annotated[dict[str, Any], Meta(description="arguments of its constructor")] = msgspec.field(
        default_factory=dict
    )
    wrappers: Annotated[
        tuple[WrapperSettings, ...],
        Meta(max_length=64, description="put around it, the first innermost; names or {name, kwargs}"),
    ] = ()


@dataclass(frozen=True, kw_only=True)
class EnvironmentSpec(Spec):
    """A kind of environments: a module that has ``make(settings, seeds, beat)`` and, for shapes, ``spec(settings)``."""

    tag_field = "kind"
    settings: type[EnvSettings]
    prefix: str = ""
    """How the ids of this kind begin; the longest that fits counts."""
    like: str = "vector"
    """Which numbers algorithms and optimizers take by default: vector (cheap, small observations) or atari."""
    environments: int = 16
    """How many there are in all by default."""
    most_simulators: int = 2
    """More processes than this are not started by default: a step of a cheap environment costs less than the
    hand-over."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """What a topology's other keys are by default."""

    def load(self) -> ModuleType:
        """Import the module; raises ValueError, one line."""
        return imports.module(self.made_by, f"env.kind: {self.name!r}")


ATARI = EnvironmentSpec(
    name="atari",
    settings=AtariSettings,
    made_by="actorlearn.envs.atari",
    prefix="ALE/",
    like="atari",
    environments=32,
    most_simulators=8,
    defaults={
        "total_steps": 80_000_000,
        "model": {"name": "nips"},
        "optimizer": {"name": "rmsprop"},
        "evaluator": {"count": 0, "every_steps": 1_000_000, "episodes": 30, "greedy": False, "noop_max": 30},
    },
)
GYMNASIUM = EnvironmentSpec(
    name="gymnasium",
    settings=GymnasiumSettings,
    made_by="actorlearn.envs.gymnasium_env",
    defaults={
        "total_steps": 500_000,
        "model": {"name": "mlp"},
        "optimizer": {"name": "adam"},
        "evaluator": {"count": 0, "every_steps": 50_000, "episodes": 20, "greedy": True, "noop_max": 0},
    },
)


class Environments(Registry[EnvironmentSpec]):
    """The kinds of environments, found by what is played."""

    def of(self, env_id: str) -> EnvironmentSpec:
        """Return the kind of an environment."""
        fitting = [spec for spec in self.specs() if env_id.startswith(spec.prefix)]
        return max(fitting, key=lambda spec: len(spec.prefix))


ENVIRONMENTS = Environments("env", "actorlearn.environments", EnvironmentSpec)
