"""Rows, rings and items of a replay buffer, and the layout of its shared memory.

A row is one time step of one environment: an observation, the reward and flags that came with it, and the action that
was then chosen. The rows of an environment are in a ring: when it is full, the newest row replaces the oldest. Row p of
a ring leads to row p + 1 unless row p + 1 has ``cut`` set. A row with ``cut`` is the first of a game, or the first of
an environment that is new to the ring. So

* a transition is two neighbouring rows;
* an n-step return uses the n following rows;
* an observation of k stacked frames consists of the frames of the k rows up to p, with zeros before the game's first
  row. ale-py pads in the same way, and a lost life does not change it.

The final observation of a game is also a row, but no transition begins there.

An item is what a minibatch draws: a transition (L = 1) or a sequence of L transitions, which begins at a position that
is a multiple of ``every``. It may continue over the end of a game, where the network's state begins at zero again, but
over no other cut. For recurrent networks the state before a row is stored too, for rows at which an item may begin.

======================  ==========================================================================================
positions               rows
======================  ==========================================================================================
``shown - size`` and    drawable, except the k - 1 oldest, whose stack is incomplete, and rows at a game's end; no
above                   item begins at the L - 1 + n newest, because its rows or their returns are not complete
``shown`` and above     added since the last flush, at most ``margin`` rows; not drawable yet
======================  ==========================================================================================

Positions count all rows that were written to a ring. The row at position p is in slot ``p % rows``. ``shown`` is the
position up to which rows have been flushed.
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
"""Names of the arrays that every replay stores for each time step."""
PRIORITIES = ("tree", "largest")
"""Names of the arrays of a prioritised sampler, which are shared memory so that they outlive a killed process."""


class ReplayShape(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers that determine the layout of a replay's shared memory."""

    rings: int
    """Number of rings: one for each environment."""
    size: int
    """Number of rows of a ring that can be drawn; the capacity of a replay is rings * size rows."""
    margin: int
    """Largest number of rows that an environment adds between two flushes: T + 1 for each rollout of T steps."""
    stack: int
    """Number of frames in an observation, of which only the newest is stored; 1: the whole observation is stored."""
    observation_shape: tuple[int, ...]
    observation_dtype: str
    actions: Actions
    prioritised: bool = False
    """Whether items are drawn by priorities, which are then part of the shared memory."""
    length: int = 1
    """L: number of rows of an item; 1: items are transitions."""
    every: int = 1
    """Distance, in rows, between the rows at which an item may begin."""
    state_size: int = 0
    """Length of a recurrent network's state, stored for rows at which an item may begin; 0: none is stored."""

    def __post_init__(self) -> None:
        if min(self.rings, self.size, self.margin, self.stack, self.length, self.every) < 1:
            raise ValueError(f"rings, size, margin, stack, length and every must be 1 or more: {self}")
        if self.stack > 1 and self.observation_shape[0] != self.stack:
            raise ValueError(
                f"observations of shape {list(self.observation_shape)} are not stacks of {self.stack} frames"
            )

    @property
    def rows(self) -> int:
        """Number of rows of a ring, including the margin.

        It is a multiple of ``every``, so that items always begin at the same slots.
        """
        return -(-(self.size + self.margin) // self.every) * self.every

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the arrays that `Replay.add` stores for each time step."""
        return (*COLUMNS, "state") if self.state_size else COLUMNS

    @property
    def frame_shape(self) -> tuple[int, ...]:
        """Shape of the part of an observation that is stored: one frame, or the whole observation if ``stack`` is 1."""
        return self.observation_shape[1:] if self.stack > 1 else self.observation_shape


def replay_fields(shape: ReplayShape) -> list[Field]:
    """Return the fields of a replay's segment; ``memory.shared.segment_bytes`` gives its size."""
    tree, largest = PRIORITIES
    cells = tree_bytes(shape.rings * shape.rows) // 8
    priorities = [Field(tree, "float64", (cells,), 0.0), Field(largest, "float64", (1,), 1.0)]
    return [
        *(priorities if shape.prioritised else []),
        *flushed_fields(shape.rings),
        Field("written", "int64", (shape.rings,), 0),  # positions below it have been written
        Field("begun", "int64", (1,), -1),  # environment steps of the run when the first row was written
        *column_fields(shape),
    ]


def column_fields(shape: ReplayShape) -> list[Field]:
    """Return the layout of the arrays of time steps, [rings, rows, …]; of states [rings, rows / every, size]."""
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
        Field("before", "uint8", rows, 0),  # number of rows of the same game before it, at most stack - 1
        Field("usable", "bool", rows, 0),  # its stack of frames is complete and, after a flush, its return
        *([Field("state", "float32", states, float("nan"))] if shape.state_size else []),
    ]


def replay_bytes(shape: ReplayShape) -> int:
    """Return the number of bytes of a replay: its shared memory, and the sampler's private memory."""
    return segment_bytes(replay_fields(shape)) + sampler_bytes(shape)


def sampler_bytes(shape: ReplayShape) -> int:
    """Return the number of bytes of a sampler's private memory: two lists of cells, or 0 for a prioritised sampler."""
    return 0 if shape.prioritised else 2 * 8 * shape.rings * shape.rows
