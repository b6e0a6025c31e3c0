"""The division of central weights into shards, and the layout of a shard in shared memory.

This module never loads torch, because the supervisor computes the layout too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from actorlearn.memory.fields import Field
from actorlearn.memory.record import SLOTS
from actorlearn.parameters.interface import CARRIED_COUNTS

ROLE = "parameter_server"
"""Name of the role of parameter servers."""
LOOPBACK = "127.0.0.1"
"""Address of parameter servers in a run on one machine."""
ROW_WORDS = 8 + CARRIED_COUNTS
"""Number of 8-byte integers with the counts of one learner (``shard_frames.LearnerRow``)."""
HEAD_WORDS = 4
"""Number of 8-byte integers before this table: whether the shard is filled, its version, and two counts."""
SHARD_NUMBERS = 32 * 1024
"""Smallest number of parameters in a shard if a server has several: 128 KiB, which take a millisecond at 1 Gbit/s."""
MOST_SHARDS = 16
"""Largest number of shards of parameters at a server. More shards would shorten an exchange by 6 % at most."""
MOST_SCALARS = 64
"""Largest number of scalars in an optimizer's state, besides its vectors."""


@dataclass(frozen=True)
class Sharding:
    """Divides the flat vector of weights into shards, and the shards among parameter servers.

    Each server has an equal part of the parameters. A large part is divided into several shards. The server can then
    receive the gradient of one shard while it sends the weights of the previous one, and so uses the network in both
    directions at once. With n shards, an exchange takes 1 + 1/n times as long as sending the part in one direction.
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
        """Number of the shard of statistics, if there are statistics; the last server keeps it."""
        return self.servers * self.shards_of_each

    @cached_property
    def spans(self) -> list[slice]:
        """Range of each shard in the flat vector: equal parts of the parameters, then the statistics."""
        shards = self.statistics_shard
        edges = [self.parameters * shard // shards for shard in range(shards + 1)]
        edges += [self.parameters + self.statistics] if self.statistics else []
        return [slice(start, stop) for start, stop in pairwise(edges)]

    def server_of(self, shard: int) -> int:
        """Return the number of the parameter server that keeps a shard."""
        return min(shard // self.shards_of_each, self.servers - 1)

    def first_of(self, server: int) -> int:
        """Return the number of the first shard of a server."""
        return server * self.shards_of_each


def shard_fields(size: int, vectors: int, learners: int) -> list[Field]:
    """Return the shared memory layout of a shard of ``size`` weights and ``vectors`` vectors of optimizer state."""
    return [
        Field("commits", "int64", (8,), 0),
        Field("words", "int64", (SLOTS, HEAD_WORDS + learners * ROW_WORDS), 0),
        Field("scalars", "float64", (SLOTS, MOST_SCALARS), 0.0),
        Field("vectors", "float32", (SLOTS, 1 + vectors, size)),
    ]
