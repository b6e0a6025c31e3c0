"""The environments of one group of a simulator: begins rollouts and games, steps, or continues from a snapshot.

Reads: the actions in the group's blocks, and the words ``joined``, ``left``, ``open`` and ``acted`` in shared memory.
Writes: observations, raw rewards and ends of games to the blocks, and the words ``observed`` and ``completed``.
``memory/rollout.py`` explains the words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from actorlearn.envs.interface import Row, VectorEnv, empty_row
from actorlearn.memory.rollout import ARRIVAL_COLUMNS, Blocks, Rollouts

if TYPE_CHECKING:
    from actorlearn.processes.snapshots import SavedPlace


class GameStarts:
    """Remembers which environments of a group begin a game with the next block, and the first rows of these games."""

    def __init__(self, env: VectorEnv, reset: str) -> None:
        """Start with new games in all environments of ``env``.

        ``reset`` (`simulators.reset`) is "inside" if the next game begins in the rollout in which a game ends, and
        "wait" if it begins with the next rollout.
        """
        self._env = env
        self._waits = reset == "wait"
        self._row = empty_row(env.spec, env.count)
        """First rows of the environments that begin a game with the next block."""
        self._anew = np.ones(env.count, np.bool_)
        """[B] whether an environment begins a game with the next block."""
        self._over = np.zeros(env.count, np.bool_)
        """[B] whether an environment's game has ended in this block, and its next game waits for the next block."""

    def first(self, decorrelation_steps: int, seeds: Sequence[int]) -> Iterator[None]:
        """Prepare the first rows of the first block by `decorrelate`; yields after each step of the environments."""
        self._anew[:], self._over[:] = True, False
        return decorrelate(self._env, self._row, decorrelation_steps, seeds)

    def void(self, row: Row) -> None:
        """Mark the rows of waiting environments as void. They are stepped with the others, but their game is over."""
        if not self._waits:
            return
        row.begin(self._over)
        self._over |= row.terminated | row.truncated

    def restart(self) -> None:
        """Begin the games that wait for the next block; called between two blocks, while the trainer learns."""
        if self._over.any():
            self._env.restart(self._over, self._row)
            self._anew |= self._over
            self._over[:] = False

    def begin(self, row: Row) -> None:
        """Write the first rows of new games to row 0 of a block. Other environments continue their games in it."""
        if self._anew.any():
            row.take(self._row, self._anew)
            self._anew[:] = False

    def begin_from(self, row: Row) -> None:
        """Make ``row`` the first row of the next block for all environments."""
        self._row.take(row, np.ones_like(self._anew))
        self._anew[:] = True

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the state for a snapshot: new games, their first rows, and waiting environments."""
        row = {column.name: getattr(self._row, column.name)[self._anew] for column in fields(self._row)}
        return {"anew": self._anew, "over": self._over, **row}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore a state; raises KeyError or ValueError if it does not fit."""
        self._anew[:], self._over[:] = state["anew"], state["over"]
        for column in fields(self._row):
            getattr(self._row, column.name)[self._anew] = state[column.name]


class EnvGroup:
    """The environments of one group. `advance` writes their next row to shared memory when that is possible."""

    def __init__(self, index: int, env: VectorEnv, blocks: Blocks, rollouts: Rollouts, reset: str = "inside") -> None:
        """Start before the first rollout; the trainer decides its number and writes it to the word ``joined``."""
        self.index = index
        self.env = env
        self.blocks = blocks
        self.rollouts = rollouts
        self.starts = GameStarts(env, reset)
        self.timestep = -1
        """Newest timestep for which an observation is written; -1 before the first."""
        self.between_rollouts = True
        """Whether the last rollout is complete, so that the group begins the next one when it is open."""
        self.saved_place: SavedPlace | None = None
        """Place in a snapshot from which the group still has to continue; None if there is none."""

    def advance(self) -> str:
        """Write one more row if that is possible, and return the result.

        =========  ==================================================================
        waiting    nothing was written: an action, a rollout or an admission is missing
        observed   a row with observations was written, and needs actions
        completed  the last row of a rollout was written
        left       the group takes part in no further rollout
        =========  ==================================================================
        """
        if self.saved_place is not None:
            return self.saved_place.resume(self)
        if self.between_rollouts:
            return self._begin_rollout()
        if self.blocks.acted(self.index) <= self.timestep:
            return "waiting"
        return self._step()

    def _begin_rollout(self) -> str:
        joined = self.blocks.joined
        if joined < 0:
            return "waiting"
        rollout = joined if self.timestep < 0 else (self.timestep + 1) // self.blocks.horizon
        if rollout >= self.blocks.left:
            return "left"
        self.starts.restart()
        if self.rollouts.open <= rollout:
            return "waiting"
        self.blocks.begin(self.index, rollout, first=self.timestep < 0)
        self.timestep = rollout * self.blocks.horizon
        self.starts.begin(self._row(self.timestep))
        self.between_rollouts = False
        self.blocks.mark_observed(self.index, self.timestep)
        return "observed"

    def _step(self) -> str:
        action = self.blocks.row("action", self.index, self.timestep)
        rollout, t = divmod(self.timestep, self.blocks.horizon)
        last = t + 1 == self.blocks.horizon
        row = self._last_row(rollout) if last else self._row(self.timestep + 1)
        self.env.step(action, row)
        self.starts.void(row)
        if last:
            self.between_rollouts = True
            self.blocks.mark_completed(self.index, rollout)
            return "completed"
        self.timestep += 1
        self.blocks.mark_observed(self.index, self.timestep)
        return "observed"

    def _row(self, timestep: int) -> Row:
        return Row(**{name: self.blocks.row(name, self.index, timestep) for name in ARRIVAL_COLUMNS})

    def _last_row(self, rollout: int) -> Row:
        return Row(**{name: self.blocks.last_row(name, self.index, rollout) for name in ARRIVAL_COLUMNS})


def decorrelate(env: VectorEnv, row: Row, most_steps: int, seeds: Sequence[int]) -> Iterator[None]:
    """Start every environment, and let it take from 0 to ``most_steps`` random actions.

    Without this, all environments reach the same part of the game at the same time, and the first batches have many
    rows of the same situation (Stooke & Abbeel 2018, section 5.3, where the seed is the clock).

    The number of actions and the actions are drawn uniformly, with ``seeds``; all agents of a game take the same
    number. Environments can only be stepped together. An environment with fewer actions is therefore restarted before
    its first one. At the end ``row`` has the newest row of each environment, and a game that has just ended is
    restarted. Yields after each step, so that the caller can give a sign of life.
    """
    random = np.random.default_rng(seeds)
    agents = env.spec.agents
    steps = random.integers(most_steps, size=env.count // agents, endpoint=True).repeat(agents)
    env.reset(row)
    for left in reversed(range(steps.max())):
        env.step(env.random_actions(random), row)
        _restart(env, steps == left, row)
        yield
    over, out = row.terminated | row.truncated, row.terminated | row.truncated | row.first
    ended = out.reshape(-1, agents).all(axis=1) & over.reshape(-1, agents).any(axis=1)
    _restart(env, ended.repeat(agents), row)


def _restart(env: VectorEnv, chosen: NDArray[np.bool_], row: Row) -> None:
    if chosen.any():
        env.restart(chosen, row)
