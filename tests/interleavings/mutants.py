"""Bugs that the protocols could have: each class replaces a right one, and the explorer must find its bug."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from actorlearn.memory.record import CommittedRecord
from actorlearn.memory.rollout import MOST_BLOCKS, Blocks, Rollouts
from actorlearn.parameters import published
from actorlearn.parameters.barrier import SharedBarrier
from actorlearn.parameters.interface import PeerLost
from actorlearn.parameters.mailbox import SharedMailbox
from actorlearn.parameters.published import Published
from actorlearn.parameters.store import SharedStore
from actorlearn.processes.members import RolloutMembers
from actorlearn.processes.simulator import EnvGroup
from tests.interleavings.arrays import Flock, OpenedSegment

# Published weights ---------------------------------------------------------------------------------------------------


class Reordered(Published):
    """Publishes as Published does, in the order ``ORDER``."""

    ORDER: tuple[str, ...] = ("mark", "payload", "steps", "whole", "newest")

    def publish(self, weights: Any, env_steps: int) -> int:
        version = self.following(env_steps)
        slot = version % published.SLOTS
        for store in self.ORDER:
            if store == "mark":
                self._sequence[slot, 0] = 2 * version + 1
            elif store == "payload":
                self._payload[slot] = weights
            elif store == "steps":
                self._env_steps[slot, 0] = env_steps
            elif store == "whole":
                self._sequence[slot, 0] = 2 * version + 2
            else:
                self._newest[0] = version
        return version

    def following(self, env_steps: int) -> int:
        return max(self.version, self._after) + 1


class VersionFirst(Reordered):
    """The version word is raised before its slot is written."""

    ORDER = ("newest", "mark", "payload", "steps", "whole")


class NoMark(Reordered):
    """The slot is not marked as being written."""

    ORDER = ("payload", "steps", "whole", "newest")


class VersionTooEarly(Reordered):
    """The version word is raised before its slot is whole: readers wait for a writer that may be dead."""

    ORDER = ("mark", "payload", "steps", "newest", "whole")


class OneSlot(Published):
    """Every version is written over the one before it."""

    def __init__(self, segment: Any) -> None:
        super().__init__(segment)
        arrays: Any = self._sequence, self._env_steps, self._payload
        self._sequence, self._env_steps, self._payload = (array.same(published.SLOTS) for array in arrays)


class NumberAgain(Reordered):
    """A version's number is given a second time."""

    def following(self, env_steps: int) -> int:
        return max(self.version, 0)


class NoSecondLook(Published):
    """A reader does not check the sequence word again after reading."""

    def fetch(self, out: Any, known: int = -1, wanted: int | None = None) -> tuple[int, int] | None:
        version = self.version if wanted is None else wanted
        slot = version % published.SLOTS
        if version == known or int(self._sequence[slot, 0]) != 2 * version + 2:
            return None
        out[:] = self._payload[slot]
        return version, int(self._env_steps[slot, 0])


def in_mailbox(kind: type[Published]) -> type[SharedMailbox]:
    """Return a mailbox whose messages are published by this class."""

    class Mutant(SharedMailbox):
        def _of(self, learner: int) -> Published:
            return kind(OpenedSegment.open(self._messages.of(learner).file))  # type: ignore[arg-type]

    Mutant.__name__ = kind.__name__
    return Mutant


class VersionOfTheNext(SharedMailbox):
    """The version is read after the message, and may be that of the next one, which is used again then."""

    def take(self, peer: int, out: Any) -> int:
        taken = super().take(peer, out)
        return taken if taken < 0 else self.version(peer)


# The store -----------------------------------------------------------------------------------------------------------


class LockLetGo(SharedStore):
    """The lock is released before the chunk is written."""

    @contextmanager
    def locked(self, chunks: Sequence[int]) -> Iterator[int]:
        with super().locked(chunks) as chunk:
            pass
        yield chunk


class SharedLock(SharedStore):
    """The lock is shared, so several learners may hold it at once."""

    def _try(self, chunks: Sequence[int]) -> int | None:
        Flock.flock(self._locks[chunks[0]], Flock.LOCK_SH | Flock.LOCK_NB)
        return chunks[0]


class CommittedFirst(SharedStore):
    """The version word is raised before its slot is written."""

    def spare(self, chunk: int) -> Any:
        self._version[chunk] += 1
        return self.current(chunk)

    def commit(self, chunk: int, number: int = -1) -> int:
        self._applied[self.version(chunk) % 2, chunk, self._rank] = number
        return self.version(chunk)


class WrittenOver(SharedStore):
    """A chunk is written over itself."""

    def current(self, chunk: int) -> Any:
        return self._values[0, :, self.spans[chunk]]

    spare = current


class NumberedLater(SharedStore):
    """The update's number is written after the chunk is committed."""

    def commit(self, chunk: int, number: int = -1) -> int:
        version = super().commit(chunk)
        self._applied[version % 2, chunk, self._rank] = number
        return version


class NoNumbers(SharedStore):
    """Learners do not check whether a chunk has their update already."""

    def applied(self, chunk: int) -> int:
        return -1


class FilledFirst(SharedStore):
    """The word that says that the store is filled is not written last."""

    def fill(self, env_steps: int, updates: int) -> None:
        self._filled[0] = 1
        self._filled[1:3] = env_steps, updates


# Barriers ------------------------------------------------------------------------------------------------------------


