"""Adapts a ``gymnasium.vector.VectorEnv`` of any autoreset mode ("the vector") to our `VectorEnv`.

``metadata["autoreset_mode"]`` says how the vector behaves when a game ends
(https://farama.org/Vector-Autoreset-Mode). A `VectorEnv` always returns a game's final observation, and in the
following step the first observation of the next game. The adapter gets both as follows:

=========  ======================================  ================================================================
mode       the step that ends a game returns       the following step
=========  ======================================  ================================================================
NEXT_STEP  its final observation                   begins the next game: nothing has to be changed
SAME_STEP  the next game's first observation, and  the vector steps all games, so the new game takes a step that no
           the final one in ``info["final_obs"]``  policy chose; `reset` then begins it again
DISABLED   its final observation                   `reset` begins a game before the step, which this mode requires,
                                                   and again after the step
=========  ======================================  ================================================================

The action that a policy chose for a final observation is not used. In its place the vector gets action 0, or with masks
the first valid action.

``reset(options={"reset_mask": [B] bool})`` begins chosen games. Every vector of mode DISABLED supports this, and so do
vectors that have ``metadata["reset_mask"] = True``. Other vectors cannot begin single games (``spec.no_restart``). With
such a vector of mode SAME_STEP, each game's first observation follows an action that no policy chose, whose reward is
not counted.

The vector's ``reset`` is called with a list of seeds, one for each environment. If this raises an exception, ``reset``
is called with a single seed derived from all. Games then depend on the number and the seeds of the other environments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from actorlearn.actions import cell, chosen_by_part
from actorlearn.envs import states
from actorlearn.envs.checked_rows import CheckedRows
from actorlearn.envs.interface import Row, seed31
from actorlearn.envs.observations import MisfitError
from actorlearn.envs.pictures import pictures_of
from actorlearn.envs.spaces import Spaces

Vector = VectorEnv[Any, Any, Any]
Flags = npt.NDArray[np.bool_]
FOREVER = 2**62
FLAGS = ("ended", "cut")
"""Names, in a saved state, of the flags of each environment."""
PLAYABLE = "playable"
"""Name, in a saved state, of the masks of newly begun games."""


class GymnasiumVector(CheckedRows):
    """A vector environment of gymnasium, which steps B environments together, as a `VectorEnv`."""

    interface = "gymnasium.vector.VectorEnv"

    def __init__(
        self,
        env_id: str,
        vector: Vector,
        seeds: Sequence[int],
        *,
        scale_actions: bool = False,
        action_mask: str = "none",
        time_limit_steps: int = 0,
        beat: Callable[[], object] = lambda: None,
    ) -> None:
        """Adapt a vector with one environment per seed; raises ValueError if it is unsuitable.

        ``env_id`` is for errors. ``scale_actions`` and ``action_mask`` are keys of the section ``env``.
        ``time_limit_steps`` is a limit that this class must apply, because the vector does not; 0: none. ``beat`` is
        called before each call of the vector, as a sign that the process does not hang.
        """
        self._vector, self._beat = vector, beat
        name = _name(vector)
        self._mode = _autoreset_mode(vector, name)
        if vector.num_envs != len(seeds):
            raise ValueError(f"env.vector: {name} has {vector.num_envs} environments instead of {len(seeds)}")
        self._seeds = [seed31(seed) for seed in seeds]
        spaces = Spaces.of(
            env_id,
            vector.single_observation_space,
            vector.single_action_space,
            scale_actions=scale_actions,
            action_mask=action_mask,
            first_info=lambda: self._seeded()[1],
        )
        super().__init__(env_id, spaces, len(seeds))
        self._batches = spaces.layout
        self._resets_by_mask = resets_by_mask(vector)
        no_restart = (
            ""
            if self._resets_by_mask
            else f"{name} cannot reset single games, because it has no metadata['reset_mask']"
        )
        if time_limit_steps and no_restart:
            rule = "it must take the argument max_episode_steps, or reset by mask (docs/plugins.md)"
            limit = f"the time limit of {time_limit_steps} steps (env.time_limit_steps, or that of env.id)"
            raise ValueError(f"{limit} cannot be applied: {no_restart}; {rule}")
        self.spec = spaces.spec(inexact=states.inexact(vector), no_restart=no_restart)
        dtype, shape = cell(self.spec.actions)
        self._zero = self._actions.taken_together(np.zeros((self.count, *shape), dtype), self.count)
        self._playable = self._valid.copy()
        """Masks [B, n] of the first observations of the vector's newest games; the first action of such a game, which
        no policy chooses, must be valid in them."""
        self._limit = time_limit_steps or FOREVER
        self._steps = np.zeros(self.count, np.int64)  # steps of each running game
        self._ended = np.zeros(self.count, np.bool_)
        self._cut = np.zeros(self.count, np.bool_)  # truncated by `_limit`; the vector would continue

    def reset(self, row: Row) -> None:
        """Start every environment from its seed, and write the first observations to ``row``."""
        self._reset_from_seeds()
        self._write(row, False, False, True)

    def restart(self, chosen: Flags, row: Row) -> None:
        """Start a new game in the chosen environments, and write their first observations to ``row``."""
        self._need_open()
        if self.spec.no_restart:
            raise RuntimeError(self.spec.no_restart)
        if chosen.any():
            self._begin(chosen)
        self._write_first(row, chosen)

    def step(self, action: npt.NDArray[Any], row: Row) -> None:
        """Take action [B, …], and write the results to ``row``."""
        self._need_open()
        taken = self._actions.taken_together(action, self.count)
        first = self._ended
        games_begin = bool(first.any())
        if games_begin:
            if self._mode is AutoresetMode.DISABLED:
                begun = self._reset(first)
                if self._masks:
                    self._gather_all(*begun, chosen=first)
                    self._playable[...] = self._valid
            taken[first] = self._unchosen()[first]
        self._beat()
        answer = self._answered(None, "step", self._vector.step(taken), 5)
        observations, reward, terminated, truncated, info = answer
        self._reward[:] = self._rewards(reward)
        terminated, truncated = self._flags("terminated", terminated), self._flags("truncated", truncated)
        begun_already = self._mode is AutoresetMode.SAME_STEP  # then the observations are those of the next games
        self._gather_all(observations, info, ended=False if begun_already else terminated | truncated)
        self._steps += 1
        if games_begin:
            terminated, truncated = terminated & ~first, truncated & ~first
        over = terminated | truncated
        if begun_already and over.any():
            self._playable[...] = self._valid
            self._observe_final(info, over)
        if games_begin:
            self._begin_after(first)
        cut = (self._steps >= self._limit) & ~over
        truncated = (truncated | cut) & ~terminated
        self._write(row, terminated, truncated, first, self._steps)
        self._ended, self._cut = over | cut, cut

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return the vector's state, and the steps and flags of each game."""
        own = {"steps": self._steps, "ended": self._ended, "cut": self._cut}
        playable = {PLAYABLE: self._playable} if self._masks else {}
        return self._saved([self._vector], own | playable)

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore a state; the vector is reset before, because some set their attributes only in ``reset``."""
        with self._restoring():
            own: list[Any] = [state["steps"].astype(np.int64), *(state[name].astype(np.bool_) for name in FLAGS)]
            if any(array.shape != (self.count,) for array in own):
                raise ValueError(f"the state has {own[0].size} environments instead of {self.count}")
            self._reset_from_seeds()
            self._restore_valid(state)
            if self._masks:
                self._playable[...] = state[PLAYABLE]
            states.put_back([self._vector], state)
        self._steps, self._ended, self._cut = own

    def close(self) -> None:
        """Close the vector."""
        if self._open:
            self._open = False
            self._beat()
            self._vector.close()

    def render(self) -> list[npt.NDArray[np.uint8]]:
        """Return the vector's pictures; raises ValueError if it cannot make any."""
        return pictures_of(self._id, self._vector)

    def _reset_from_seeds(self) -> None:
        """Start all environments from their seeds, or from one seed derived from all."""
        self._need_open()
        self._gather_all(*self._answered(None, "reset", self._seeded(), 2))
        self._reward.fill(0.0)
        self._steps[:] = 0
        self._ended, self._cut = np.zeros(self.count, np.bool_), np.zeros(self.count, np.bool_)

    def _seeded(self) -> Any:
        """Reset the vector with the list of seeds, or with one seed derived from all; return the result."""
        self._beat()
        try:
            return self._vector.reset(seed=self._seeds)  # type: ignore[arg-type]  # gymnasium's classes take lists
        except Exception:  # a class may refuse a list by any exception
            return self._vector.reset(seed=int(np.random.SeedSequence(self._seeds).generate_state(1)[0]) >> 1)

    def _begin_after(self, first: Flags) -> None:
        """Set rewards of new games (``first`` [B]) to 0; reset again those in which the vector has taken an action."""
        self._reward[first] = 0.0
        self._steps[first] = 0
        anew = first & self._cut if self._mode is AutoresetMode.NEXT_STEP else first
        if self._resets_by_mask and anew.any():
            self._begin(anew)

    def _begin(self, chosen: Flags) -> None:
        self._gather_all(*self._reset(chosen), chosen=chosen)
        self._reward[chosen] = 0.0
        self._steps[chosen] = 0
        self._ended, self._cut = self._ended & ~chosen, self._cut & ~chosen

    def _unchosen(self) -> npt.NDArray[Any]:
        """Return the actions that replace those for final observations: zeros, or with masks the first valid ones."""
        actions = self._actions.actions
        if not self._masks or isinstance(actions, tuple):
            return self._zero
        playable = np.where(self._cut[:, np.newaxis], self._valid, self._playable)  # the vector plays on after `_limit`
        return self._actions.taken_together(chosen_by_part(actions, playable), self.count)

    def _reset(self, chosen: Flags) -> Any:
        """Reset the chosen environments [B]; return the observations of all, and the info."""
        self._beat()
        return self._answered(None, "reset", self._vector.reset(options={"reset_mask": chosen.copy()}), 2)

    def _gather_all(
        self, observations: Any, info: Any, *, chosen: Flags | None = None, ended: bool | Flags = False
    ) -> None:
        """Gather the observations and masks of the chosen environments [B]; None: of all.

        ``ended`` [B]: environments whose games end with these observations.
        """
        into = self._observation if chosen is None else np.zeros_like(self._observation)
        try:
            self._batches.store_all(observations, into)
            if self._masks:
                of = np.ones(self.count, np.bool_) if chosen is None else chosen
                passed_over = ended if chosen is None else ~chosen
                self._valid[of] = self._masks.read(observations, info, (self.count,), passed_over)[of]
        except MisfitError as misfit:
            self._refuse(None, *misfit.args)
        if chosen is not None:
            self._observation[chosen] = into[chosen]

    def _observe_final(self, info: Any, over: Flags) -> None:
        """Gather the final observations of games that have ended (``over`` [B]), for a vector of mode SAME_STEP."""
        try:
            final = info["final_obs"]
            parts = [(i, _part(final, i), _part(info.get("final_info", {}), i)) for i in np.flatnonzero(over).tolist()]
        except Exception:  # a vector may return anything
            rule = (
                'with autoreset mode SAME_STEP it must have the key "final_obs", with the final observation '
                "of each game that ended"
            )
            self._refuse(int(np.argmax(over)), "info", info, rule)
        for i, observation, own in parts:
            self._gather(i, observation, own, ended=True)

    def _rewards(self, reward: Any) -> npt.NDArray[Any]:
        rewards = _array(reward)
        if rewards.shape != (self.count,) or rewards.dtype.kind not in "biuf":
            self._refuse(None, "reward", reward, f"it must be {self.count} numbers")
        return rewards

    def _flags(self, name: str, value: Any) -> Flags:
        flags = _array(value)
        if flags.shape != (self.count,) or flags.dtype.kind != "b":
            self._refuse(None, name, value, f"it must be {self.count} values, each True or False")
        return flags


