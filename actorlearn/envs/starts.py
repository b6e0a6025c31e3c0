"""Starts of games at the beginning of a block: all environments at a run's start, later those waiting for it.

Reads and writes rows; knows no blocks or rollouts. ``memory/rollout.py`` defines void rows.
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
    """The environments of a group that begin the next block anew: all at first, later those whose game has ended."""

    def __init__(self, env: VectorEnv, reset: str) -> None:
        """``reset``: a new game begins ``inside`` the block the last one ended in, or must ``wait`` for the next."""
        self._env = env
        self._waits = reset == "wait"
        self._row = empty_row(env.spec, env.count)
        """First rows of the environments that begin anew."""
        self._anew = np.ones(env.count, np.bool_)
        self._over = np.zeros(env.count, np.bool_)
        """[B] environments whose game has ended in this block, and whose next one waits."""

    def first(self, decorrelation_steps: int, seeds: Sequence[int]) -> Iterator[None]:
        """Bring all environments to where their first block begins; yields after each step of them."""
        self._anew[:], self._over[:] = True, False
        return decorrelate(self._env, self._row, decorrelation_steps, seeds)

    def void(self, row: Row) -> None:
        """Void the rows of environments whose game is over: all are stepped together, and these wait for a block."""
        if not self._waits:
            return
        row.reward[self._over] = 0.0
        for flag in (row.terminated, row.truncated, row.life_lost):
            flag[self._over] = False
        row.first[self._over] = True
        self._over |= row.terminated | row.truncated

    def restart(self) -> None:
        """Begin the games that wait. Called between blocks, while the trainer learns."""
        if self._over.any():
            self._env.restart(self._over, self._row)
            self._anew |= self._over
            self._over[:] = False

    def begin(self, row: Row) -> None:
        """Write those that begin anew into row 0 of a block; the others go on from the block before."""
        if self._anew.any():
            row.take(self._row, self._anew)
            self._anew[:] = False

    def stand(self, row: Row) -> None:
        """Make this row the first row of the next block for all environments."""
        self._row.take(row, np.ones_like(self._anew))
        self._anew[:] = True

    def state(self) -> dict[str, NDArray[Any]]:
        """Return which environments begin anew with their first rows, and which wait."""
        row = {column.name: getattr(self._row, column.name)[self._anew] for column in fields(self._row)}
        return {"anew": self._anew, "over": self._over, **row}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a state; raises KeyError or ValueError when it is of others."""
        self._anew[:], self._over[:] = state["anew"], state["over"]
        for column in fields(self._row):
            getattr(self._row, column.name)[self._anew] = state[column.name]
