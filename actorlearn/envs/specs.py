"""The keys and defaults of each kind of environments, which can be read without importing environments or torch.

The id determines the kind: ale-py's vector environment plays ALE/..., another kind plays the ids with its prefix, and
gymnasium all others. A kind is a module with ``make`` and ``spec``, and an ``EnvironmentSpec`` in the registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Annotated, Any, Literal, Self

import msgspec
from msgspec import Meta

from actorlearn import imports
from actorlearn.registry import Registry, Settings, Spec

STORED = "actorlearn.envs.pickled:"
"""Beginning of the ids of environments that are stored in a file (``envs/pickled.py``)."""
STORED_FILE, STORED_HASH = "file", "sha256"
"""Keys of ``env.kwargs`` with the path and the SHA-256 of such a file; other keys are arguments for the environment."""


def without_stored_path(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return a topology's keys (section.key -> value) without the path of a stored environment's file."""
    kwargs = keys.get("env.kwargs")
    if not isinstance(kwargs, Mapping):
        return dict(keys)
    return {**keys, "env.kwargs": without_stored_file(keys.get("env.id"), kwargs)}


def environment_changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether a key of the environment has another value, so that scores before and after cannot be compared.

    ``before``: the keys (section.key -> value) on which a checkpoint depends; ``now``: those of the present topology.
    A key that only one of them has is ignored, because another version of actorlearn wrote the checkpoint.
    """
    was, has = without_stored_path(before), without_stored_path(now)
    return any(key.startswith("env.") and was[key] != has[key] for key in was.keys() & has.keys())


def without_stored_file(env_id: object, kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of an environment without the path of its file, because the folder of a run may be moved."""
    return {k: v for k, v in kwargs.items() if k != STORED_FILE} if str(env_id).startswith(STORED) else kwargs


EnvId = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./:-]{0,199}$",
        extra={
            "rule": "an environment is a gymnasium id, module:id or package.module:Class",
            "way_out": "write for example ALE/Pong-v5, minigrid:MiniGrid-Empty-5x5-v0, or shop:Shop for the class Shop "
            "in shop.py",
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

VectorClass = Annotated[
    str,
    Meta(
        pattern=r"^(auto|none|[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*)$",
        extra={
            "rule": "it must be auto, none or package.module:Class",
            "way_out": "write for example gymnasium.envs.classic_control.cartpole:CartPoleVectorEnv",
        },
    ),
]


class EnvSettings(Settings, frozen=True, kw_only=True, tag_field="kind"):
    """The environment. These keys exist for every kind of environment."""

    id: Annotated[
        EnvId,
        Meta(
            description="gymnasium id (ALE/… uses the faster Atari implementation), module:id or package.module:Class"
        ),
    ]
    time_limit_steps: Annotated[
        int, Meta(ge=0, le=10**9, description="most agent steps of a game; 0 = the limit of the id, if it has one")
    ] = 0

    @property
    def kind(self) -> str:
        """Name of the kind of environments."""
        return self.name

    @property
    def frames_stacked(self) -> int:
        """Number of stacked frames in an observation, of which a replay stores only the newest."""
        return 1

    def for_evaluation(self, noop_max: int) -> Self:
        """Return these settings for games of evaluations, which begin with at most ``noop_max`` no-ops.

        Kinds without no-ops ignore it. Raises ValueError, whose text is only the rule, for an unsupported number.
        """
        del noop_max
        return self


class AtariSettings(EnvSettings, frozen=True, kw_only=True, tag="atari"):
    """Keys of Atari games; the defaults are PAAC's."""

    preset: Annotated[
        Literal["ba3c", "dqn", "paac", "pong", "small", "stooke-abbeel"],
        Meta(
            description="how a screen becomes an observation: gray frames of 84x84 pixels (paac, dqn), 104x80 "
            "(stooke-abbeel), 44x44 (small), or 44x44 of Pong's field only (pong); ba3c = 84x84 in colour"
        ),
    ] = "paac"
    frame_skip: Annotated[int, Meta(ge=1, le=64, description="emulator frames per agent step")] = 4
    stack: Annotated[int, Meta(ge=1, le=64, description="number of frames in an observation, oldest first")] = 4
    noop_max: Annotated[
        int, Meta(ge=0, le=1_000, description="largest number of random no-op frames at the start of a game")
    ] = 30
    repeat_action_probability: Annotated[
        float,
        Meta(ge=0, lt=1, description="sticky actions: probability per frame that the previous action is repeated"),
    ] = 0.0
    full_action_space: Annotated[bool, Meta(description="use all 18 actions instead of the game's minimal set")] = False
    fire_on_reset: Annotated[
        bool, Meta(description="press FIRE at the start of a game, if the game has this action")
    ] = False

    @property
    def frames_stacked(self) -> int:
        """Number of stacked frames of which a replay stores only the newest; 1 for colour, which is stored whole."""
        return 1 if self.preset == "ba3c" else self.stack

    def for_evaluation(self, noop_max: int) -> Self:
        """Return settings of the same game with another ``noop_max``."""
        return msgspec.structs.replace(self, noop_max=noop_max)


class EnvPoolAtariSettings(AtariSettings, frozen=True, kw_only=True, tag="envpool-atari"):
    """Keys of Atari games through EnvPool: those of ``AtariSettings``, as far as EnvPool has them."""

    preset: Annotated[
        Literal["dqn", "paac", "pong", "small", "stooke-abbeel"],
        Meta(
            description="how a screen becomes an observation, as for other Atari games; ba3c is missing because "
            "EnvPool always takes the maximum of two frames"
        ),
    ] = "paac"
    noop_max: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000,
            description="largest number of random no-op frames at the start of a game; EnvPool plays at least one",
        ),
    ] = 30

    def for_evaluation(self, noop_max: int) -> Self:
        """Return settings of the same game with another ``noop_max``; raises ValueError for 0."""
        if not noop_max:
            raise ValueError("EnvPool plays at least one no-op")
        return super().for_evaluation(noop_max)


