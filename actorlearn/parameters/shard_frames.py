"""Messages between learners and parameter servers, put into bytes.

Pure. A message is one frame: a header (SHARD), rows of the table of learners, learning rates, and numbers. A learner's
request has its own row; an answer has all rows. The numbers are a gradient, moments or weights, as float32 or bfloat16
(to the nearest, ties to even), or, where all of a shard's state travels, float32 and then a few float64.
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
"""Kinds of frames. A learner's: give me the weights; change them by this gradient or these moments, and give me them;
note my row (not answered); give me the whole state; fill your shard with mine, if it is empty. A server's: weights, the
whole state, and: the shard is empty."""

APPLIED, REPEATED, DROPPED, UNUSABLE = 0, -1, -2, -3
"""Outcomes of a change. APPLIED and above: applied, at this staleness; REPEATED: handled by an earlier request;
DROPPED: made for a version that is over; UNUSABLE: not finite."""

FLOAT32, BFLOAT16, FLOAT64 = range(3)
"""Forms of numbers on the wire."""
_DTYPES = {FLOAT32: torch.float32, BFLOAT16: torch.bfloat16, FLOAT64: torch.float64}
WIRES = {"float32": FLOAT32, "bfloat16": BFLOAT16}
"""Form of gradients and weights by the topology's word for it."""


class Row(NamedTuple):
    """Record of one learner at a shard, in ROW_WORDS words."""

    handled: int = -1
    """Number of its newest change that the shard has applied or dropped."""
    dropped: int = 0
    """Number of its changes that the shard has dropped."""
    told: int = 0
    """Number of times that the learner has written what follows, all incarnations together; 0 = never."""
    rollouts_learned: int = 0
    """Number of the rollout after those it has learned from."""
    used: int = 0
    """Its environment steps in the weights, in this run and before."""
    updates: int = 0
    """Updates it has made, one for each rollout."""
    began: int = 0
    """The part of ``used`` from before it joined first."""
    counts: tuple[int, ...] = ()
    """Further numbers of its minibatches' source (``interface.Carried.counts``)."""

    def words(self) -> list[int]:
        """Return the row as words."""
        *own, counts = self
        return [*own, len(counts), *counts, *[0] * (CARRIED_COUNTS - len(counts))]

    @classmethod
    def of(cls, words: Sequence[int]) -> Row:
        """Return the row that these words are."""
        fields = len(cls._fields) - 1
        return cls._make([*words[:fields], tuple(words[fields + 1 :][: words[fields]])])


Table = NDArray[np.int64]
"""Rows of learners, by number [learners, ROW_WORDS]."""
HANDLED, TOLD = Row._fields.index("handled"), Row._fields.index("told")


def new_table(learners: int) -> Table:
    """Return the table of learners of whom nothing is known."""
    return np.tile(np.array(Row().words(), np.int64), (learners, 1))


def hear(table: Table, said: Table, same_shard: bool = True) -> None:
    """Take what others know of learners into a table: of each the newest.

    ``same_shard``: whether both are of one shard, for each has handled changes of its own.
    """
    newer = said[:, TOLD] > table[:, TOLD]
    table[newer, TOLD:] = said[newer, TOLD:]
    if same_shard:
        table[:, :TOLD] = np.maximum(table[:, :TOLD], said[:, :TOLD])


class Frame(NamedTuple):
    """One message."""

    kind: int
    shard: int
    request: int = 0
    """Number of the request among those of one incarnation of a learner; its answer repeats it."""
    number: int = -1
    """Number of the change."""
    version: int = 0
    """Changes of the shard that its asker has seen, or, in an answer, that there were."""
    outcome: int = APPLIED
    base: tuple[int, int] = (0, 0)
    """Environment steps and updates of all learners with which the shard was filled first."""
    table: Table = new_table(0)
    """A learner's own row, or those of all [rows, ROW_WORDS]."""
    rates: tuple[float, ...] = ()
    """Learning rate of each parameter group."""
    values: Tensor = torch.empty(0)
    """Numbers, flat; of the whole state weights and then each optimizer vector."""
    scalars: tuple[float, ...] = ()
    """Other numbers of the optimizer's state."""
    wire: int = FLOAT32


def encode(run: bytes, frame: Frame) -> bytes:
    """Put a frame into bytes; ``run``: the run's 16 bytes."""
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


def decode(run: bytes, body: bytes) -> Frame | None:
    """Return the frame that these bytes are; None for bytes that are none, or of another run."""
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
    if not np.isin(table[:, len(Row._fields) - 1], range(CARRIED_COUNTS + 1)).all():
        return None
    numbers64 = np.frombuffer(body, np.float64, rates + scalars, SHARD.size + SHARD_ROW_BYTES * rows).tolist()
    values = torch.frombuffer(bytearray(body[start:]), dtype=_DTYPES[wire]) if len(body) > start else torch.empty(0)
    return Frame(
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
    """Return the size of the largest frame about a shard of so many numbers."""
    return SHARD.size + SHARD_ROW_BYTES * learners + 8 * (groups + scalars) + max(4 * (1 + vectors), 8) * size
