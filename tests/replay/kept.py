"""A slow replay: a list of all rows that each ring was ever given. Says which items can be drawn, and what is in them.

Which environment has which ring is worked out as the replay does (``replay/rings.py``); all else from the blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from actorlearn.replay.buffer import Replay, Sample
from actorlearn.replay.rings import OWNER_BYTES, Rings


@dataclass
class Kept:
    """A row, as a block had it."""

    observation: np.ndarray
    action: int
    state: np.ndarray
    """Before the row; zeros where a game begins."""
    first: bool
    over: bool
    joined: bool
    """The row before leads here."""


class Rows:
    """All rows of all rings, from the beginning."""

    def __init__(self, replay: Replay) -> None:
        self.replay, self.shape = replay, replay.shape
        self.rings: list[list[Kept]] = [[] for _ in range(self.shape.rings)]
        self.places = Rings(np.zeros(self.shape.rings, f"S{OWNER_BYTES}"), np.zeros(self.shape.rings, np.int64))
        self.newest: dict[int, tuple[str, int]] = {}
        """Ring -> owner and number of the rollout stored last."""
        self.shown = [0] * self.shape.rings

    def add(self, owner: str, rollout: int, block: dict[str, np.ndarray]) -> None:
        """Take the block that the replay has been given just now."""
        placement = self.places.place(owner, rollout, block["first"].shape[1])
        assert placement
        for b, ring in enumerate(placement.rings.tolist()):
            follows = self.newest.get(ring) == (owner, rollout - 1)
            self.newest[ring] = owner, rollout
            column = {name: array[:, b] for name, array in block.items()}
            for t in range(len(column["first"])):
                self._add(self.rings[ring], column, t, follows)

    def leave_to(self, owners: list[str]) -> None:
        self.places.leave_to(owners)

    def _add(self, rows: list[Kept], column: dict[str, np.ndarray], t: int, follows: bool) -> None:
        first, end = bool(column["first"][t]), t == len(column["first"]) - 1
        if t == 0 and follows and not first:
            assert np.array_equal(rows[-1].observation, column["observation"][0])
            rows[-1].action = int(column["action"][0])
            return
        if t == 0 and follows and rows[-1].first:  # void, or this same row
            rows.pop()
        if first and not end and column["first"][t + 1]:
            return  # void
        rows.append(
            Kept(
                observation=column["observation"][t].copy(),
                action=int(column["action"][t]),
                state=np.where(first, 0, column["state"][t]),
                first=first,
                over=bool(column["terminated"][t] | column["truncated"][t]),
                joined=t > 0 and not first,
            )
        )

    def flush(self) -> None:
        self.shown = [len(rows) for rows in self.rings]

    def items(self) -> set[tuple[int, int]]:
        """Ring and position of the first row of every item that can be drawn."""
        found = set()
        for ring, shown in enumerate(self.shown):
            last = shown - (self.shape.length - 1) - self.replay.settings.n_step
            found |= {
                (ring, p)
                for p in range(self._oldest(shown), last)
                if p % self.shape.every == 0 and self._begins(ring, p)
            }
        return found

    def transitions(self) -> int:
        """How many transitions are stored with their returns, whether or not an item begins there."""
        steps = self.replay.settings.n_step
        places = [(ring, p) for ring, shown in enumerate(self.shown) for p in range(self._oldest(shown), shown - steps)]
        return sum(self.valid(ring, p) for ring, p in places)

    def _oldest(self, shown: int) -> int:
        forgotten = shown - self.shape.size
        return forgotten + self.shape.stack - 1 if forgotten > 0 else 0

    def _begins(self, ring: int, p: int) -> bool:
        rows = self.rings[ring]
        rest = range(p + 1, p + self.shape.length)
        return self.valid(ring, p) and all(self.valid(ring, q) or (rows[q].over and rows[q].joined) for q in rest)

    def valid(self, ring: int, p: int) -> bool:
        """Whether a transition begins there whose stack and return are known."""
        rows = self.rings[ring]
        if not self.stack_known(ring, p):
            return False
        for row in rows[p + 1 : p + 1 + self.replay.settings.n_step]:
            if not row.joined:
                return False
            if row.over:
                return True
        return True

    def stack_known(self, ring: int, p: int) -> bool:
        for back in range(self.shape.stack):
            row = self.rings[ring][p - back]
            if row.first or back == self.shape.stack - 1:
                return True
            if not row.joined:
                return False
        raise AssertionError("a stack has a first frame")

    def compare(self, sample: Sample) -> None:
        """Hold each row of each item against the rows kept; returns are held against whole games elsewhere.

        Rows that no return reaches show nothing.
        """
        for b, (cell, position) in enumerate(zip(sample.cell.tolist(), sample.position.tolist(), strict=True)):
            ring = cell // self.shape.rows
            rows = self.rings[ring][position : position + len(sample.first)]
            assert np.array_equal(sample.state[b], rows[0].state)
            assert not sample.first[0, b]
            for t, row in enumerate(rows[: 1 if self.shape.length == 1 else None]):
                if not all(between.joined for between in rows[self.shape.length : t + 1]):
                    assert not sample.observation[t, b].any()
                elif self.stack_known(ring, position + t):
                    assert np.array_equal(sample.observation[t, b], row.observation)
                assert t == 0 or sample.first[t, b] == (not row.joined)
                if t < self.shape.length:
                    assert sample.valid[t, b] == self.valid(ring, position + t)
                    assert sample.action[t, b] == row.action