def resets_by_mask(vector: object) -> bool:
    """Whether a vector environment, or its class, can reset chosen games: ``reset(options={"reset_mask": …})``."""
    metadata: Mapping[str, Any] = getattr(vector, "metadata", {})
    mode = metadata.get("autoreset_mode")
    own = isinstance(getattr(vector, "unwrapped", None), SyncVectorEnv | AsyncVectorEnv)
    disabled = mode in (AutoresetMode.DISABLED, AutoresetMode.DISABLED.value)
    return own or disabled or bool(metadata.get("reset_mask"))


def _autoreset_mode(vector: Vector, name: str) -> AutoresetMode:
    mode = vector.metadata.get("autoreset_mode")
    try:
        return AutoresetMode(mode)
    except ValueError:
        rule = "it must be one of gymnasium.vector.AutoresetMode: NEXT_STEP, SAME_STEP or DISABLED"
        raise ValueError(f'env.vector: metadata["autoreset_mode"] of {name} is {mode!r}; {rule}') from None


def _name(vector: Vector) -> str:
    kind = type(vector.unwrapped)
    return f"{kind.__module__}:{kind.__qualname__}"


def _part(batch: Any, i: int) -> Any:
    """Return element ``i`` of a batch of observations, which may be nested dicts and tuples of arrays."""
    if isinstance(batch, Mapping):
        return {key: _part(part, i) for key, part in batch.items()}
    return tuple(_part(part, i) for part in batch) if isinstance(batch, tuple) else batch[i]


def _array(value: Any) -> npt.NDArray[Any]:
    """Return a value as an array; if that fails, an array of objects, which later checks refuse."""
    try:
        return np.asarray(value)
    except Exception:  # a vector may return anything
        return np.array(None, object)
