"""Base class of `VectorEnv`s of environments in Python, which checks the values that the environments return.

It checks all values of a time step before it writes any of them to the `Row`. An invalid value raises
MalformedStepError, which names the environment, the field and the value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NoReturn

import numpy as np
import numpy.typing as npt

from actorlearn.envs import states
from actorlearn.envs.interface import EnvSpec, MalformedStepError, Row, ShortRepr, empty_row
from actorlearn.envs.mask_cells import without_choice
from actorlearn.envs.masks import Masks, Valid
from actorlearn.envs.observations import MisfitError
from actorlearn.envs.spaces import Spaces
from actorlearn.observation_parts import MASK

FLOAT32_MAX = float(np.finfo(np.float32).max)
Counts = npt.NDArray[np.int64]
Flags = bool | Sequence[bool] | npt.NDArray[np.bool_]
NUMBERS = (float, int, np.floating, np.integer)


class CheckedRows(ShortRepr):
    """Gathers and checks the values of B environments, draws random actions, and saves and restores states."""

    spec: EnvSpec
    interface: ClassVar[str]
    """Name of the interface of the environments, such as gymnasium.Env, for errors."""

    def __init__(self, env_id: str, spaces: Spaces, count: int) -> None:
        """Allocate observations for ``count`` environments with these spaces; ``env_id`` is for errors."""
        self._id, self.count = env_id, count
        self._actions, self._layout, self._masks = spaces.actions, spaces.rows, spaces.masks
        self._valid: Valid = np.ones((count, spaces.masks.length if spaces.masks else 0), np.bool_)
        """The newest masks [B, n]; n = 0 if all actions are valid."""
        self._observation: npt.NDArray[Any] = np.zeros((count, *self._layout.shape), self._layout.dtype)
        self._reward = np.zeros(count, np.float64)
        self._open = True

    def random_actions(self, random: np.random.Generator) -> npt.NDArray[Any]:
        """Draw a valid action for each environment."""
        return self._actions.draw(self.count, random, self._valid if self._masks else None)

    def _need_open(self) -> None:
        if not self._open:
            raise RuntimeError("the environments are closed")

    def _saved(self, envs: Sequence[states.Environment], own: dict[str, Any]) -> states.Arrays:
        """Return the state of the ``VectorEnv``: the numbers in ``own``, masks, and the states of ``envs``.

        Raises RuntimeError if the environments' states cannot be saved.
        """
        self._need_open()
        if self.spec.inexact:
            raise RuntimeError(self.spec.inexact)
        valid = {MASK: self._valid} if self._masks else {}
        return {name: np.array(values) for name, values in (own | valid).items()} | states.read(envs)

    def _restore_valid(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore the masks of a saved state; raises KeyError or ValueError if they are missing or do not fit."""
        if self._masks:
            self._valid[...] = state[MASK]

    @contextmanager
    def _restoring(self) -> Iterator[None]:
        """Turn any exception that is raised in the block, in which a state is restored, into a ValueError."""
        self._need_open()
        try:
            yield
        except Exception as error:  # an environment may raise anything
            raise ValueError(f"{self._id!r} cannot restore this state: {type(error).__name__}: {error}") from error

    def _answered(self, i: int | None, method: str, answer: Any, values: int) -> Any:
        """Return ``answer``, the result of ``method``; raises MalformedStepError unless it is a tuple of this length.

        ``i`` is the index of the environment, None for all, and ``values`` the length.
        """
        if type(answer) is not tuple or len(answer) != values:
            self._refuse(i, f"{method}()", answer, f"it must return {values} values: see {self.interface}.{method}")
        return answer

    def _gather(self, i: int, observation: Any, info: Any, ended: bool = False) -> None:
        """Keep the observation and mask of environment ``i`` for `_write`; ``ended``: it is a game's last."""
        try:
            self._layout.store(observation, self._observation, i)
            if self._masks:
                self._valid[i] = self._masks.read(observation, info, ended=ended)
        except MisfitError as misfit:
            self._refuse(i, *misfit.args)

    def _number(self, i: int, reward: Any) -> float:
        if not isinstance(reward, NUMBERS):
            self._refuse(i, "reward", reward, "it must be one number")
        try:
            return float(reward)
        except OverflowError:
            self._refuse(i, "reward", reward, "it must be finite in float32")

    def _flag(self, i: int, name: str, value: Any) -> bool:
        if not isinstance(value, (bool, np.bool_)):
            self._refuse(i, name, value, "it must be True or False")
        return bool(value)

    def _write(
        self, row: Row, terminated: Flags, truncated: Flags, first: Flags, steps: Sequence[int] | Counts = ()
    ) -> None:
        """Check all gathered values, then write them and the flags to a row; raises MalformedStepError.

        ``steps`` [B]: number of steps of each running game, for errors.
        """
        for field, values in (("reward", self._reward), ("observation", self._observation)):
            good = _finite(values)
            if not good.all():
                i, *place = np.argwhere(~good)[0].tolist()
                name = self._layout.name(place) if field == "observation" else field
                self._refuse(i, name, values[(i, *place)].item(), "it must be finite in float32")
        if self._masks:
            self._refuse_no_choice(self._masks, np.logical_or(terminated, truncated), steps)
            length = self._masks.length
            row.observation[:, :-length] = self._observation.reshape(self.count, -1)
            row.observation[:, -length:] = self._valid
        else:
            row.observation[...] = self._observation
        row.reward[...] = self._reward
        row.terminated[...] = terminated
        row.truncated[...] = truncated
        row.life_lost.fill(False)
        row.first[...] = first

    def _write_first(self, row: Row, chosen: npt.NDArray[np.bool_]) -> None:
        """Check all gathered values, and write those of the chosen environments [B] as the first of a game."""
        begun = empty_row(self.spec, self.count)
        self._write(begun, False, False, True)
        row.take(begun, chosen)

    def _refuse_no_choice(self, masks: Masks, ended: npt.NDArray[np.bool_], steps: Sequence[int] | Counts) -> None:
        """Raise MalformedStepError for a mask without a valid choice, except at a game's end.

        At a game's end the next action is ignored, so all choices become valid there.
        """
        none = without_choice(masks.actions, self._valid)
        if not none.any():
            return
        running = none.any(axis=-1) & ~ended
        if running.any():
            i = int(np.argmax(running))
            moment = f"step {steps[i]}" if len(steps) else "the beginning"
            rule = (
                f"at {moment} of its game no action is valid; an environment without a valid action must end its game"
            )
            self._refuse(i, f"{masks.source}[{MASK!r}]", self._valid[i].astype(int).tolist(), rule)
        self._valid[none] = True

    def _refuse(self, i: int | None, field: str, value: object, rule: str) -> NoReturn:
        raise MalformedStepError(self._id, i, field, value, rule)


def _finite(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return for each element whether it is finite as float32; for integers a single True."""
    if values.dtype.kind != "f":
        return np.ones((), np.bool_)
    finite: npt.NDArray[np.bool_] = np.isfinite(values) if values.dtype.itemsize <= 4 else np.abs(values) <= FLOAT32_MAX
    return finite
