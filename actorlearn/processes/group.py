"""The environments of one group of a simulator: begins rollouts, steps, or continues from a snapshot.

Reads: the action column of the group's blocks; the words ``joined``, ``left``, ``open`` and ``acted``.
Writes: observation, raw reward and boundary columns; the words ``observed`` and ``completed``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actorlearn.envs.interface import Row, VectorEnv
from actorlearn.envs.starts import GameStarts
from actorlearn.memory.rollout import ARRIVAL_COLUMNS, Blocks, Rollouts

if TYPE_CHECKING:
    from actorlearn.processes.snapshots import Standing


class EnvGroup:
    """The environments of one group and their timestep; ``advance`` writes the next row when that is possible."""

    def __init__(self, index: int, env: VectorEnv, blocks: Blocks, rollouts: Rollouts, reset: str = "inside") -> None:
        """Start before the first rollout, which the trainer sets with the word ``joined``."""
        self.index = index
        self.env = env
        self.blocks = blocks
        self.rollouts = rollouts
        self.starts = GameStarts(env, reset)
        self.timestep = -1
        """Newest timestep whose observation is written; -1 before the first."""
        self.between_rollouts = True
        """Whether the group begins a rollout next, when that is open."""
        self.standing: Standing | None = None
        """Snapshot that the group still has to continue from; None if there is none."""

    def advance(self) -> str:
        """Write one more row if that is possible; returns waiting, observed, completed or left."""
        if self.standing is not None:
            return self.standing.go_on(self)
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
