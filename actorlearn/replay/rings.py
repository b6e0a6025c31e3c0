"""Assigns the ring buffers of a replay to environments, which may join and leave during a run.

The owner of rings is a group of environments of a simulator, named "<simulator>.<number of its restarts>/<group>".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

OWNER_BYTES = 64
"""Longest name of an owner, in bytes of UTF-8."""
FREE = b""
"""Owner of a ring that belongs to no environment."""
_INCARNATION = re.compile(r"\.\d+(?=/|$)")


class RingsGiven(NamedTuple):
    """The ring buffers of a replay, by index [B], in which a group of B environments stores a rollout."""

    rings: NDArray[np.int64]  # [B]
    goes_on: bool
    """Whether the rollout directly follows the last one stored in these rings."""
    inherited: bool
    """Whether another owner stored that last rollout."""


class Rings:
    """Assigns the R ring buffers of a replay to environments, one to each.

    The environments of a group get their rings together. A new group gets the free rings whose data are the oldest.
    """

    def __init__(self, owner: NDArray[np.bytes_], following: NDArray[np.int64]) -> None:
        """Use arrays [R], which are changed: each ring's ``owner``, or FREE, and its next rollout, ``following``."""
        self.owner = owner
        self.following = following

    def of(self, owner: str) -> NDArray[np.int64]:
        """Return an owner's rings [B], in the order of its environments; empty if it has none."""
        return np.flatnonzero(self.owner == _name(owner))

    def owners(self) -> set[str]:
        """Return the names of all owners that have rings."""
        return {name.decode() for name in np.unique(self.owner).tolist() if name != FREE}

    def place(self, owner: str, rollout: int, environments: int) -> RingsGiven | None:
        """Return the rings in which an owner stores a rollout; a new owner gets free ones.

        If rings were kept for a restarted simulator (``expect_heirs``), it gets these, unless their number is not
        ``environments``. Returns None if too few rings are free.
        """
        rings = self.of(owner)
        inherited = not len(rings)
        if inherited:
            rings = self.of(_place(owner))
        if len(rings) != environments:
            self.owner[rings] = FREE
            free = np.flatnonzero(self.owner == FREE)
            if len(free) < environments:
                return None
            oldest = free[np.argsort(self.following[free], kind="stable")]
            rings = np.sort(oldest[:environments])
            self.following[rings] = -1
        goes_on = bool(self.following[rings[0]] == rollout)
        self.owner[rings], self.following[rings] = _name(owner), rollout + 1
        return RingsGiven(rings, goes_on, inherited)

    def leave_to(self, owners: Iterable[str]) -> None:
        """Free all rings except those of these owners, and those that `expect_heirs` has kept for them."""
        names = set(owners)
        for owner in self.owners() - names - {_place(name) for name in names}:
            self.owner[self.of(owner)] = FREE

    def expect_heirs(self) -> None:
        """Keep each owner's rings for the same simulator after a restart, in which it continues its games."""
        for owner in self.owners():
            self.owner[self.of(owner)] = _name(_place(owner))


def _name(owner: str) -> bytes:
    name = owner.encode()
    if not 0 < len(name) <= OWNER_BYTES:
        raise ValueError(
            f"{owner!r} is not a valid name of an owner: it has {len(name)} bytes and must have 1 to {OWNER_BYTES}"
        )
    return name


def _place(owner: str) -> str:
    """Return an owner's name without the number of restarts: "simulator-0/1" for "simulator-0.3/1"."""
    return _INCARNATION.sub("", owner)


def cells_between(begin: NDArray[np.int64], end: NDArray[np.int64], rows: int) -> NDArray[np.int64]:
    """Return the cells of positions begin … end - 1 of every ring [R], ring by ring; a ring has ``rows`` cells."""
    counts = np.maximum(end - begin, 0)
    ring = np.repeat(np.arange(len(begin)), counts)
    nth = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)
    cell: NDArray[np.int64] = ring * rows + (begin[ring] + nth) % rows
    return cell
