"""All-gather of vectors among learners in lock-step, over shared memory: one row per learner.

Reads all rows of one segment and writes this learner's row; does not interpret their content. A learner comes to a
meeting (``parameters/rendezvous.py``) after its last write, so after the meeting all rows are complete. The row of a
writer that was killed earlier is never read, and a complete row stays complete when its writer dies. Therefore either
all living learners get the rows of a meeting, or none does.

Two slots are enough: before a learner writes to a slot again, all learners have come to the next meeting, and so have
finished reading the slot.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from actorlearn.memory.fields import CACHE_LINE_BYTES, Field
from actorlearn.memory.shared import Segment
from actorlearn.parameters.consumed import CONSUMED_WORDS
from actorlearn.parameters.rendezvous import Rendezvous

SLOTS = 2
_FLOATS = CACHE_LINE_BYTES // 4


def rows_fields(learners: int, size: int) -> list[Field]:
    """Return the fields of a segment whose rows hold `size` float32, or a `Consumed` table if that is larger."""
    whole_lines = (
        -(-max(size, 2 * CONSUMED_WORDS * (1 + learners)) // _FLOATS) * _FLOATS
    )  # no two learners write to one cache line
    return [Field("rows", "float32", (SLOTS, learners, whole_lines), float("nan"))]


class AllGather:
    """One learner's access to the rows of all learners that meet."""

    def __init__(self, segment: Segment, rendezvous: Rendezvous) -> None:
        """Bind to a segment of rows; writes nothing."""
        self._rows = segment["rows"]
        self._rendezvous = rendezvous
        self.gathered = 0
        """Number of vectors that this learner has shared."""

    def gather(self, own: NDArray[Any]) -> NDArray[Any]:
        """Share a vector; returns the rows of all learners [learners, longest], valid until the next call.

        Each row begins with its learner's vector, in the same dtype. A learner that is told to end still waits until
        all have come or one is lost: the others need its row. Raises PeerLost, and ValueError for a vector that is too
        long.
        """
        slot = self._rows[self.gathered % SLOTS, : self._rendezvous.learners].view(own.dtype)
        if own.size > slot.shape[1]:
            raise ValueError(f"{own.size} {own.dtype} to show, but a row has room for {slot.shape[1]}")
        slot[self._rendezvous.rank, : own.size] = own
        self.gathered += 1
        self._rendezvous.meet([], stay=True)
        return slot
