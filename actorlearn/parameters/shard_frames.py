"""Encoding of the messages between learners and parameter servers.

Pure. A message is one frame: a header (SHARD), rows of the table of learners, learning rates, scalars of the
optimizer's state, and values. A request has its learner's row; an answer has all rows. Values are a gradient or
weights, as float32 or bfloat16 (rounded to nearest, ties to even), moments as float64, or the vectors of a shard's
whole state as float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from actorlearn.parameters.frame_headers import SHARD, SHARD_ROW_BYTES
from actorlearn.parameters.interface import CARRIED_COUNTS
from actorlearn.parameters.shard_layout import ROW_WORDS

PULL, CHANGE, TELL, PULL_STATE, FILL, WEIGHTS, STATE, EMPTY = range(8)
"""Kinds of frames. Of a learner: PULL asks for the weights. CHANGE asks to change them by a gradient or moments, and
for the new weights. TELL sends the learner's row, and is not answered. PULL_STATE asks for the whole state. FILL offers
a state to an empty shard. Of a server: WEIGHTS and STATE are answers; EMPTY says that the shard is empty."""

APPLIED, REPEATED, DROPPED, UNUSABLE = 0, -1, -2, -3
"""Outcomes of a change. APPLIED or greater: applied, with this staleness. REPEATED: handled in an earlier request.
DROPPED: computed for an older version, with a quorum. UNUSABLE: not finite."""

FLOAT32, BFLOAT16, FLOAT64 = range(3)
"""Number types of values in a frame."""
_DTYPES = {FLOAT32: torch.float32, BFLOAT16: torch.bfloat16, FLOAT64: torch.float64}
WIRES = {"float32": FLOAT32, "bfloat16": BFLOAT16}
"""Number type of gradients and weights, by the value of ``parameter_servers.wire``."""


class LearnerRow(NamedTuple):
    """Record of one learner at a shard, in ROW_WORDS words."""

    handled: int = -1
    """Number of the learner's newest change that the shard has handled: applied, dropped or found unusable."""
    dropped: int = 0
    """Number of the learner's changes that the shard has dropped."""
    told: int = 0
    """Number of times that the learner, in all its incarnations, has written the fields below; 0 = never."""
    rollouts_learned: int = 0
    """Number of the rollout after those that the learner has learned from."""
    used: int = 0
    """The learner's environment steps in the weights, including those before this run."""
    updates: int = 0
    """Updates that the learner has made, one for each rollout."""
    began: int = 0
    """The part of ``used`` from before the learner first joined."""
    counts: tuple[int, ...] = ()
    """Further numbers of the learner's source of minibatches (``interface.Carried.counts``)."""

    def words(self) -> list[int]:
        """Return the row as words."""
        *own, counts = self
        return [*own, len(counts), *counts, *[0] * (CARRIED_COUNTS - len(counts))]

    @classmethod
    def of(cls, words: Sequence[int]) -> LearnerRow:
        """Return the row in these words."""
        fields = len(cls._fields) - 1
        return cls._make([*words[:fields], tuple(words[fields + 1 :][: words[fields]])])


Table = NDArray[np.int64]
"""Rows of learners as words, by learner number [learners, ROW_WORDS]."""
HANDLED, TOLD = LearnerRow._fields.index("handled"), LearnerRow._fields.index("told")


def new_table(learners: int) -> Table:
    """Return a table of empty rows."""
    return np.tile(np.array(LearnerRow().words(), np.int64), (learners, 1))


def hear(table: Table, said: Table, same_shard: bool = True) -> None:
    """Update ``table`` with the rows of ``said`` that are newer.

    ``same_shard``: whether both tables are of one shard; if not, the handled and dropped changes are not updated.
    """
    newer = said[:, TOLD] > table[:, TOLD]
    table[newer, TOLD:] = said[newer, TOLD:]
    if same_shard:
        table[:, :TOLD] = np.maximum(table[:, :TOLD], said[:, :TOLD])


class ShardFrame(NamedTuple):
    """One message."""

    kind: int
    shard: int
    request: int = 0
    """Number of the request, counted by an incarnation of a learner; the answer has the same number."""
    number: int = -1
    """Number of the change."""
    version: int = 0
    """Version of the shard's weights: in a request, the one that the learner has; in an answer, the current one."""
    outcome: int = APPLIED
    base: tuple[int, int] = (0, 0)
    """Environment steps and updates of all learners with which the shard was filled first."""
    table: Table = new_table(0)
    """The learner's own row, or all rows [rows, ROW_WORDS]."""
    rates: tuple[float, ...] = ()
    """Learning rate of each parameter group."""
    values: Tensor = torch.empty(0)
    """Flat values; for the whole state the weights and then each optimizer vector."""
    scalars: tuple[float, ...] = ()
    """Scalars of the optimizer's state."""
    wire: int = FLOAT32


def encode(run: bytes, frame: ShardFrame) -> bytes:
    """Return the bytes of a frame; ``run``: the run's 16 bytes."""
    table, rates, scalars = frame.table, np.array(frame.rates, np.float64), np.array(frame.scalars, np.float64)
    head = SHARD.pack(
        run,
        frame.kind,
        frame.wire,
        frame.shard,
        len(table),
        len(rates),
        len(scalars),
        frame.request,
        frame.number,
        frame.version,
        frame.outcome,
        *frame.base,
    )
    values = frame.values.detach().to("cpu", _DTYPES[frame.wire]).contiguous().view(torch.uint8).numpy()
    return b"".join((head, table.tobytes(), rates.tobytes(), scalars.tobytes(), values.data))


def decode(run: bytes, body: bytes) -> ShardFrame | None:
    """Return the frame in these bytes; None if they are no valid frame of this run."""
    head = SHARD.unpack(run, body)
    if head is None:
        return None
    kind, wire, shard, rows, rates, scalars, request, number, version, outcome, *base = head
    if kind > EMPTY or wire not in _DTYPES:
        return None
    start = SHARD.size + SHARD_ROW_BYTES * rows + 8 * (rates + scalars)
    size = _DTYPES[wire].itemsize
    if len(body) < start or (len(body) - start) % size:
        return None
    table = np.frombuffer(body, np.int64, rows * ROW_WORDS, SHARD.size).reshape(rows, ROW_WORDS)
    if not np.isin(table[:, len(LearnerRow._fields) - 1], range(CARRIED_COUNTS + 1)).all():
        return None
    numbers64 = np.frombuffer(body, np.float64, rates + scalars, SHARD.size + SHARD_ROW_BYTES * rows).tolist()
    values = torch.frombuffer(bytearray(body[start:]), dtype=_DTYPES[wire]) if len(body) > start else torch.empty(0)
    return ShardFrame(
        kind,
        shard,
        request,
        number,
        version,
        outcome,
        (base[0], base[1]),
        table,
        tuple(numbers64[:rates]),
        values if wire == FLOAT64 else values.float(),
        tuple(numbers64[rates:]),
        wire,
    )


def most_bytes(size: int, vectors: int, learners: int, groups: int, scalars: int) -> int:
    """Return the size in bytes of the largest frame about a shard with ``size`` weights."""
    return SHARD.size + SHARD_ROW_BYTES * learners + 8 * (groups + scalars) + max(4 * (1 + vectors), 8) * size
