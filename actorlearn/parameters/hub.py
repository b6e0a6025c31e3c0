"""The protocol by which learners in mode sync on several machines exchange numbers and vectors, through a hub.

The first learner of a generation (the learners that began together) runs the hub. At a *barrier*, each learner sends
the hub a contribution: some numbers, and possibly a vector. When all learners have contributed, the hub sends each of
them the same answer: the numbers of all learners, and their vectors or, for gradients, the sum of the vectors in the
order of ranks. If a learner has sent no vector, the answer has none.

**Lost messages.** Learners repeat a contribution until it is answered. The hub keeps each contribution once, and the
newest answer until all learners have arrived at the next barrier. Lost and repeated messages therefore change nothing.

**Lost learners.** If a learner that has not arrived at a barrier is gone, the generation ends, and the hub tells all
waiting learners. If the hub itself dies while it answers, only some learners have the answer. Their weights become
equal again in the next generation, when all take the state of the learner with the most updates (``allreduce.py``).

This module has no sockets; ``hub_barrier.py`` has them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from actorlearn.parameters.barrier import NUMBERS
from actorlearn.parameters.frame_headers import HUB

CONTRIBUTION, ACKNOWLEDGED, LEFT, LOST = range(4)
"""Kinds of frames.

============  =======================  ===============================================================================
CONTRIBUTION  learner to hub           a contribution to a barrier
CONTRIBUTION  hub to learner           the answer to the contributions of all learners
ACKNOWLEDGED  learner to hub           the learner has received the answer
LEFT          learner to hub           the learner has left
LOST          hub to learner           a learner is gone, and the contribution will not be answered
============  =======================  ===============================================================================
"""

NUMBERS_BYTES = 8 * NUMBERS
"""Number of bytes of the integers with which the content of a contribution begins; the rest is the vector."""
_FLOAT32_BYTES = 4


class HubFrame(NamedTuple):
    """One message between a learner in mode sync and the hub, through which learners on several machines exchange."""

    kind: int
    generation: int
    barrier: int
    among: int = 0
    """A bit for each rank whose vector is added to the sum; 0: vectors are not added."""
    content: bytes = b""
    """Numbers and vectors, or for LOST a text with the reason."""


def encode(run: bytes, frame: HubFrame) -> bytes:
    """Return the bytes of a frame; ``run`` is the run's id of 16 bytes."""
    return HUB.pack(run, frame.kind, frame.generation, frame.barrier, frame.among) + frame.content


def decode(run: bytes, body: bytes) -> HubFrame | None:
    """Return the frame in these bytes; None if they are no valid frame of this run."""
    numbers = HUB.unpack(run, body)
    if numbers is None or numbers[0] > LOST:
        return None
    kind, generation, barrier, among = numbers
    return HubFrame(kind, generation, barrier, among, body[HUB.size :])