Argument = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        extra={"rule": "arguments have names as in Python", "way_out": "write for example {size: 6}"},
    ),
]


class WrapperSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A wrapper of the environment; in a topology, a wrapper without arguments can be written as its name alone."""

    name: Annotated[Code, Meta(description="package.module:Class, called with the environment and kwargs")]
    kwargs: Annotated[dict[Argument, Any], Meta(description="keyword arguments of the class")] = {}


ScaleActions = Annotated[
    bool,
    Meta(
        description="the policy chooses Box actions from -1 to 1, and they are scaled to the bounds of the Box; false"
        " = actions are clipped to the bounds"
    ),
]
MaskSource = Annotated[
    Literal["auto", "none", "info", "observation"],
    Meta(
        description='where the environment tells which actions are valid; info = info["action_mask"] of reset and '
        "step; observation = the key action_mask of a Dict observation, which the network then does not get; none = "
        "all actions are valid; auto = the one of these that the environment has"
    ),
]
Kwargs = Annotated[dict[Argument, Any], Meta(description="keyword arguments of the environment's constructor")]


class GymnasiumSettings(EnvSettings, frozen=True, kw_only=True, tag="gymnasium"):
    """Keys of gymnasium's environments."""

    scale_actions: ScaleActions = False
    action_mask: MaskSource = "auto"
    kwargs: Kwargs = msgspec.field(default_factory=dict)
    wrappers: Annotated[
        tuple[Code | WrapperSettings, ...],
        Meta(
            max_length=64, description="wrappers of the environment, the innermost first; each a name or {name, kwargs}"
        ),
    ] = ()
    vector: Annotated[
        VectorClass,
        Meta(
            description="class that steps all environments of a group (simulators.groups) together; it is called with "
            "num_envs and env.kwargs. auto = the vector class that gymnasium registers for the id, if it "
            "can reset single environments and accepts env.kwargs; none = environments are stepped one by "
            "one"
        ),
    ] = "auto"

    @property
    def wrapper_settings(self) -> list[WrapperSettings]:
        """The settings of all wrappers; a name alone means a wrapper without arguments."""
        return [WrapperSettings(name=each) if isinstance(each, str) else each for each in self.wrappers]


class PettingZooSettings(EnvSettings, frozen=True, kw_only=True, tag="pettingzoo"):
    """Keys of PettingZoo's parallel environments."""

    scale_actions: ScaleActions = False
    action_mask: MaskSource = "auto"
    kwargs: Kwargs = msgspec.field(default_factory=dict)
    agent_index: Annotated[bool, Meta(description="append the one-hot index of the agent to vector observations")] = (
        False
    )


class EnvPoolSettings(EnvSettings, frozen=True, kw_only=True, tag="envpool"):
    """Keys of EnvPool's environments that are not Atari games."""

    scale_actions: ScaleActions = False
    kwargs: Kwargs = msgspec.field(default_factory=dict)


FINER: Mapping[str, str] = {"continuous": "vector"}
"""Special case -> its kind of environments. Algorithms have default hyperparameters for each kind and special case:

==========  ==============================  ====================  ==============================================
kind        observations                    actions               determined by
==========  ==============================  ====================  ==============================================
atari       screens of ALE                  choices               the id (``EnvironmentSpec.like``)
vector      any                             choices               the id: all that are not of another kind
continuous  any                             numbers (a Box)       the environment's spaces, read when a topology
                                                                  is loaded (``make.like``)
==========  ==============================  ====================  ==============================================

An algorithm without defaults for a special case uses the defaults of the kind.
"""

