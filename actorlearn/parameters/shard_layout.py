"""Shards of central weights: the range of each, the parameter server that keeps it, and the layout of its memory.

Pure; never loads torch, because the supervisor computes this layout too.
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
"""Address of parameter servers in a run on one machine."""
ROW_WORDS = 8 + CARRIED_COUNTS
"""8-byte words of a shard's record of one learner (``shard_frames.LearnerRow``)."""
HEAD_WORDS = 4
"""Words of a shard's content before the records: whether it is filled, its version, and the two numbers of the base."""
SHARD_NUMBERS = 32 * 1024
"""Smallest size of a shard if a server has several, in numbers: 128 KiB in float32, about a millisecond on 1 Gbit/s."""
MOST_SHARDS = 16
"""Largest number of shards of a server without the statistics; more would shorten an exchange by 6 % at most."""
MOST_SCALARS = 64
"""Largest number of scalars in an optimizer's state, besides its vectors."""


@dataclass(frozen=True)
class Sharding:
    """Division of the flat vector into shards, and of the shards among parameter servers.

    Each server has an equal part of the parameters, divided into several shards if it is large. The gradient of a shard
    can then be received while the weights of the previous one are sent, so that a link is used in both directions at
    once. The exchange of a part in n shards takes 1 + 1/n times as long as sending it in one direction.
    """

    parameters: int
    statistics: int
    servers: int

    @property
    def shards_of_each(self) -> int:
        """Number of shards of each server, without the shard of statistics."""
        return min(max(self.parameters // (self.servers * SHARD_NUMBERS), 1), MOST_SHARDS)

    @property
    def statistics_shard(self) -> int:
        """Index of the shard of statistics, if there are statistics; the last server keeps it too."""
        return self.servers * self.shards_of_each

    @cached_property
    def spans(self) -> list[slice]:
        """Range of the flat vector of each shard: the parameters in equal parts, then the statistics."""
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
    """Return the fields of the segment of a shard with ``size`` weights and ``vectors`` optimizer vectors."""
    return [
        Field("commits", "int64", (8,), 0),
        Field("words", "int64", (SLOTS, HEAD_WORDS + learners * ROW_WORDS), 0),
        Field("scalars", "float64", (SLOTS, MOST_SCALARS), 0.0),
        Field("vectors", "float32", (SLOTS, 1 + vectors, size)),
    ]
