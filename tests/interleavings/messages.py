"""Mailboxes: learners that post and take one another's messages; one may be killed and come back."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from actorlearn.address import ByLearner, Shm
from actorlearn.parameters.mailbox import SharedMailbox
from actorlearn.parameters.published import weights_fields
from tests.interleavings.arrays import Words
from tests.interleavings.code import Done, Process, expect
from tests.interleavings.explore import Scenario

SIZE = 2


def posting(kind: type[SharedMailbox] = SharedMailbox, *, posts: int = 3, kills: int = 1) -> Scenario:
    """Two learners that each post messages, and take new messages of the other, as ``Gossip`` does.

    Invariants: a message is taken whole, as it was posted, at most once, and never after a newer one.
    """
    words = Words()
    for rank in range(2):
        words.create(f"messages-{rank}", weights_fields(SIZE))

    def learner(rank: int) -> Process:
        mailbox, peer = kind(ByLearner(Shm("messages")), rank), 1 - rank

        def step(state: tuple[int, int, int]) -> Hashable:
            life, left, used = state
            if not left:
                return Done()
            version = mailbox.version(rank) + 1
            posted = mailbox.post(np.array([_said(rank, version, life)] * SIZE, np.float32))
            expect(posted == version, f"message {version} is posted as {posted}")
            if mailbox.version(peer) == used:
                return life, left - 1, used
            out = np.full(SIZE, -1, np.float32)
            taken = mailbox.take(peer, out)
            expect(taken > used, f"message {taken} is taken after {used}")
            whole = out.tolist() in ([_said(peer, taken, 1)] * SIZE, [_said(peer, taken, 2)] * SIZE)
            expect(whole, f"message {taken} is taken as {out.tolist()}")
            return life, left - 1, taken

        return Process(f"learner-{rank}", (1, posts, -1), step, mortal=rank == 0, again=(2, 1, -1))

    own = {f"messages-{rank}": f"learner-{rank}" for rank in range(2)}
    return Scenario("mailboxes", words, [learner(rank) for rank in range(2)], kills, own)


def _said(rank: int, version: int, life: int) -> float:
    return float(1000 * (rank + 1) + 10 * version + life)
