"""Shards in shared memory, where they outlive the process that changes them.

Reads and writes one segment for each shard. The parameter server makes it, and it is removed with the other segments of
the run. Of two slots, one is written while the other stays valid, so a server that is killed during a write has changed
nothing.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import torch

from actorlearn.address import Shm
from actorlearn.memory.fields import Field
from actorlearn.memory.record import CommittedRecord
from actorlearn.memory.shared import Segment, SegmentError
from actorlearn.parameters.shard import Content


class ShardMemory:
    """The memory of one shard."""

    def __init__(self, address: Shm, fields: list[Field]) -> None:
        """Open the segment, or make it if it does not exist; raises SharedMemoryFull."""
        self._segment = _open(address, fields)
        own = self._segment
        self._record = CommittedRecord(own["commits"], own["words"], own["scalars"], own["vectors"])

    def load(self, scalars: int) -> Content | None:
        """Return the newest content, with ``scalars`` scalars of the optimizer; None if nothing was kept yet."""
        if not self._record.commits:
            return None
        words, numbers, vectors = self._record.now
        return Content(words.copy(), numbers[:scalars].copy(), [torch.from_numpy(vector.copy()) for vector in vectors])

    def keep(self, content: Content) -> None:
        """Replace the content atomically."""
        _, _, spare = self._record.before
        for row, vector in zip(spare, content.vectors, strict=True):
            row[:] = vector.numpy()
        self._record.replace(content.words, content.scalars, np.empty((0, spare.shape[1]), np.float32))

    def close(self) -> None:
        """Unmap the segment, which stays."""
        self._segment.close()


def _open(address: Shm, fields: list[Field]) -> Segment:
    with suppress(FileNotFoundError):
        try:
            return Segment.open(address.file)
        except SegmentError:  # its maker was killed before it was complete, so it has no content
            address.file.unlink()
    return Segment.create(address.file, fields)
