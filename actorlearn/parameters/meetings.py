"""Meetings of learners on several machines: learners send contributions to a hub, which answers each with all of them.

Pure; ``remote_rendezvous.py`` has the sockets. The first learner of a generation runs the hub. A meeting is complete
when all learners of the generation have contributed to it. Then each gets the same answer: all contributions or, for
gradients, their sum in the order of ranks, with the same bits for all. Learners repeat contributions until they are
answered. The hub keeps each contribution once, and the newest answer until all have come to the next meeting, so lost
and repeated messages change nothing.

If a learner that has not come to a meeting is gone, the generation ends, and the hub tells all waiting learners. If the
hub dies while it answers, some learners have the answer and some do not. They become equal again in the next
generation, when all take the state of the learner that is furthest (``allreduce.py``).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from actorlearn.parameters.frame_headers import MEETING

ROWS, SUM, ACKNOWLEDGED, LEFT, LOST = range(5)
"""Kinds of frames. ROWS and SUM: contributions and their answers. ACKNOWLEDGED and LEFT: from a learner, not answered.
LOST: from the hub; a learner is gone, and the meeting will not be answered."""

_FLOAT32_BYTES = 4


class MeetingFrame(NamedTuple):
    """One message between a learner and the hub."""

    kind: int
    generation: int
    meeting: int
    among: int = 0
    """For kind SUM: a bit for each rank whose contribution is added."""
    content: bytes = b""


def encode(run: bytes, frame: MeetingFrame) -> bytes:
    """Return the bytes of a frame; ``run``: the run's 16 bytes."""
    return MEETING.pack(run, frame.kind, frame.generation, frame.meeting, frame.among) + frame.content


def decode(run: bytes, body: bytes) -> MeetingFrame | None:
    """Return the frame in these bytes; None if they are no valid frame of this run."""
    numbers = MEETING.unpack(run, body)
    if numbers is None or numbers[0] > LOST:
        return None
    kind, generation, meeting, among = numbers
    return MeetingFrame(kind, generation, meeting, among, body[MEETING.size :])


class MeetingHub:
    """The meetings of one generation."""

    def __init__(self, learners: int, generation: int) -> None:
        """Begin before the first meeting, whose number is 1."""
        self._learners, self._generation = range(learners), generation
        self._meeting = 1
        """Number of the meeting that is completed next."""
        self._came: dict[int, MeetingFrame] = {}
        """Contributions to that meeting, by rank."""
        self._answer = MeetingFrame(ROWS, generation, 0)
        self._heard = set(self._learners)
        """Ranks that are known to have the newest answer."""
        self._left: set[int] = set()
        self._lost: MeetingFrame | None = None

    def take(self, rank: int, frame: MeetingFrame) -> dict[int, MeetingFrame]:
        """Handle a learner's frame; returns the frames to send, by rank. An invalid frame is dropped."""
        if frame.generation != self._generation or (frame.kind == SUM and not self._adds_up(frame)):
            return {}
        if frame.kind == LEFT:
            self._left.add(rank)
        elif frame.kind == ACKNOWLEDGED:
            self._heard |= {rank} if frame.meeting == self._answer.meeting else set()
        elif frame.kind in (ROWS, SUM) and frame.meeting == self._answer.meeting:
            return {rank: self._answer}
        elif frame.kind in (ROWS, SUM) and frame.meeting == self._meeting:
            return self._contribute(rank, frame)
        return {}

    def _adds_up(self, frame: MeetingFrame) -> bool:
        """Whether a contribution to a sum has whole float32 numbers and at least one rank, all of this generation."""
        return 0 < frame.among < 1 << len(self._learners) and len(frame.content) % _FLOAT32_BYTES == 0

    def _contribute(self, rank: int, frame: MeetingFrame) -> dict[int, MeetingFrame]:
        if self._lost is not None:
            return {rank: self._lost}
        self._heard.add(rank)
        self._came.setdefault(rank, frame)
        if len(self._came) < len(self._learners):
            return {}
        came = [self._came[each] for each in self._learners]
        if len({(each.kind, each.among, len(each.content)) for each in came}) > 1:
            return self._lose(f"the learners sent contributions of different kinds to meeting {self._meeting}")
        content = add(came) if frame.kind == SUM else b"".join(each.content for each in came)
        self._answer = frame._replace(content=content)
        self._came, self._heard = {}, set()
        self._meeting += 1
        return dict.fromkeys(self._learners, self._answer)

    def miss(self, gone: Collection[int]) -> dict[int, MeetingFrame]:
        """End the generation if an absent learner is gone or has left; returns the frames to send, by rank."""
        awaited = [rank for rank in self._learners if rank not in self._came and rank in {*gone, *self._left}]
        if not awaited or self._lost is not None or not self._came:
            return {}
        return self._lose(f"learners {awaited} are gone and did not come to meeting {self._meeting}")

    def _lose(self, why: str) -> dict[int, MeetingFrame]:
        self._lost = MeetingFrame(LOST, self._generation, self._meeting, content=why.encode())
        return dict.fromkeys(self._came, self._lost)

    def unheard(self, gone: Collection[int]) -> list[int]:
        """Return the ranks that may still ask for the newest answer."""
        return [rank for rank in self._learners if rank not in {*gone, *self._left, *self._heard}]


def add(frames: list[MeetingFrame]) -> bytes:
    """Return the sum of the float32 vectors of the ranks in ``among``, in the order of ranks."""
    rows = [frame.content for rank, frame in enumerate(frames) if frames[0].among >> rank & 1]
    total = np.frombuffer(rows[0], np.float32).copy()
    for row in rows[1:]:
        total += np.frombuffer(row, np.float32)
    return total.tobytes()


def rows_of(frame: MeetingFrame, learners: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the contributions in an answer [learners, n]."""
    return np.frombuffer(bytearray(frame.content), dtype).reshape(learners, -1)