class WordFirst(SharedBarrier):
    """The word that says that a learner has arrived is written before its numbers."""

    def gather_numbers(self, numbers: Sequence[int], stay: bool = False) -> Any:
        slot = self.arrivals % 2
        self._arrived[self.rank] = self.arrivals + 1
        self._numbers[slot, self.rank, : len(numbers)] = numbers
        return super().gather_numbers([], stay)


class OneTable(SharedBarrier):
    """All barriers use the same place for their numbers."""

    def __init__(self, segment: Any, rows: Any, rank: int, alive: Any) -> None:
        super().__init__(segment, rows, rank, alive)
        self._numbers = self._numbers.same(2)


class MissedInHaste(SharedBarrier):
    """The missing learners are read before the dead ones; a learner may arrive and die in between."""

    def _miss(self) -> None:
        awaited = [rank for rank, count in enumerate(self._arrived) if count < self.arrivals]
        if gone := [rank for rank in self.gone() if rank in awaited]:
            raise PeerLost(f"learners {gone} are gone and did not arrive at barrier {self.arrivals}")


class MissedUnasked(SharedBarrier):
    """A dead learner counts as missing, even if it has arrived at this barrier."""

    def _miss(self) -> None:
        if gone := self.gone():
            raise PeerLost(f"learners {gone} are gone and did not arrive at barrier {self.arrivals}")


class PlaceGivenAgain(SharedBarrier):
    """A killed learner may take its place again."""

    def __init__(self, segment: Any, rows: Any, rank: int, alive: Any) -> None:
        try:
            super().__init__(segment, rows, rank, alive)
        except RuntimeError:
            self._locks = list(range(self.learners))
            with suppress(BlockingIOError):
                Flock.flock(rank, Flock.LOCK_EX | Flock.LOCK_NB)


class OneRow(SharedBarrier):
    """All barriers use the same place for their rows."""

    def __init__(self, segment: Any, rows: Any, rank: int, alive: Any) -> None:
        super().__init__(segment, rows, rank, alive)
        self._rows = self._rows.same(2)


class ShownTooLate(SharedBarrier):
    """A learner announces its row before it writes the row."""

    def gather(self, own: Any) -> Any:
        rows = self._rows[self.arrivals % 2]
        self.gather_numbers([], stay=True)
        rows[self.rank, : own.size] = own
        return rows


class LeavesWhenTold(SharedBarrier):
    """A learner that is told to end leaves in the middle of an all-gather."""

    def gather(self, own: Any) -> Any:
        rows = self._rows[self.arrivals % 2]
        rows[self.rank, : own.size] = own
        self.gather_numbers([])
        return rows


# Blocks, rollouts and the account ------------------------------------------------------------------------------------


class CompletedFirst(EnvGroup):
    """A rollout is said to be complete before its last row is written."""

    def advance(self) -> str:
        asked = not self.between_rollouts and self.blocks.acted(self.index) > self.timestep
        if asked and (self.timestep + 1) % self.blocks.horizon == 0:
            self.blocks.mark_completed(self.index, self.timestep // self.blocks.horizon)
        return super().advance()


class ObservedFirst(Blocks):
    """A row is said to be there before it is written."""

    def begin(self, group: int, rollout: int, first: bool) -> None:
        self.mark_observed(group, rollout * self.horizon)
        super().begin(group, rollout, first)


class OpenFirst(Rollouts):
    """Rollouts are opened before the version of their weights is written."""

    def raise_to(self, rollouts: int) -> None:
        before = self.open
        self._open[0] = rollouts
        version = self._newest[0]
        for rollout in range(before, rollouts):
            self._version[rollout % MOST_BLOCKS] = version


class OpenedTooFar(Rollouts):
    """A block is used again while it is still to be learned."""

    def raise_to(self, rollouts: int) -> None:
        super().raise_to(rollouts + 1)


class OpenedBeforeCommitted(RolloutMembers):
    """Blocks are freed before the account says that their rollout is learned."""

    def open_next(self) -> None:
        self.rollouts.raise_to(self.next + self.open_rollouts)
        super().open_next()


class CommitsFirst(CommittedRecord):
    """The word that says which slot is valid is raised before the slot is written."""

    def replace(self, *values: Any) -> None:
        spare = self.before
        self._commits[0] = self.commits + 1
        for array, value in zip(spare, values, strict=True):
            array[: len(value)] = value


class OneLook(CommittedRecord):
    """A reader does not check the word again after reading."""

    def read(self, words: Any = slice(None)) -> tuple[Any, ...]:
        return tuple(np.array(array[words]) for array in self.now)


class AskedFirst(Rollouts):
    """Snapshots are requested before their first rollout is written."""

    def ask(self, rollouts_learned: int) -> int:
        self._hold[0] = self.hold + 1
        self._hold_from[0] = rollouts_learned
        return self.hold


class ReadAtOnce:
    """The participants are read before any simulator was seen to have begun."""

    def __new__(cls, members: Sequence[Blocks], group: int) -> Any:
        active = [member for member in members if member.joined >= 0]
        timesteps = [
            member.acted(group) for member in active if member.takes_part(member.acted(group) // member.horizon)
        ]
        if not timesteps:
            return []
        timestep = min(timesteps)
        participants = [member for member in active if member.takes_part(timestep // member.horizon)]
        if any(member.observed(group) <= timestep for member in participants):
            return []
        return [(member, group, timestep) for member in participants if member.acted(group) == timestep]