class Hub:
    """State of the hub: collects the contributions to a barrier, and answers them when the last one has arrived."""

    def __init__(self, learners: int, generation: int) -> None:
        self._learners, self._generation = range(learners), generation
        self._barrier = 1
        """Number of the present barrier, for which the hub collects contributions."""
        self._contributions: dict[int, HubFrame] = {}
        """Contributions to the present barrier, by rank."""
        self._answer = HubFrame(CONTRIBUTION, generation, 0)
        """The newest answer: that of the last complete barrier."""
        self._received = set(self._learners)
        """Ranks of the learners that are known to have received the newest answer."""
        self._left: set[int] = set()
        """Ranks of the learners that have left."""
        self._lost: HubFrame | None = None
        """The message with the reason why the generation has ended; None before."""

    def take(self, rank: int, frame: HubFrame) -> dict[int, HubFrame]:
        """Process a learner's message; returns the messages to send, by rank. An invalid message is dropped."""
        if frame.generation != self._generation or (frame.kind == CONTRIBUTION and not self._is_whole(frame)):
            return {}
        if frame.kind == LEFT:
            self._left.add(rank)
        elif frame.kind == ACKNOWLEDGED:
            self._received |= {rank} if frame.barrier == self._answer.barrier else set()
        elif frame.kind == CONTRIBUTION and frame.barrier == self._answer.barrier:
            return {rank: self._answer}
        elif frame.kind == CONTRIBUTION and frame.barrier == self._barrier:
            return self._contribute(rank, frame)
        return {}

    def _is_whole(self, frame: HubFrame) -> bool:
        """Whether a message has all numbers and, if vectors are to be summed, a float32 vector and valid ranks."""
        vector_bytes = len(frame.content) - NUMBERS_BYTES
        added = frame.among < 1 << len(self._learners) and vector_bytes % _FLOAT32_BYTES == 0
        return vector_bytes >= 0 and (not frame.among or added)

    def _contribute(self, rank: int, frame: HubFrame) -> dict[int, HubFrame]:
        if self._lost is not None:
            return {rank: self._lost}
        self._received.add(rank)
        self._contributions.setdefault(rank, frame)
        if len(self._contributions) < len(self._learners):
            return {}
        contributions = [self._contributions[each] for each in self._learners]
        brought = {(each.among, len(each.content)) for each in contributions if len(each.content) > NUMBERS_BYTES}
        if len(brought) > 1:
            return self._lose(f"the learners sent vectors of different kinds to barrier {self._barrier}")
        self._answer = answer_to(contributions)
        self._contributions, self._received = {}, set()
        self._barrier += 1
        return dict.fromkeys(self._learners, self._answer)

    def miss(self, gone: Collection[int]) -> dict[int, HubFrame]:
        """End the generation if a learner for which others wait at the present barrier has died or left.

        ``gone`` has the ranks of learners that have died. Returns the messages to the waiting learners, by rank.
        """
        awaited = [rank for rank in self._learners if rank not in self._contributions and rank in {*gone, *self._left}]
        if not awaited or self._lost is not None or not self._contributions:
            return {}
        return self._lose(f"learners {awaited} are gone and did not arrive at barrier {self._barrier}")

    def _lose(self, why: str) -> dict[int, HubFrame]:
        self._lost = HubFrame(LOST, self._generation, self._barrier, content=why.encode())
        return dict.fromkeys(self._contributions, self._lost)

    def unacknowledged(self, gone: Collection[int]) -> list[int]:
        """Return the ranks of the learners that may not have received the newest answer yet."""
        return [rank for rank in self._learners if rank not in {*gone, *self._left, *self._received}]


def answer_to(contributions: Sequence[HubFrame]) -> HubFrame:
    """Return the hub's answer to the messages of all learners, which are in the order of ranks."""
    content = b"".join(each.content[:NUMBERS_BYTES] for each in contributions)
    vectors = [each.content[NUMBERS_BYTES:] for each in contributions]
    first = contributions[0]
    if not all(vectors):
        return first._replace(among=0, content=content)
    return first._replace(content=content + (add(vectors, first.among) if first.among else b"".join(vectors)))


def add(vectors: Sequence[bytes], among: int) -> bytes:
    """Return the sum of float32 vectors, as bytes. Bit r of ``among`` says whether the vector of rank r is added."""
    first, *others = [np.frombuffer(vector, np.float32) for rank, vector in enumerate(vectors) if among >> rank & 1]
    total = first.copy()
    for vector in others:
        total += vector
    return total.tobytes()


def content_of(numbers: Sequence[int], vector: NDArray[Any] | None = None) -> bytes:
    """Return the content of a learner's message to the hub; raises ValueError for more than NUMBERS numbers."""
    whole = np.zeros(NUMBERS, np.int64)
    whole[: len(numbers)] = numbers
    return whole.tobytes() + (b"" if vector is None else vector.tobytes())


def numbers_in(answer: HubFrame, learners: int) -> NDArray[np.int64]:
    """Return the numbers that all learners have sent from the hub's answer, [learners, NUMBERS]."""
    return np.frombuffer(bytearray(answer.content[: learners * NUMBERS_BYTES]), np.int64).reshape(learners, NUMBERS)


def vectors_in(answer: HubFrame, learners: int, dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """Return the sum of vectors from the hub's answer, [n], or the vectors of all learners, [learners, n].

    Returns None if a learner has sent no vector.
    """
    brought = bytearray(answer.content[learners * NUMBERS_BYTES :])
    if not brought:
        return None
    return np.frombuffer(brought, dtype).reshape(-1 if answer.among else (learners, -1))
