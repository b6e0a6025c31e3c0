"""The environments of one group of a simulator: begins rollouts and games, steps, or continues from a snapshot.

Reads: the action column of the group's blocks; the shared words ``joined``, ``left``, ``open`` and ``acted``
(``memory/rollout.py``).
Writes: observation, raw reward and boundary columns; the words ``observed`` and ``completed``.
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
    """The environments of a group that begin a game with the next block, and their first rows."""

    def __init__(self, env: VectorEnv, reset: str) -> None:
        """``reset``: new games begin ``inside`` the block in which the last one ended, or ``wait`` for the next."""
        self._env = env
        self._waits = reset == "wait"
        self._row = empty_row(env.spec, env.count)
        """First rows of the environments that begin a game with the next block."""
        self._anew = np.ones(env.count, np.bool_)
        self._over = np.zeros(env.count, np.bool_)
        """[B] environments whose game has ended in this block and whose next game waits."""

    def first(self, decorrelation_steps: int, seeds: Sequence[int]) -> Iterator[None]:
        """Prepare the first rows of all environments' first block (``decorrelate``); yields after each step."""
        self._anew[:], self._over[:] = True, False
        return decorrelate(self._env, self._row, decorrelation_steps, seeds)

    def void(self, row: Row) -> None:
        """Make the rows of waiting environments void: they are stepped with the others, but their game is over."""
        if not self._waits:
            return
        row.begin(self._over)
        self._over |= row.terminated | row.truncated

    def restart(self) -> None:
        """Begin the waiting games; called between blocks, while the trainer learns."""
        if self._over.any():
            self._env.restart(self._over, self._row)
            self._anew |= self._over
            self._over[:] = False

    def begin(self, row: Row) -> None:
        """Write first rows to row 0 of a block; environments without a new game continue from the previous block."""
        if self._anew.any():
            row.take(self._row, self._anew)
            self._anew[:] = False

    def stand(self, row: Row) -> None:
        """Make this row the first row of the next block for all environments."""
        self._row.take(row, np.ones_like(self._anew))
        self._anew[:] = True

    def state(self) -> dict[str, NDArray[Any]]:
        """Return which environments begin a game with the next block, their first rows, and which environments wait."""
        row = {column.name: getattr(self._row, column.name)[self._anew] for column in fields(self._row)}
        return {"anew": self._anew, "over": self._over, **row}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore a state; raises KeyError or ValueError if it does not fit."""
        self._anew[:], self._over[:] = state["anew"], state["over"]
        for column in fields(self._row):
            getattr(self._row, column.name)[self._anew] = state[column.name]


class EnvGroup:
    """The environments of one group and their timestep; ``advance`` writes the next row when that is possible."""

    def __init__(self, index: int, env: VectorEnv, blocks: Blocks, rollouts: Rollouts, reset: str = "inside") -> None:
        """Start before the first rollout, whose number the trainer writes to the shared word ``joined``."""
        self.index = index
        self.env = env
        self.blocks = blocks
        self.rollouts = rollouts
        self.starts = GameStarts(env, reset)
        self.timestep = -1
        """Newest timestep whose observation is written; -1 before the first."""
        self.between_rollouts = True
        """Whether the group's next step is to begin a rollout, when that is open."""
        self.saved_place: SavedPlace | None = None
        """Place in a snapshot that the group still has to continue from; None if there is none."""

    def advance(self) -> str:
        """Write one more row if that is possible; returns "waiting", "observed", "completed" or "left"."""
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
    """Start every environment and let it take 0 to ``most_steps`` random actions: start-state decorrelation.

    Without it all environments reach the same part of the game at the same time, and the first batches have many rows
    of the same situation (Stooke & Abbeel 2018, section 5.3; their code seeds from the clock).

    The number and the actions are drawn uniformly, from ``seeds``; all agents of a game take the same number. Yields
    after each step, so that the caller can give a sign of life. All environments are stepped together, so those that
    take fewer steps are restarted when their steps begin. At the end ``row`` has the newest row of each environment; a
    game that has just ended is restarted.
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
