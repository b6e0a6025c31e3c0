"""The interface of environments: `VectorEnv`, the `Row` to which it writes, and `EnvSpec`, which describes shapes.

A `VectorEnv` steps B environments and writes each time step to a `Row`, whose arrays may be in shared memory. A time
step of one environment has these values:

    | time step             | observation         | reward | terminated | truncated | life_lost | first |
    |-----------------------|---------------------|--------|------------|-----------|-----------|-------|
    | first of a game       | the game's first    | 0      | no         | no        | no        | yes   |
    | inside a game         | after the action    | raw    | no         | no        | maybe     | no    |
    | last, game over       | the game's final    | raw    | yes        | no        | no        | no    |
    | last, at a time limit | the game's final    | raw    | no         | yes       | no        | no    |

A game is an episode. The step after its last one is the first of the next game; the action that was chosen for the last
observation is ignored (gymnasium's autoreset mode NEXT_STEP). So the final observation, from which returns bootstrap,
needs no extra column. `restart` begins a game at any other time. It writes the first observation of the game
immediately, and no action is ignored.

In a game of several agents each agent counts as an environment. The agents of a game are adjacent, and each one ends
and begins independently. While an agent is not in its game, because it has ended or has not joined yet, its time steps
are *void*: first is set, the reward is 0, no other flag is set, and the observation is arbitrary. The last void step
before an agent joins has its first observation. A time step with first set for all agents of a game begins a new game,
because within a game at least one agent is not void.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from actorlearn.actions import Actions, MultiDiscrete, describe_actions
from actorlearn.observation_parts import ActionMask, ImagePart


class EnvSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Shapes and types of one environment's observations and actions, and its other properties."""

    observation_shape: tuple[int, ...]  # of one environment
    observation_dtype: str  # "uint8" or "float32"
    actions: Actions
    frames_per_step: int
    stack: int = 1  # frames in an observation, oldest first; frames before a game's first are zeros
    observation_from: str = ""  # description of the environment's observation space and its conversion, for people
    images: tuple[ImagePart, ...] = ()  # images in an observation of several parts, flattened to one vector
    action_mask: ActionMask | None = None  # the mask of valid actions, the last elements of an observation
    left_out: tuple[str, ...] = ()  # parts of the environment's observations that are not in rows, such as text
    agents: int = 1  # agents of one game
    fire: int | None = None  # the action that presses FIRE, in Atari games that have it
    inexact: str = ""  # reason why the state cannot be saved, which an exact resume needs; "" if it can
    no_restart: str = ""  # reason why `VectorEnv.restart` is not supported; "" if it is


@dataclass(slots=True)
class Row:
    """One time step of B environments. A `VectorEnv` fills the arrays and keeps no references to them."""

    observation: npt.NDArray[Any]  # [B, *observation_shape]
    reward: npt.NDArray[np.float32]  # [B] raw: neither clipped nor scaled
    terminated: npt.NDArray[np.bool_]  # [B] the game is over
    truncated: npt.NDArray[np.bool_]  # [B] a time limit ended the game
    life_lost: npt.NDArray[np.bool_]  # [B] a life was lost and the game continues
    first: npt.NDArray[np.bool_]  # [B] the observation is a game's first; the action before it was ignored

    def begin(self, chosen: slice | npt.NDArray[np.bool_]) -> None:
        """Set the rewards and flags of the chosen environments [B] to those of a game's first time step."""
        self.reward[chosen] = 0.0
        for flag in (self.terminated, self.truncated, self.life_lost):
            flag[chosen] = False
        self.first[chosen] = True

    def take(self, other: Row, chosen: npt.NDArray[np.bool_]) -> None:
        """Copy the values of the chosen environments [B] from another row to this one."""
        for column in fields(self):
            getattr(self, column.name)[chosen] = getattr(other, column.name)[chosen]


def empty_row(spec: EnvSpec, count: int) -> Row:
    """Return a new row for ``count`` environments, filled with zeros."""
    flags = {name: np.zeros(count, np.bool_) for name in ("terminated", "truncated", "life_lost", "first")}
    observation: np.ndarray[Any, Any] = np.zeros((count, *spec.observation_shape), spec.observation_dtype)
    return Row(observation=observation, reward=np.zeros(count, np.float32), **flags)


class ShortRepr:
    """Base of `VectorEnv`s with a short repr."""

    spec: EnvSpec
    count: int
    _id: str
    """Id of the environment."""

    def __repr__(self) -> str:
        """Return the class, the id, the number of environments, and their observations and actions."""
        spec = self.spec
        observation = f"{spec.observation_dtype}{list(spec.observation_shape)}"
        what = f"{self.count} x {self._id}: observation {observation}, {describe_actions(spec.actions)}"
        return f"<{type(self).__name__} {what}>"


