"""Stage 5 of 5: the published weights, a copy of the trainer's weights in shared memory, with which others act.

Each publication is a new version, which is written to the next of SLOTS slots. A slot has a sequence number, which is
odd while the slot is written. The number of the newest version is written last.
Next: an inference server or a simulator (stage 2) looks for a newer version before every batch.

With three or more slots, the writer changes neither the newest complete slot nor the one before it. Reading therefore
continues while a new version is written, and also if the writer is killed during a write. Measured with a writer that
publishes continuously: without versions, 97 % of the reads were torn (they mixed two versions). With a single slot and
a sequence number, the reader starved. With three slots, no read was torn.
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
"""Number of attempts of a read, after which the segment counts as damaged."""


def weights_fields(size: int) -> list[Field]:
    """Return the shared memory layout for ``size`` published float32 weights."""
    return [
        Field("newest", "int64", (8,), -1),
        Field("sequence", "int64", (SLOTS, 8), 0),
        Field("env_steps", "int64", (SLOTS, 8), 0),
        Field("payload", "float32", (SLOTS, size), float("nan")),
    ]


def slots_in_words(size: int, what: str) -> str:
    """Describe the segment of published weights to the user, for example "3 slots x 1,000 float32 weights"."""
    return f"{SLOTS} slots x {size:,} float32 {what}"


class Published:
    """The newest weights of a network in shared memory, which one process writes and any number of processes read."""

    def __init__(self, segment: Segment) -> None:
        """Use a segment of shared memory with the layout of `weights_fields`."""
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
        """Number of the newest complete version; -1 before the first. It never decreases, not even after a restart."""
        return int(self._newest[0])

    @property
    def env_steps(self) -> int:
        """Number of environment steps at which the newest version was published; 0 before the first."""
        return int(self._env_steps[self.version % SLOTS, 0])

    @property
    def size(self) -> int:
        """Number of weights: parameters and statistics."""
        return int(self._payload.shape[1])

    def go_on_after(self, version: int) -> None:
        """In a resumed run, number the next versions from ``version`` + 1 on."""
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
        """Return those of these versions that are still in memory: version -> (copy of the weights, environment steps).

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
        """Copy the newest version to ``out`` [size]; returns (version, environment steps), or None if it is ``known``.

        With ``wanted``, that version is copied instead if it is still in memory. If the writer overwrites it during the
        read, the newest version is read instead. Raises RuntimeError after ATTEMPTS failed reads.
        """
        for _ in range(ATTEMPTS):
            if (version := self.version if wanted is None else wanted) == known:
                return None
            slot = version % SLOTS
            before = int(self._sequence[slot, 0])
            if before != 2 * version + 2:
                wanted = None  # the slot has got a newer version
                continue
            out[:] = self._payload[slot]
            env_steps = int(self._env_steps[slot, 0])
            if int(self._sequence[slot, 0]) == before:
                return version, env_steps
        raise RuntimeError(
            f"version {self.version} of the published weights could not be read in {ATTEMPTS} attempts: the segment in "
            "shared memory is damaged; start the run again"
        )
