"""The history of emulated games: seeds and actions, from which others can be played to the same place.

ALE's vector interface neither gives nor takes an emulator's state. But a seed, and what was done since, always lead to
the same: so that is kept, a byte a step, and done again. How much of it, depends on what a new game depends on:

* On the games before it, where actions are sticky (their random numbers go on) and in KEEPS_MEMORY: everything since
  the seed is kept. So that this has an end, the first game after RESEED_STEPS steps begins from a new seed, which
  follows from the first one; that takes 0.1 s, as the ROM is loaded again.
* Else only on how many there were: their resets are done again (5 ms each), and the actions of the running one.

Pure: reads and writes arrays. Who steps the games does what ``replay`` says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESEED_STEPS = 25_000
"""At 0.4 ms a step, loading the ROM takes 1 % of them, and to do them again in 16 environments takes 3 minutes."""

KEEPS_MEMORY = frozenset(
    [
        "crossbow",
        "entombed",
        "hangman",
        "haunted_house",
        "ice_hockey",
        "kung_fu_master",
        "pooyan",
        "seaquest",
        "sir_lancelot",
        "space_war",
        "surround",
        "time_pilot",
        "venture",
        "yars_revenge",
    ]
)
"""ROMs that leave something of one game in memory for the next; found by filling it with chance before a reset."""

RESTART = 255
"""Stands in place of an action where a game was begun at will."""
ROOM = 4096
"""Steps there is room for at first."""


@dataclass(frozen=True)
class Move:
    """One call when a history is replayed: a step of all environments, or a reset of some."""

    chosen: NDArray[np.bool_]
    """[B] bool: the environments to be reset, from ``seeds`` if there are any, or those whose step matters."""
    seeds: NDArray[np.int64] | None = None
    action: NDArray[np.int64] | None = None
    """[B] the actions of a step."""


class History:
    """Seeds, number of games and actions of B environments."""

    def __init__(self, seeds: Sequence[int], whole: bool) -> None:
        """``whole``: a new game depends on those before it."""
        self._first = np.array(seeds, np.int64)
        self._whole = whole
        self._environments = np.arange(len(seeds))
        self._seedings = np.zeros(len(seeds), np.int64)
        self._games = np.ones(len(seeds), np.int64)
        """Since the seed, with the running one; counted where they are not kept."""
        self._log = np.zeros((len(seeds), ROOM), np.uint8)
        self._length = np.zeros(len(seeds), np.int64)
        self._room = ROOM
        """Records that there is room for, whoever makes them."""

    def seeds(self) -> NDArray[np.int64]:
        """Seed that each environment has begun from last, or is to begin from."""
        pairs = zip(self._first.tolist(), self._seedings.tolist(), strict=True)
        return np.array([_derived(first, seeding) for first, seeding in pairs], np.int64)

    def begin(self) -> None:
        """Note that all are reset from their first seeds."""
        self._seedings[:], self._games[:], self._length[:] = 0, 1, 0

    def step(self, action: NDArray[Any], begun: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
        """Note a step; in those that have begun it only began a game. Returns who is to be reset from a new seed."""
        self._record(slice(None), action)
        if not begun.any():
            return None
        return self._new_games(begun)

    def restart(self, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Note that the chosen begin a game at will; returns their seeds, -1 for those that need none."""
        reseeded = self._new_games(chosen)
        if self._whole:
            again = chosen if reseeded is None else chosen & ~reseeded
            self._record(again, RESTART)
        seeds = np.full(len(chosen), -1, np.int64)
        if reseeded is not None:
            seeds[reseeded] = self.seeds()[reseeded]
        return seeds[chosen]

    def state(self) -> dict[str, NDArray[Any]]:
        """All of it, as arrays."""
        log = np.concatenate([log[:length] for log, length in zip(self._log, self._length, strict=True)])
        own = {"first": self._first, "seedings": self._seedings, "games": self._games, "length": self._length}
        return {name: array.copy() for name, array in own.items()} | {"log": log}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take over what ``state`` gave; raises KeyError or ValueError."""
        names, count = ("first", "seedings", "games", "length"), len(self._first)
        first, seedings, games, length = (state[name].astype(np.int64) for name in names)
        if any(array.shape != (count,) or array.min() < 0 for array in (first, seedings, games, length)):
            raise ValueError(f"a state of {len(first)} environments, for {count}")
        parts = np.split(state["log"].astype(np.uint8), np.cumsum(length))
        if len(parts[-1]) or sum(map(len, parts)) != length.sum():
            raise ValueError(f"{len(state['log'])} records of {length.sum()} steps")
        self._first, self._seedings, self._games, self._length = first, seedings, games, length
        self._room = 0
        self._log = np.zeros((count, max(ROOM, int(length.max()))), np.uint8)
        for log, part in zip(self._log, parts[:-1], strict=True):
            log[: len(part)] = part

    def replay(self) -> Iterator[Move]:
        """Moves that bring environments, which have been reset, to where these are.

        All are stepped together, so each begins so many steps before the end as it has to take.
        """
        logs = [log[:length].tolist() for log, length in zip(self._log, self._length, strict=True)]
        steps = np.array([len(log) - log.count(RESTART) for log in logs])
        seeds, place = self.seeds(), np.zeros(len(logs), np.int64)
        for left in range(int(steps.max()), -1, -1):
            if (chosen := steps == left).any():
                yield Move(chosen, seeds=seeds[chosen])
                for game in range(1, int(self._games[chosen].max())):
                    yield Move(chosen & (self._games > game))
            while (chosen := self._restarts(logs, place, steps >= left)).any():
                yield Move(chosen)
                place += chosen
            if left:
                moving = steps >= left
                pairs = zip(logs, place.tolist(), moving.tolist(), strict=True)
                yield Move(moving, action=np.array([log[at] if moves else 0 for log, at, moves in pairs]))
                place += moving

    def _restarts(self, logs: Sequence[list[int]], place: NDArray[np.int64], moving: NDArray[np.bool_]) -> Any:
        pairs = zip(logs, place.tolist(), moving.tolist(), strict=True)
        return np.array([moves and at < len(log) and log[at] == RESTART for log, at, moves in pairs])

    def _new_games(self, begun: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
        if self._whole:
            reseeded = begun & (self._length >= RESEED_STEPS)
            if not reseeded.any():
                return None
            self._seedings[reseeded] += 1
            self._length[reseeded] = 0
            return reseeded
        self._games[begun] += 1
        self._length[begun] = 0
        return None

    def _record(self, chosen: slice | NDArray[np.bool_], what: NDArray[Any] | int) -> None:
        if not self._room:
            self._make_room()
        environments = self._environments[chosen]
        self._log[environments, self._length[environments]] = what
        self._length[environments] += 1
        self._room -= 1

    def _make_room(self) -> None:
        needed = int(self._length.max())
        if needed == self._log.shape[1]:
            self._log = np.concatenate([self._log, np.zeros_like(self._log)], axis=1)
        self._room = self._log.shape[1] - needed


def _derived(first: int, seeding: int) -> int:
    """The 31 bits of a seed that follows from the first one."""
    if not seeding:
        return first
    return int(np.random.SeedSequence([first, seeding]).generate_state(1)[0]) >> 1
