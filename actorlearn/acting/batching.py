"""Which rows an inference server answers together: two rules, read off the words of its seats.

``due`` waits for everybody, so batches are the same in every run. ``waiting`` takes whoever is there, as the predictors
of BA3C and GA3C and PolyBeast's dynamic batching do: nobody waits for the slowest, and who was faster decides what a
batch is made of.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from actorlearn.memory.rollout import Blocks

Asked = tuple[Blocks, int, int]
"""A row that has its observations and wants actions: seat, group, tick."""


def due(seats: Sequence[Blocks], group: int) -> list[Asked]:
    """The rows of the oldest unanswered tick of a group index; none until all participants have theirs.

    Waiting for all is what the papers' synchronous systems do. A seat that has left or died is in no one's way: it
    takes no part, or is no longer on the roster.
    """
    active = [seat for seat in seats if seat.joined >= 0]
    ticks = [seat.acted(group) for seat in active if seat.takes_part(seat.acted(group) // seat.horizon)]
    if not ticks:
        return []
    tick = min(ticks)
    if all(seat.observed(group) <= tick for seat in active):
        return []
    # Only now: who has begun a round was let into it with all others, but those may be seen after the looks above.
    participants = [seat for seat in seats if seat.takes_part(tick // seat.horizon)]
    if any(seat.observed(group) <= tick for seat in participants):
        return []
    return [(seat, group, tick) for seat in participants if seat.acted(group) == tick]


def waiting(seats: Sequence[Blocks]) -> list[Asked]:
    """All rows that wait for actions, of whichever seat, group and tick."""
    return [
        (seat, group, seat.acted(group))
        for seat in seats
        for group in range(seat.groups)
        if seat.observed(group) > seat.acted(group)
    ]


class Turns:
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

    def batches(self, seats: Sequence[Blocks]) -> Iterator[list[Asked]]:
        """What to answer now; each batch is looked for when the one before has been answered."""
        if self._batch_rows:
            batches: Iterable[list[Asked]] = [self._gathered(seats)]
        else:
            batches = (due(seats, group) for group in range(max((seat.groups for seat in seats), default=0)))
        yield from filter(None, batches)

    def _gathered(self, seats: Sequence[Blocks]) -> list[Asked]:
        asked = waiting(seats)
        if not asked:
            self._since_s = None
            return []
        if self._since_s is None:
            self._since_s = self._now_s()
        rows = sum(seat.envs_per_group for seat, _, _ in asked)
        if rows < self._batch_rows and self._now_s() - self._since_s < self._deadline_s:
            return []
        self._since_s = None
        return asked

    def sleep_ms(self, longest_ms: int) -> int:
        """How long to sleep: until what waits is overdue, and no longer than this."""
        if self._since_s is None:
            return longest_ms
        left_s = self._since_s + self._deadline_s - self._now_s()
        return max(0, min(longest_ms, math.ceil(left_s * 1000)))
