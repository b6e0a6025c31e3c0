"""Ownership of rings by environments that join and leave. Uses names and numbers only, not the stored rows."""

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


class RingsGiven(NamedTuple):
    """The rings in which an owner's environments store a rollout."""

    rings: NDArray[np.int64]  # [B]
    goes_on: bool
    """Whether the rollout directly follows the last one stored in these rings."""
    inherited: bool
    """Whether another owner stored that last rollout."""


class Rings:
    """Owners of all rings, one ring for each environment; a new owner gets the free rings unused for longest."""

    def __init__(self, owner: NDArray[np.bytes_], following: NDArray[np.int64]) -> None:
        """Bind to each ring's owner, or FREE [R], and the rollout after its newest [R]; both are changed in place."""
        self.owner = owner
        self.following = following

    def of(self, owner: str) -> NDArray[np.int64]:
        """Return an owner's rings [B], in the order of its environments; empty if it has none."""
        return np.flatnonzero(self.owner == _name(owner))

    def owners(self) -> set[str]:
        """Return the names of all owners that have rings."""
        return {name.decode() for name in np.unique(self.owner).tolist() if name != FREE}

    def place(self, owner: str, rollout: int, environments: int) -> RingsGiven | None:
        """Return an owner's rings for a rollout, assigning rings to a new owner; None if too few are free.

        A new owner gets the rings kept for its name (``expect_heirs``) if their number is the one that it needs.
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
        """Free the rings of all but these owners; rings kept for one of them remain kept."""
        names = set(owners)
        for owner in self.owners() - names - {_place(name) for name in names}:
            self.owner[self.of(owner)] = FREE

    def expect_heirs(self) -> None:
        """Keep each owner's rings for its next incarnation, whose environments continue from the same state."""
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
    """Return an owner's name without its incarnation: "simulator-0/1" for "simulator-0.3/1"."""
    return _INCARNATION.sub("", owner)


def cells_between(begin: NDArray[np.int64], end: NDArray[np.int64], rows: int) -> NDArray[np.int64]:
    """Return the cells of positions begin … end - 1 of every ring [R], ring by ring; a ring has ``rows`` cells."""
    counts = np.maximum(end - begin, 0)
    ring = np.repeat(np.arange(len(begin)), counts)
    nth = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)
    cell: NDArray[np.int64] = ring * rows + (begin[ring] + nth) % rows
    return cell
