"""History of games: the seeds and actions that bring new emulators to the same state.

Neither ALE's vector interface nor EnvPool can save or load the state of a game. But the same seed and actions always
lead to the same state, so these are stored (a byte per step of an Atari game) and repeated. How much is stored depends
on how games depend on one another:

* With sticky actions (their random numbers continue across games) and for ROMs in KEEPS_MEMORY, a game depends on all
  games since the seed, so everything since the seed is stored. To limit this, the first game after RESEED_STEPS steps
  starts from a new seed derived from the first one; this takes 0.1 s, because the ROM is loaded again.
* Otherwise a game depends only on the number of games before it. Their resets are repeated (5 ms each), and then the
  actions of the running game.

Pure: reads and writes arrays. The owner of the emulators carries out the moves that ``replay`` yields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESEED_STEPS = 25_000
"""Steps between two seeds. At 0.4 ms a step, loading the ROM adds 1 %; a replay of 16 environments takes 3 minutes."""

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
"""ROMs whose memory after a reset depends on the previous game; found by filling the memory with random bytes."""

RESTART = 255
"""Code in place of an action where a game was started by ``restart``."""
ROOM = 4096
"""Steps allocated at first."""


@dataclass(frozen=True)
class Move:
    """One call when a history is replayed: a step of all environments, or a reset of some."""

    chosen: NDArray[np.bool_]
    """[B] bool: the environments to reset, from ``seeds`` if given; for a step, the environments that it belongs to."""
    seeds: NDArray[np.int64] | None = None
    action: NDArray[Any] | None = None
    """[B, …] the actions of a step, integers or floats."""


class ActionHistory:
    """Seeds, number of games and actions of B environments."""

    def __init__(self, seeds: Sequence[int], whole: bool, action: tuple[str, tuple[int, ...]] = ("uint8", ())) -> None:
        """Begin an empty history. ``whole``: a game depends on those before it. ``action``: stored dtype and shape."""
        self._first = np.array(seeds, np.int64)
        self._whole = whole
        self._environments = np.arange(len(seeds))
        self._seedings = np.zeros(len(seeds), np.int64)
        self._games = np.ones(len(seeds), np.int64)
        """[B] games since the seed, including the running one; counted only if older actions are not stored."""
        self._log = np.zeros((len(seeds), ROOM, *action[1]), action[0])
        self._length = np.zeros(len(seeds), np.int64)
        self._room = ROOM
        """Records allocated per environment."""

    def seeds(self) -> NDArray[np.int64]:
        """Return the seed [B] from which each environment was last seeded, or will be seeded next."""
        pairs = zip(self._first.tolist(), self._seedings.tolist(), strict=True)
        return np.array([_derived(first, seeding) for first, seeding in pairs], np.int64)

    def begin(self) -> None:
        """Record a reset of all environments from their first seeds."""
        self._seedings[:], self._games[:], self._length[:] = 0, 1, 0

    def step(self, action: NDArray[Any], begun: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
        """Record a step; in environments ``begun`` [B] it only started a game. Returns which to reseed [B], or None."""
        self._record(slice(None), action)
        if not begun.any():
            return None
        return self._new_games(begun)

    def restart(self, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Record that the chosen environments [B] start a game; returns their new seeds, -1 for an unchanged one."""
        reseeded = self._new_games(chosen)
        if self._whole:
            again = chosen if reseeded is None else chosen & ~reseeded
            self._record(again, RESTART)
        seeds = np.full(len(chosen), -1, np.int64)
        if reseeded is not None:
            seeds[reseeded] = self.seeds()[reseeded]
        return seeds[chosen]

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the whole history, as arrays."""
        log = np.concatenate([log[:length] for log, length in zip(self._log, self._length, strict=True)])
        own = {"first": self._first, "seedings": self._seedings, "games": self._games, "length": self._length}
        return {name: array.copy() for name, array in own.items()} | {"log": log}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore the arrays of ``state``; raises KeyError or ValueError."""
        names, count = ("first", "seedings", "games", "length"), len(self._first)
        first, seedings, games, length = (state[name].astype(np.int64) for name in names)
        if any(array.shape != (count,) or array.min() < 0 for array in (first, seedings, games, length)):
            raise ValueError(f"the history has {len(first)} environments instead of {count}")
        shape = self._log.shape[2:]
        parts = np.split(state["log"].astype(self._log.dtype), np.cumsum(length))
        if len(parts[-1]) or sum(map(len, parts)) != length.sum() or state["log"].shape[1:] != shape:
            raise ValueError(f"the history has {len(state['log'])} records instead of {length.sum()}")
        self._first, self._seedings, self._games, self._length = first, seedings, games, length
        self._room = 0
        self._log = np.zeros((count, max(ROOM, int(length.max())), *shape), self._log.dtype)
        for log, part in zip(self._log, parts[:-1], strict=True):
            log[: len(part)] = part

    def replay(self) -> Iterator[Move]:
        """Yield the moves that bring newly made environments to the recorded state.

        All environments are stepped together, so one with fewer steps to repeat starts later, and all end together.
        """
        logs = [log[:length].tolist() for log, length in zip(self._log, self._length, strict=True)]
        steps = np.array([len(log) - (log.count(RESTART) if self._whole else 0) for log in logs])
        none = np.zeros(self._log.shape[2:], self._log.dtype).tolist()
        seeds, place = self.seeds(), np.zeros(len(logs), np.int64)
        for left in range(int(steps.max()), -1, -1):
            if (chosen := steps == left).any():
                yield Move(chosen, seeds=seeds[chosen])
                for game in range(1, int(self._games[chosen].max())):
                    yield Move(chosen & (self._games > game))
            while self._whole and (chosen := self._restarts(logs, place, steps >= left)).any():
                yield Move(chosen)
                place += chosen
            if left:
                moving = steps >= left
                pairs = zip(logs, place.tolist(), moving.tolist(), strict=True)
                yield Move(moving, action=np.array([log[at] if moves else none for log, at, moves in pairs]))
                place += moving

    def _restarts(self, logs: Sequence[list[Any]], place: NDArray[np.int64], moving: NDArray[np.bool_]) -> Any:
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
    """Return the 31-bit seed with number ``seeding`` that is derived from the first seed (number 0)."""
    if not seeding:
        return first
    return int(np.random.SeedSequence([first, seeding]).generate_state(1)[0]) >> 1
