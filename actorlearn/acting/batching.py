"""Batching of rows that an inference server answers together, by one of two rules.

Reads the shared words (``memory/rollout.py``) of the members, which are the simulators that take part.

``due_rows`` waits for all participants, so batches are the same in every run. ``waiting_rows`` takes the rows that are
ready, like the predictors of BA3C and GA3C and PolyBeast's dynamic batching: no simulator waits for the slowest, and
the composition of a batch depends on timing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from actorlearn.memory.rollout import Blocks

RowsAsked = tuple[Blocks, int, int]
"""Rows of all environments of a group that have observations and need actions: member, group, timestep."""


def due_rows(members: Sequence[Blocks], group: int) -> list[RowsAsked]:
    """Return the rows of a group's oldest unanswered timestep; none until all participants have their observations.

    The papers' synchronous systems also wait for all. A member that has left or died causes no delay: it does not take
    part in the rollout, or is no longer a member.
    """
    active = [member for member in members if member.joined >= 0]
    timesteps = [member.acted(group) for member in active if member.takes_part(member.acted(group) // member.horizon)]
    if not timesteps:
        return []
    timestep = min(timesteps)
    if all(member.observed(group) <= timestep for member in active):
        return []
    # Membership is read again: all participants of a rollout are listed and admitted before it begins, but perhaps
    # after the reads above.
    participants = [member for member in members if member.takes_part(timestep // member.horizon)]
    if any(member.observed(group) <= timestep for member in participants):
        return []
    return [(member, group, timestep) for member in participants if member.acted(group) == timestep]


def waiting_rows(members: Sequence[Blocks]) -> list[RowsAsked]:
    """Return the rows of all members, groups and timesteps that wait for actions."""
    return [
        (member, group, member.acted(group))
        for member in members
        for group in range(member.groups)
        if member.observed(group) > member.acted(group)
    ]


class Batching:
    """Forms the batches of rows to answer, by one of the two rules."""

    def __init__(self, batch_rows: int, deadline_ms: float, now_s: Callable[[], float] = time.monotonic) -> None:
        """``batch_rows`` 0: answer ``due_rows``; n: all ``waiting_rows`` as soon as there are n, or at the deadline.

        The deadline is ``deadline_ms`` after the first waiting row was seen. Rows are counted per environment.
        """
        self._batch_rows = batch_rows
        self._deadline_s = deadline_ms / 1000
        self._now_s = now_s
        self._since_s: float | None = None
        """Clock when the oldest waiting row was first seen, in seconds; None: no row waits."""

    def batches(self, members: Sequence[Blocks]) -> Iterator[list[RowsAsked]]:
        """Yield the batches to answer now; each is formed after the previous one has been answered."""
        if self._batch_rows:
            batches: Iterable[list[RowsAsked]] = [self._rows_due(members)]
        else:
            batches = (
                due_rows(members, group) for group in range(max((member.groups for member in members), default=0))
            )
        yield from filter(None, batches)

    def _rows_due(self, members: Sequence[Blocks]) -> list[RowsAsked]:
        """Return all waiting rows if there are ``batch_rows`` or the deadline has passed; else none."""
        asked = waiting_rows(members)
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
        """Return the milliseconds to sleep: until the deadline of the oldest waiting row, at most ``longest_ms``."""
        if self._since_s is None:
            return longest_ms
        left_s = self._since_s + self._deadline_s - self._now_s()
        return max(0, min(longest_ms, math.ceil(left_s * 1000)))
