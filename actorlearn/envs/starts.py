"""Starts of games at the beginning of a block: of all environments at first, later of those that wait for a block.

Reads and writes rows; does not depend on blocks or rollouts. ``memory/rollout.py`` defines void rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actorlearn.envs.decorrelation import decorrelate
from actorlearn.envs.interface import Row, VectorEnv, empty_row


class GameStarts:
    """The environments of a group that begin a game with the next block, and their first rows."""

    def __init__(self, env: VectorEnv, reset: str) -> None:
        """``reset``: a new game begins ``inside`` the block in which the previous game ended, or must ``wait``."""
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
        row.reward[self._over] = 0.0
        for flag in (row.terminated, row.truncated, row.life_lost):
            flag[self._over] = False
        row.first[self._over] = True
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