DEFAULTS: Mapping[str, Any] = {
    "total_steps": 500_000,
    "model": {"name": "mlp"},
    "optimizer": {"name": "adam"},
    "evaluator": {"count": 0, "every_steps": 50_000, "episodes": 20, "greedy": True, "noop_max": 0},
}
"""Defaults of topologies for kinds that do not override them: for cheap environments with small observations."""


@dataclass(frozen=True, kw_only=True)
class EnvironmentSpec(Spec):
    """Description of a kind of environments that does not import the kind's module, ``made_by``.

    The module has ``make(settings, seeds, beat) -> VectorEnv`` and ``spec(settings) -> EnvSpec``, which
    ``actorlearn/envs/make.py`` describes.
    """

    tag_field = "kind"
    methods = ("make", "spec")
    described_in = "actorlearn/envs/make.py"
    settings: type[EnvSettings]
    prefix: str
    """Prefix of the kind's ids, such as ALE/; it is empty only for gymnasium, the kind of all other ids.

    If several prefixes match an id, the longest one determines its kind."""
    example: str
    """An id of this kind."""
    like: str = "vector"
    """The defaults of algorithms and optimizers that apply to this kind: "vector" (cheap environments with small
    observations) or "atari". For some environments a special case (``FINER``) replaces it."""
    environments: int = 16
    """Default number of environments of all simulators together."""
    most_simulators: int = 2
    """Largest default number of simulator processes. It is small for cheap environments, because waking another process
    takes longer than a step."""
    most_trainer_threads: int = 1
    """Largest default number of threads of a trainer; a network for small observations does not use more of them."""
    needs: tuple[str, ...] = ()
    """Names of the packages that must be installed for this kind."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Defaults of a topology that differ from ``DEFAULTS``: section -> key -> default, or key outside sections ->
    default."""

    def __post_init__(self) -> None:
        """Raise ValueError for an empty prefix, which only gymnasium may have."""
        super().__post_init__()
        if not self.prefix and self.settings is not GymnasiumSettings:
            rule = "its prefix must be the beginning of its ids, such as my-kind/: ids without a prefix are gymnasium's"
            raise ValueError(f"kind of environments {self.name!r}: {rule}")

    def load(self) -> ModuleType:
        """Import the module; raises ValueError if that fails or the module lacks one of the functions."""
        what = f"env.kind: {self.name!r}"
        module = imports.module(self.made_by, what)
        self.check(module, f"{what}: {self.made_by}")
        return module


ATARI = EnvironmentSpec(
    name="atari",
    settings=AtariSettings,
    made_by="actorlearn.envs.atari",
    prefix="ALE/",
    example="ALE/Pong-v5",
    like="atari",
    environments=32,
    most_simulators=8,
    most_trainer_threads=8,
    needs=("ale-py",),
    defaults={
        "total_steps": 80_000_000,
        "model": {"name": "nips"},
        "optimizer": {"name": "rmsprop"},
        "evaluator": {"count": 0, "every_steps": 1_000_000, "episodes": 30, "greedy": False, "noop_max": 30},
    },
)
ENVPOOL_ATARI = replace(
    ATARI,
    name="envpool-atari",
    settings=EnvPoolAtariSettings,
    made_by="actorlearn.envs.envpool_atari",
    prefix="envpool:ALE/",
    example="envpool:ALE/Pong-v5",
    needs=("envpool",),
)
GYMNASIUM = EnvironmentSpec(
    name="gymnasium",
    settings=GymnasiumSettings,
    made_by="actorlearn.envs.gymnasium_env",
    prefix="",
    example="CartPole-v1",
)
PETTINGZOO = EnvironmentSpec(
    name="pettingzoo",
    settings=PettingZooSettings,
    made_by="actorlearn.envs.pettingzoo_env",
    prefix="pettingzoo:",
    example="pettingzoo:mpe2.simple_spread_v3",
    environments=48,  # rows, one per agent: divisible into whole games of 2, 3, 4, 6, 8 or 12 agents
    needs=("pettingzoo",),
)
ENVPOOL = replace(
    GYMNASIUM,
    name="envpool",
    settings=EnvPoolSettings,
    made_by="actorlearn.envs.envpool_env",
    prefix="envpool:",
    example="envpool:CartPole-v1",
    needs=("envpool",),
)


class Environments(Registry[EnvironmentSpec]):
    """Registry of the kinds of environments, found by id."""

    def of(self, env_id: str) -> EnvironmentSpec:
        """Return the kind of an id: the one with the longest matching prefix; of two equal prefixes, the built-in's."""
        fitting = [spec for spec in self.specs() if env_id.startswith(spec.prefix)]
        return max(fitting, key=lambda spec: len(spec.prefix))


ENVIRONMENTS = Environments("env", "actorlearn.environments", EnvironmentSpec)
