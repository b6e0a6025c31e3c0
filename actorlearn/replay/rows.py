"""Rows of a replay: the columns of a row, and the length of rings. Memory is poisoned until it is written.

A row is a row of a block (``memory/rollout.py``): an observation, the outcome of arriving there, the action chosen from
it. Row p of a ring leads to row p + 1 unless that is ``cut`` off: a game's first, or the first row of an environment
that is new to the ring. So a transition is two neighbouring rows, an n-step return the n rows that follow, and a stack
of k frames the k rows up to p, with zeros for those before the game's first row (as ale-py pads; a lost life changes
nothing there). A game's final observation is a row like any other, from which no transition leads.

An item, which is what is drawn, is L neighbouring rows and begins at every ``every``-th row; L = 1 is a transition. It
may reach over the ends of games, where its rows begin without memories, but over no other cut. For networks with
memory the state before a row is stored too, of rows at which an item may begin.

======================  ==========================================================================================
``shown - size`` and    rows that are drawn, but for the k - 1 oldest, whose stack is lost, and those of a game's end;
above                   no item begins at the L - 1 + n newest, as its rows or their returns are not there yet
``shown`` and above     rows added since the last flush, at most ``margin``; not drawn yet
======================  ==========================================================================================

Positions count all rows that a ring was ever given; position p lies in slot ``p % rows``.
"""

from __future__ import annotations

import msgspec

from actorlearn.actions import Actions
from actorlearn.memory.fields import Field
from actorlearn.memory.rollout import action_field
from actorlearn.memory.shared import segment_bytes
from actorlearn.replay.flushed import flushed_fields
from actorlearn.replay.sum_tree import tree_bytes

COLUMNS = ("observation", "action", "reward", "terminated", "truncated", "life_lost", "first")
"""Columns of a block that every replay stores."""
PRIORITIES = ("tree", "largest")
"""Fields of the segment for a prioritised sampler's memory, so that priorities outlive a process that is killed."""


class ReplayShape(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers that determine the layout of a replay's segment."""

    rings: int
    """Environments that store at the same time."""
    size: int
    """Rows of a ring that are drawn from; a replay's capacity is rings * size rows."""
    margin: int
    """Most rows that an environment adds between two flushes: T + 1 for each rollout of T steps."""
    stack: int
    """Frames of an observation, oldest first, of which the newest is stored; 1 = the whole observation is stored."""
    observation_shape: tuple[int, ...]
    observation_dtype: str
    actions: Actions
    prioritised: bool = False
    """Whether the sampler's memory is part of the segment."""
    length: int = 1
    """Rows of an item, L; 1 = items are transitions."""
    every: int = 1
    """Rows from one at which an item may begin to the next."""
    state_size: int = 0
    """Numbers in a recurrent network's state, stored for rows at which an item may begin; 0 = none is stored."""

    def __post_init__(self) -> None:
        """Refuse numbers for which no ring can be laid out."""
        if min(self.rings, self.size, self.margin, self.stack, self.length, self.every) < 1:
            raise ValueError(f"rings, size, margin, stack, length and every must be 1 or more: {self}")
        if self.stack > 1 and self.observation_shape[0] != self.stack:
            raise ValueError(f"observations {list(self.observation_shape)} are no stacks of {self.stack} frames")

    @property
    def rows(self) -> int:
        """Rows of a ring, margin included: a multiple of ``every``, so that items begin at the same slots each time."""
        return -(-(self.size + self.margin) // self.every) * self.every

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of a block that `Replay.add` reads."""
        return (*COLUMNS, "state") if self.state_size else COLUMNS

    @property
    def frame_shape(self) -> tuple[int, ...]:
        """Shape of the stored part of an observation."""
        return self.observation_shape[1:] if self.stack > 1 else self.observation_shape


def replay_fields(shape: ReplayShape) -> list[Field]:
    """Return the fields of a replay's segment; ``memory.shared.segment_bytes`` gives its size."""
    tree, largest = PRIORITIES
    cells = tree_bytes(shape.rings * shape.rows) // 8
    priorities = [Field(tree, "float64", (cells,), 0.0), Field(largest, "float64", (1,), 1.0)]
    return [
        *(priorities if shape.prioritised else []),
        *flushed_fields(shape.rings),
        Field("written", "int64", (shape.rings,), 0),  # positions below it are written
        Field("begun", "int64", (1,), -1),  # environment steps of the run when the first row was written
        *column_fields(shape),
    ]


def column_fields(shape: ReplayShape) -> list[Field]:
    """Return those fields that are columns: [rings, rows, …], and of states [rings, rows / every, size]."""
    rows = (shape.rings, shape.rows)
    states = (shape.rings, shape.rows // shape.every, shape.state_size)
    poison = 0xA5 if shape.observation_dtype == "uint8" else float("nan")
    return [
        Field("frame", shape.observation_dtype, (*rows, *shape.frame_shape), poison),
        action_field(shape.actions, rows),
        Field("reward", "float32", rows, float("nan")),
        Field("terminated", "bool", rows, 1),
        Field("truncated", "bool", rows, 1),
        Field("life_lost", "bool", rows, 1),
        Field("cut", "bool", rows, 1),
        Field("before", "uint8", rows, 0),  # rows of the same game before it, as many as a stack needs
        Field("usable", "bool", rows, 0),  # its stack is known; from flush on: and its return is
        *([Field("state", "float32", states, float("nan"))] if shape.state_size else []),
    ]


def replay_bytes(shape: ReplayShape) -> int:
    """Return the bytes of a whole replay: its segment and the sampler's private memory."""
    return segment_bytes(replay_fields(shape)) + sampler_bytes(shape)


def sampler_bytes(shape: ReplayShape) -> int:
    """Return the bytes of a sampler's private memory: a uniform one's two lists of cells; priorities are shared."""
    return 0 if shape.prioritised else 2 * 8 * shape.rings * shape.rows
