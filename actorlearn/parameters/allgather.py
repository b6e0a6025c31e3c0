"""All-gather of vectors among learners in lock-step, over shared memory: one row per learner.

Reads all rows of one segment and writes the own one; knows no gradients. A meeting
(``parameters/rendezvous.py``) says that rows are whole: a learner comes to it after its last write, so a row whose
writer was killed is never read, and a row that is whole stays so when its writer dies. Hence either all learners that
live get the rows of a meeting, or none.

Two slots are enough: before a learner writes to a slot again, all have come to the next meeting, and so have finished
reading the slot.
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
    """Fields of a segment for vectors of up to `size` float32, for a table, or for anything else of so many bytes."""
    whole_lines = (
        -(-max(size, 2 * CONSUMED_WORDS * (1 + learners)) // _FLOATS) * _FLOATS
    )  # no two learners write to one cache line
    return [Field("rows", "float32", (SLOTS, learners, whole_lines), float("nan"))]


class AllGather:
    """One learner's access to the rows of all that meet."""

    def __init__(self, segment: Segment, rendezvous: Rendezvous) -> None:
        """Bind to a segment of rows; nothing is written before all have met once."""
        self._rows = segment["rows"]
        self._rendezvous = rendezvous
        self.gathered = 0
        """Vectors that this learner has shown."""

    def gather(self, own: NDArray[Any]) -> NDArray[Any]:
        """Share a vector; returns the rows of all [learners, longest], valid until the next call. Raises PeerLost.

        Each row begins with its learner's vector, in the same dtype. A learner that is told to end stays until all have
        come, or one is lost: it has read the rows already, and the others must get them too.
        """
        slot = self._rows[self.gathered % SLOTS, : self._rendezvous.learners].view(own.dtype)
        if own.size > slot.shape[1]:
            raise ValueError(f"{own.size} {own.dtype} to show, but a row has room for {slot.shape[1]}")
        slot[self._rendezvous.rank, : own.size] = own
        self.gathered += 1
        self._rendezvous.meet([], stay=True)
        return slot