class VectorEnv(Protocol):
    """B environments, which a simulator process steps together.

    The docstring of this module defines what they write to a `Row`. Actions are int64 [B] for Discrete actions, int64
    [B, k] for MultiDiscrete actions of k parts, and float32 [B, n] for a Box of n numbers.
    """

    @property
    def spec(self) -> EnvSpec:
        """Shapes and other properties of one environment."""

    @property
    def count(self) -> int:
        """B: number of environments; in games of several agents, number of agents of all games."""

    def reset(self, row: Row) -> None:
        """Start every environment from its seed and write the first observations; equal seeds give equal games."""

    def step(self, action: npt.NDArray[Any], row: Row) -> None:
        """Take an action in each environment and write the results to ``row``; floats are clipped to the bounds.

        An environment whose game ended in the previous step ignores its action and starts a new game. ``action`` is not
        changed, because the trainer reads it later.

        Raises ActionError for an action outside the action space, and MalformedStepError for invalid values from an
        environment. After such an error the row must not be used.
        """

    def restart(self, chosen: npt.NDArray[np.bool_], row: Row) -> None:
        """Start a new game in the chosen environments [B], and write its first observations.

        Other environments, and their values in the row, are not changed. Each environment continues its sequence of
        random numbers. Raises ValueError if only some agents of a game are chosen, and RuntimeError if
        ``spec.no_restart`` is set.
        """

    def random_actions(self, random: np.random.Generator) -> npt.NDArray[Any]:
        """Draw an action for each environment, uniformly from the valid actions."""

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything that determines how the games continue, as arrays of numbers.

        Raises RuntimeError if ``spec.inexact`` is set, and any exception that an environment raises. The environments
        can be stepped further.
        """

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore a `state` of B environments with the same settings; the seeds may differ.

        No `reset` is needed before. Raises ValueError for a state that does not fit or cannot be reached. After such an
        error the environments must be reset.
        """

    def close(self) -> None:
        """Close the environments; a second call does nothing."""


class RenderedEnv(VectorEnv, Protocol):
    """B environments that can also be rendered; rendering does not affect their games."""

    def render(self) -> Sequence[npt.NDArray[np.uint8]]:
        """Return a picture of each game at its newest step: RGB, uint8 [height, width, 3].

        Raises ValueError for environments that cannot make pictures.
        """


class ActionError(ValueError):
    """A policy chose actions that are outside the action space, not finite, or too few or too many."""


class MalformedStepError(ValueError):
    """An environment returned an invalid value; the text names the environment, the field, the value and the rule."""

    def __init__(self, env_id: str, environment: int | None, field: str, value: object, rule: str) -> None:
        """Compose the text; `environment`: index below B, or None for all; `rule`: what the field's value must be."""
        self.environment = environment
        self.field = field
        shown = repr(value)
        if len(shown) > 200:
            shown = shown[:200] + "…"
        which = "all environments" if environment is None else f"environment {environment}"
        super().__init__(f"{which} of {env_id!r}: {field} is {shown}; {rule}")


def check_actions(action: npt.NDArray[Any], count: int, actions: Actions) -> None:
    """Raise ActionError unless ``action`` has `count` valid actions; floats must be finite but may exceed bounds."""
    if isinstance(actions, tuple):
        return _check_box_actions(action, (count, *actions))
    if isinstance(actions, MultiDiscrete):
        return _check_choices(action, count, actions.sizes)
    if action.shape != (count,) or action.dtype.kind not in "iu":
        raise ActionError(
            f"action is {action.dtype}{list(action.shape)}; it must be one integer for each of {count} environments"
        )
    if action.min() < 0 or action.max() >= actions:
        environment = int(np.flatnonzero((action < 0) | (action >= actions))[0])
        raise ActionError(f"environment {environment}: action {action[environment]} must be in 0 … {actions - 1}")


def _check_choices(action: npt.NDArray[Any], count: int, sizes: tuple[int, ...]) -> None:
    shape = (count, len(sizes))
    if action.shape != shape or action.dtype.kind not in "iu":
        raise ActionError(f"action is {action.dtype}{list(action.shape)}; it must be integers of shape {list(shape)}")
    possible = ((action >= 0) & (action < sizes)).all(axis=-1)
    if not possible.all():
        environment = int(np.argmin(possible))
        raise ActionError(
            f"environment {environment}: action {action[environment].tolist()} must be below {list(sizes)} "
            "and at least 0 in each element"
        )


def _check_box_actions(action: npt.NDArray[Any], shape: tuple[int, ...]) -> None:
    if action.shape != shape or action.dtype.kind != "f":
        raise ActionError(f"action is {action.dtype}{list(action.shape)}; it must be floats of shape {list(shape)}")
    finite = np.isfinite(action).all(axis=-1)
    if not finite.all():
        environment = int(np.argmin(finite))
        raise ActionError(f"environment {environment}: action {action[environment].tolist()} must be finite")


def seed31(seed: int) -> int:
    """Return the low 31 bits of a seed, because some environments accept no larger numbers.

    Raises ValueError for a negative seed.
    """
    if seed < 0:
        raise ValueError(f"seed {seed} must be 0 or more")
    return seed % 2**31
