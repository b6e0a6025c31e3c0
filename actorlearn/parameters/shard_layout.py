"""Shards of central weights: which numbers each has, which parameter server keeps it, and the layout of its memory.

Pure; loads no torch, because the supervisor lays memory out too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
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
SHARD_NUMBERS = 32 * 1024
"""Least numbers of a shard where a server has several: 128 KiB in float32, about a millisecond on 1 Gbit/s."""
MOST_SHARDS = 16
"""Most shards of a server, those of statistics not counted; more would shorten an exchange by 6 % at most."""
MOST_SCALARS = 64
"""Most numbers of an optimizer's state besides its vectors."""


@dataclass(frozen=True)
class Sharding:
    """Division of the flat vector into shards, and of these among parameter servers.

    Each server has an equal part of the parameters, in several shards where it is large: while one is on its way back,
    the gradient of the next comes in, so that a link is used in both directions at once. A part in n shards takes
    1 + 1/n times as long as in one direction alone, and in one shard twice as long.
    """

    parameters: int
    statistics: int
    servers: int

    @property
    def shards_of_each(self) -> int:
        """Number of shards of each server, those of statistics not counted."""
        return min(max(self.parameters // (self.servers * SHARD_NUMBERS), 1), MOST_SHARDS)

    @property
    def statistics_shard(self) -> int:
        """Number of the shard that statistics have of their own, if there are any; the last server has that too."""
        return self.servers * self.shards_of_each

    @cached_property
    def spans(self) -> list[slice]:
        """Range of the flat vector that each shard has: the parameters in equal parts, then the statistics."""
        shards = self.statistics_shard
        edges = [self.parameters * shard // shards for shard in range(shards + 1)]
        edges += [self.parameters + self.statistics] if self.statistics else []
        return [slice(start, stop) for start, stop in pairwise(edges)]

    def server_of(self, shard: int) -> int:
        """Return the number of the parameter server that keeps a shard."""
        return min(shard // self.shards_of_each, self.servers - 1)

    def first_of(self, server: int) -> int:
        """Return the first shard of a server."""
        return server * self.shards_of_each


def shard_fields(size: int, vectors: int, learners: int) -> list[Field]:
    """Return the fields of the segment of a shard of so many numbers, with so many optimizer vectors as long."""
    return [
        Field("commits", "int64", (8,), 0),
        Field("words", "int64", (SLOTS, HEAD_WORDS + learners * ROW_WORDS), 0),
        Field("scalars", "float64", (SLOTS, MOST_SCALARS), 0.0),
        Field("vectors", "float32", (SLOTS, 1 + vectors, size)),
    ]
