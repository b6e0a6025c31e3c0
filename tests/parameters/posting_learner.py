"""Both kinds of mailbox for tests, and a process that posts messages as fast as it can until it is killed.

Each element of a message tells its writer and its number, so that a torn, misrouted or old message is seen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from actorlearn.address import ByLearner, Ipc, Shm
from actorlearn.memory.shared import Segment
from actorlearn.parameters.mailbox import SharedMailbox, SocketMailbox, ipc_transport
from actorlearn.parameters.published import weights_fields

SIZE = 1 << 16
LEARNERS = 3


def tattooed(learner: int, count: int, size: int = SIZE) -> NDArray[np.float32]:
    """A learner's message with this number."""
    return np.full(size, LEARNERS * count + learner, np.float32)


def address(folder: Path, learner: int) -> Ipc:
    """The socket at which a learner listens."""
    return Ipc(f"{folder}/messages-{learner}.sock")


def socket_mailbox(
    folder: Path,
    learner: int,
    incarnation: int = 0,
    size: int = SIZE,
    peers: Callable[[], Collection[int]] = lambda: range(LEARNERS),
) -> SocketMailbox:
    """A learner's mailbox; it posts to all others."""
    transport = ipc_transport(ByLearner(Ipc(f"{folder}/messages.sock")), learner)
    return SocketMailbox(learner, size, transport, peers, incarnation)


def shared_mailbox(folder: Path, learner: int, incarnation: int = 0, size: int = SIZE) -> SharedMailbox:
    """A learner's mailbox, whose segment is made if there is none."""
    with suppress(FileExistsError):
        Segment.create(folder / f"messages-{learner}", weights_fields(size)).close()
    return SharedMailbox(ByLearner(Shm(f"{folder}/messages")), learner)


KINDS = {"socket": socket_mailbox, "shared": shared_mailbox}


def main(kind: str, folder: str, learner: str, incarnation: str) -> None:
    """Post until killed."""
    mailbox = KINDS[kind](Path(folder), int(learner), int(incarnation))
    count = 0
    while True:
        mailbox.post(tattooed(int(learner), count))
        count += 1


if __name__ == "__main__":
    main(*sys.argv[1:])
