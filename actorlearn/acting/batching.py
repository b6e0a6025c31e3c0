"""Batching of rows that an inference server answers together: two rules, read off the words of its members.

``due`` waits for everybody, so batches are the same in every run. ``waiting`` takes whoever is there, as the predictors
of BA3C and GA3C and PolyBeast's dynamic batching do: nobody waits for the slowest, and who was faster decides what a
batch is made of.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from actorlearn.memory.rollout import Blocks

RowsAsked = tuple[Blocks, int, int]
"""Rows, one of each environment of a group, that have observations and want actions: member, group, timestep."""


def due(members: Sequence[Blocks], group: int) -> list[RowsAsked]:
    """Return the rows of the oldest unanswered timestep of a group index; none until all participants have theirs.

    Waiting for all is what the papers' synchronous systems do. A member that has left or died is in no one's way: it
    takes no part, or is no longer a member.
    """
    active = [member for member in members if member.joined >= 0]
    timesteps = [member.acted(group) for member in active if member.takes_part(member.acted(group) // member.horizon)]
    if not timesteps:
        return []
    timestep = min(timesteps)
    if all(member.observed(group) <= timestep for member in active):
        return []
    # Only now: who has begun a rollout was let into it with all others, but those may be seen after the looks above.
    participants = [member for member in members if member.takes_part(timestep // member.horizon)]
    if any(member.observed(group) <= timestep for member in participants):
        return []
    return [(member, group, timestep) for member in participants if member.acted(group) == timestep]


def waiting(members: Sequence[Blocks]) -> list[RowsAsked]:
    """Return all rows that wait for actions, of whichever member, group and timestep."""
    return [
        (member, group, member.acted(group))
        for member in members
        for group in range(member.groups)
        if member.observed(group) > member.acted(group)
    ]


class Batching:
    """Batches of rows to answer now, by either rule."""

    def __init__(self, batch_rows: int, deadline_ms: float, now_s: Callable[[], float] = time.monotonic) -> None:
        """``batch_rows`` 0: all that is due. n: all that waits, once it is n rows or the oldest is overdue.

        A row of a group counts once for each of its environments.
        """
        self._batch_rows = batch_rows
        self._deadline_s = deadline_ms / 1000
        self._now_s = now_s
        self._since_s: float | None = None
        """Since when anything waits: as all is answered together, the oldest does."""

    def batches(self, members: Sequence[Blocks]) -> Iterator[list[RowsAsked]]:
        """Yield the batches to answer now; each is looked for when the one before has been answered."""
        if self._batch_rows:
            batches: Iterable[list[RowsAsked]] = [self._rows_due(members)]
        else:
            batches = (due(members, group) for group in range(max((member.groups for member in members), default=0)))
        yield from filter(None, batches)

    def _rows_due(self, members: Sequence[Blocks]) -> list[RowsAsked]:
        """Return all rows that wait, once they are ``batch_rows`` or overdue; else none."""
        asked = waiting(members)
        if not asked:
            self._since_s = None
            return []
        if self._since_s is None:
            self._since_s = self._now_s()
        rows = sum(member.envs_per_group for member, _, _ in asked)
        if rows < self._batch_rows and self._now_s() - self._since_s < self._deadline_s:
            return []
        self._since_s = None
        return asked

    def sleep_ms(self, longest_ms: int) -> int:
        """Return how long to sleep: until what waits is overdue, and no longer than this."""
        if self._since_s is None:
            return longest_ms
        left_s = self._since_s + self._deadline_s - self._now_s()
        return max(0, min(longest_ms, math.ceil(left_s * 1000)))
