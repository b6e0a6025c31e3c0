"""The environments of one group of a simulator: begins rollouts, steps, and continues from a snapshot.

Reads: the action column of the group's blocks; the words ``joined``, ``left``, ``open`` and ``acted``.
Writes: observation, raw reward and boundary columns; the words ``observed`` and ``completed``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from actorlearn.envs.interface import Row, VectorEnv
from actorlearn.envs.starts import GameStarts
from actorlearn.failpoints import hit
from actorlearn.memory.rollout import ARRIVAL_COLUMNS, Blocks, Rollouts


class Group:
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


# Continuing from a snapshot (``processes/snapshots.py``) ------------------------------------------------------------


def row_key(group: int, offset: int, column: str) -> str:
    """Return the key of a column's rows in a rollout; ``offset``: of the rollout from the snapshot's first one."""
    return f"{group}.row.{offset}.{column}"


@dataclass
class Standing:
    """The place in time and the rows of a group in a snapshot, from which a group of a new process continues."""

    since: int
    """The rollout with which the rows begin: the next to learn when the snapshot was taken."""
    timestep: int
    between_rollouts: bool
    rows: Mapping[str, NDArray[Any]]
    """Written rows of each column and rollout, by ``row_key``."""
    answers_itself: bool
    """Whether the simulator has a policy of its own."""
    placed: bool = False

    def go_on(self, group: Group) -> str:
        """Continue a group from these rows as far as that is possible now; returns what ``Group.advance`` returns."""
        blocks = group.blocks
        if blocks.joined < 0:
            return "waiting"
        if blocks.joined != self.since:  # other simulators have continued without this one
            self._begin_anew(group)
            return "waiting"
        executed = self.timestep + self.between_rollouts  # actions of the timesteps below it have been carried out
        if not self.placed:
            self._place(group, everything=True)
            hit("standing.placed")
            if self.answers_itself:
                blocks.go_on_at(group.index, max(executed, self.since * blocks.horizon))
            group.timestep, group.between_rollouts, self.placed = self.timestep, self.between_rollouts, True
            if self.timestep >= self.since * blocks.horizon:
                blocks.mark_observed(group.index, self.timestep)
                return "waiting" if self.between_rollouts and self.answers_itself else "observed"
        if blocks.acted(group.index) < executed:
            return "waiting"
        self._place(group, everything=False)
        group.standing = None
        complete = range(self.since, executed // blocks.horizon)
        for rollout in complete:
            blocks.mark_completed(group.index, rollout)
        return "completed" if complete else "waiting"

    def _place(self, group: Group, everything: bool) -> None:
        """Write the rows to the blocks; without ``everything``, only the columns that inference writes."""
        for name in group.blocks.columns:
            if name in ARRIVAL_COLUMNS and not everything:
                continue
            for rollout in range(self.since - 1, self.timestep // group.blocks.horizon + 1):
                values = self.rows.get(row_key(group.index, rollout - self.since, name))
                if values is None:
                    continue
                block = group.blocks.block(name, group.index, rollout)
                if rollout < self.since:
                    block[group.blocks.horizon] = values[0]
                    continue
                # The newest row of an incomplete block has no action yet.
                unanswered = len(values) < len(block) and name not in (*ARRIVAL_COLUMNS, "state")
                values = values[: len(values) - unanswered]
                block[: len(values)] = values

    def _begin_anew(self, group: Group) -> None:
        """Have a group begin from the present state of its environments, with the rollout that it is admitted to."""
        last = self.timestep // group.blocks.horizon - self.since
        newest = {name: self.rows[row_key(group.index, last, name)][-1] for name in ARRIVAL_COLUMNS}
        group.starts.stand(Row(**newest))
        group.timestep, group.between_rollouts, group.standing = -1, True, None
