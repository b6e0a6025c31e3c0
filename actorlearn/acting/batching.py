"""Selects the rows for which an inference server computes actions in one forward pass, by one of two rules.

`due_rows` waits until all simulators have observations for the same timestep. Batches are then the same in every run.
`waiting_rows` takes the rows that are ready, as do the predictors of BA3C and GA3C and the dynamic batching of
PolyBeast. No simulator then waits for the slowest one, but the composition of a batch depends on timing.

Both read the counts of observed and acted timesteps that each simulator's blocks have in shared memory
(``memory/rollout.py``). A "member" is the trainer's or server's view of one simulator.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from actorlearn.memory.rollout import Blocks

RowsAsked = tuple[Blocks, int, int]
"""The rows of one group of environments at one timestep, which need actions: (member's blocks, group, timestep)."""


def due_rows(members: Sequence[Blocks], group: int) -> list[RowsAsked]:
    """Return the rows of the oldest timestep of ``group`` that needs actions, of all members that play its rollout.

    Returns no rows until all of these members have written their observations for that timestep. A simulator that has
    left or died causes no delay, because it does not take part in the rollout or is no longer a member.
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
    """Return the rows of all members and groups that have observations and need actions."""
    return [
        (member, group, member.acted(group))
        for member in members
        for group in range(member.groups)
        if member.observed(group) > member.acted(group)
    ]


class Batching:
    """Forms the batches for which an inference server computes actions, by one of the two rules."""

    def __init__(self, batch_rows: int, deadline_ms: float, now_s: Callable[[], float] = time.monotonic) -> None:
        """Use `due_rows` if ``batch_rows`` is 0, otherwise `waiting_rows`.

        In the second case, a batch is formed as soon as ``batch_rows`` rows wait, or ``deadline_ms`` after the first
        waiting row was seen. Each environment of a group counts as one row. ``now_s`` is the clock, in seconds.
        """
        self._batch_rows = batch_rows
        self._deadline_s = deadline_ms / 1000
        self._now_s = now_s
        self._since_s: float | None = None
        """Clock when the oldest waiting row was first seen, in seconds; None: no row waits."""

    def batches(self, members: Sequence[Blocks]) -> Iterator[list[RowsAsked]]:
        """Yield the batches that are ready. Each is formed only after the caller has processed the previous one."""
        if self._batch_rows:
            batches: Iterable[list[RowsAsked]] = [self._rows_due(members)]
        else:
            batches = (
                due_rows(members, group) for group in range(max((member.groups for member in members), default=0))
            )
        yield from filter(None, batches)

    def _rows_due(self, members: Sequence[Blocks]) -> list[RowsAsked]:
        """Return all waiting rows if there are at least ``batch_rows`` or the deadline has passed; else none."""
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
