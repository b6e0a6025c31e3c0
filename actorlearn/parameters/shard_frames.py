"""The messages between learners and parameter servers, and their encoding as bytes.

A message is one frame, which consists of a header (`frame_headers.SHARD`), rows of the table of learners, learning
rates, scalars of the optimizer's state, and values. A request has the row of its learner, and an answer the rows of all
learners. Values are a gradient or weights as float32 or bfloat16 (rounded to nearest, ties to even), moments as
float64, or the vectors of a shard's whole state as float32.
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

PULL, CHANGE, ROW, PULL_STATE, FILL, WEIGHTS, STATE, EMPTY = range(8)
"""Kinds of frames.

==========  ========  =============================================================================================
PULL        learner   asks for the weights
CHANGE      learner   asks the server to change the weights by a gradient or moments, and for the new weights
ROW         learner   sends the learner's row; it is not answered
PULL_STATE  learner   asks for weights and optimizer state
FILL        learner   offers weights and optimizer state to an empty shard
WEIGHTS     server    answers with the weights
STATE       server    answers with weights and optimizer state
EMPTY       server    answers that the shard is empty
==========  ========  =============================================================================================
"""

APPLIED, REPEATED, DROPPED, UNUSABLE = 0, -1, -2, -3
"""Outcomes of a change.

========  ==========================================================================================================
APPLIED   applied; a larger number is its staleness
REPEATED  not applied again, because an earlier request had the same change
DROPPED   not applied, because it was computed with an older version of the weights, and there is a quorum
UNUSABLE  not applied, because it is not finite
========  ==========================================================================================================
"""

FLOAT32, BFLOAT16, FLOAT64 = range(3)
"""Number types of values in a frame."""
_DTYPES = {FLOAT32: torch.float32, BFLOAT16: torch.bfloat16, FLOAT64: torch.float64}
_LARGEST_FLOAT = torch.finfo(torch.float32).max
WIRES = {"float32": FLOAT32, "bfloat16": BFLOAT16}
"""Number type of gradients and weights, by the value of ``parameter_servers.wire``."""


class LearnerRow(NamedTuple):
    """Counts of one learner, as a parameter server and the other learners know them; stored as ROW_WORDS integers."""

    handled: int = -1
    """Number of the learner's newest gradient that the shard has processed, even if it was not applied."""
    dropped: int = 0
    """Number of the learner's gradients that the shard has dropped."""
    written: int = 0
    """Number of times that the learner has written the fields below, also before restarts; 0 = never."""
    rollouts_learned: int = 0
    """Number of the next rollout from which the learner learns."""
    used: int = 0
    """Number of the learner's environment steps that the weights have learned from, also before this run."""
    updates: int = 0
    """Number of updates that the learner has made since it ``began``, one for each rollout."""
    began: int = 0
    """Value of ``used`` when the learner first joined, or found that a shard was filled from a newer checkpoint."""
    counts: tuple[int, ...] = ()
    """Counts of the learner's source of minibatches (``interface.Carried.counts``)."""

    def words(self) -> list[int]:
        """Return the counts as ROW_WORDS integers."""
        *fields, counts = self
        return [*fields, len(counts), *counts, *[0] * (CARRIED_COUNTS - len(counts))]

    @classmethod
    def of(cls, words: Sequence[int]) -> LearnerRow:
        """Return the counts that `words` has converted to these integers."""
        fields = len(cls._fields) - 1
        return cls._make([*words[:fields], tuple(words[fields + 1 :][: words[fields]])])


Table = NDArray[np.int64]
"""Counts (`LearnerRow`) of all learners as integers, [learners, ROW_WORDS]."""
HANDLED, WRITTEN = LearnerRow._fields.index("handled"), LearnerRow._fields.index("written")


def new_table(learners: int) -> Table:
    """Return a table of counts (`LearnerRow`) for this many learners, without any learner's counts."""
    return np.tile(np.array(LearnerRow().words(), np.int64), (learners, 1))


def take_newer(table: Table, others: Table, same_shard: bool = True) -> None:
    """Copy the counts of those learners to ``table`` for which ``others`` has newer ones.

    If the tables belong to different shards, the fields ``handled`` and ``dropped`` are not copied.
    """
    newer = others[:, WRITTEN] > table[:, WRITTEN]
    table[newer, WRITTEN:] = others[newer, WRITTEN:]
    if same_shard:
        table[:, :WRITTEN] = np.maximum(table[:, :WRITTEN], others[:, :WRITTEN])


class ShardFrame(NamedTuple):
    """One message between a learner and a parameter server."""

    kind: int
    shard: int
    """Number of the shard."""
    request: int = 0
    """Number of the request, counted by the learner's process; the answer has the same number."""
    number: int = -1
    """Number of the gradient or moments (`Position.first_change`)."""
    version: int = 0
    """Version of the shard's weights: in a request, the one that the learner has; in an answer, the current one."""
    outcome: int = APPLIED
    """In the answer to a gradient or moments, what the server did with them."""
    base: tuple[int, int] = (0, 0)
    """Environment steps and updates of all learners in the checkpoint from which the shard was filled, as the sender
    knows them. The rows of ``table`` count from these."""
    table: Table = new_table(0)
    """In a request, the counts of its learner; in an answer, those of all learners; [rows, ROW_WORDS]."""
    rates: tuple[float, ...] = ()
    """Learning rate of each parameter group."""
    values: Tensor = torch.empty(0)
    """Flat vector: a gradient, moments, or weights; for the whole state, weights and then each optimizer vector."""
    scalars: tuple[float, ...] = ()
    """Scalars of the optimizer's state."""
    wire: int = FLOAT32
    """Number type of ``values`` in the encoded frame."""


def encode(run: bytes, frame: ShardFrame) -> bytes:
    """Return the bytes of a message; ``run`` is the run's id of 16 bytes."""
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
    """Return the message in these bytes; None if they are no valid message of this run."""
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
    if not all(0.0 <= rate <= _LARGEST_FLOAT for rate in numbers64[:rates]):  # false also for NaN
        return None
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
    """Return the size in bytes of the largest message for a shard with ``size`` weights."""
    return SHARD.size + SHARD_ROW_BYTES * learners + 8 * (groups + scalars) + max(4 * (1 + vectors), 8) * size
