"""Ownership of rings: environments come and go, rings stay. Knows names and numbers, and no memory."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

OWNER_BYTES = 64
"""Longest name of an owner, in UTF-8."""
FREE = b""
_INCARNATION = re.compile(r"\.\d+(?=/|$)")


class Placement(NamedTuple):
    """The rings in which an owner's environments store a rollout."""

    rings: NDArray[np.int64]  # [B]
    goes_on: bool
    """The rollout follows the last one stored there."""
    inherited: bool
    """That last one was stored by another owner."""


class Rings:
    """One ring for each environment of every owner; who comes gets those that were stored in longest ago."""

    def __init__(self, owner: NDArray[np.bytes_], following: NDArray[np.int64]) -> None:
        """Bind to the owner, or FREE, of each ring [R] and the rollout after its newest; both are changed here."""
        self.owner = owner
        self.following = following

    def of(self, owner: str) -> NDArray[np.int64]:
        """An owner's rings [B], in the order of its environments; none where it has none."""
        return np.flatnonzero(self.owner == _name(owner))

    def owners(self) -> set[str]:
        """All that have rings."""
        return {name.decode() for name in np.unique(self.owner).tolist() if name != FREE}

    def place(self, owner: str, rollout: int, environments: int) -> Placement | None:
        """An owner's rings for its next rollout; None when too few are free.

        Where rings are kept for whoever comes in an owner's place (``expect_heirs``), and as many, it takes them over.
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
        return Placement(rings, goes_on, inherited)

    def leave(self, owner: str) -> None:
        """Free an owner's rings; nothing for one that has none."""
        self.owner[self.of(owner)] = FREE

    def leave_to(self, owners: Iterable[str]) -> None:
        """Free the rings of all but these owners, and of those in whose places they come."""
        names = set(owners)
        for owner in self.owners() - names - {_place(name) for name in names}:
            self.leave(owner)

    def expect_heirs(self) -> None:
        """Keep each owner's rings for that of the same name in another incarnation: its environments go on there."""
        for owner in self.owners():
            self.owner[self.of(owner)] = _name(_place(owner))


def _name(owner: str) -> bytes:
    name = owner.encode()
    if not 0 < len(name) <= OWNER_BYTES:
        raise ValueError(f"{owner!r} is no owner of rings: a name has 1 to {OWNER_BYTES} bytes, not {len(name)}")
    return name


def _place(owner: str) -> str:
    """An owner's name without its incarnation: simulator-0/1 of simulator-0.3/1."""
    return _INCARNATION.sub("", owner)


def cells_between(begin: NDArray[np.int64], end: NDArray[np.int64], rows: int) -> NDArray[np.int64]:
    """Cells of the positions begin … end - 1 of every ring [R], ring after ring; ``rows`` is a ring's length."""
    counts = np.maximum(end - begin, 0)
    ring = np.repeat(np.arange(len(begin)), counts)
    nth = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)
    cell: NDArray[np.int64] = ring * rows + (begin[ring] + nth) % rows
    return cell
