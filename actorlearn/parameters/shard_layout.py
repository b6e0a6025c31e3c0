"""Shards of central weights: which numbers each has, which parameter server keeps it, and the layout of its memory.

Pure; loads no torch, because the supervisor lays memory out too.
"""

from __future__ import annotations

from itertools import pairwise

from actorlearn.memory.fields import Field
from actorlearn.memory.record import SLOTS
from actorlearn.parameters.interface import CARRIED_COUNTS

ROLE = "parameter_server"
"""Role of parameter servers."""
LOOPBACK = "127.0.0.1"
"""Address at which those of a run on one machine are reached."""
ROW_WORDS = 8 + CARRIED_COUNTS
"""8-byte words in which a shard keeps what it knows of a learner (``shard_frames.Row``)."""
HEAD_WORDS = 4
"""Further words of its content: whether it is filled, its version, and the totals that the run began with."""
MOST_SCALARS = 64
"""Most numbers of an optimizer's state besides its vectors."""


def shard_spans(parameters: int, statistics: int, servers: int) -> list[slice]:
    """Return the range of the flat vector that each shard has: the parameters in equal parts, then the statistics.

    Statistics have a shard of their own, if there are any; the last server has that too.
    """
    edges = [parameters * server // servers for server in range(servers + 1)]
    edges += [parameters + statistics] if statistics else []
    return [slice(start, stop) for start, stop in pairwise(edges)]


def server_of(shard: int, servers: int) -> int:
    """Return the number of the parameter server that keeps a shard."""
    return min(shard, servers - 1)


def shard_fields(size: int, vectors: int, learners: int) -> list[Field]:
    """Return the fields of the segment of a shard of so many numbers, with so many optimizer vectors as long."""
    return [
        Field("commits", "int64", (8,), 0),
        Field("words", "int64", (SLOTS, HEAD_WORDS + learners * ROW_WORDS), 0),
        Field("scalars", "float64", (SLOTS, MOST_SCALARS), 0.0),
        Field("vectors", "float32", (SLOTS, 1 + vectors, size)),
    ]
