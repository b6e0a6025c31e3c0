"""History of games: the seeds and actions by which new environments can be brought to the same state.

Neither ALE's vector interface nor EnvPool can save or load the state of a game. But equal seeds and actions always lead
to the same state. So these are recorded, a byte per step of an Atari game, and repeated when a run is resumed. How much
must be recorded depends on the games:

* A game may depend on all games since the environment was seeded. This is so with sticky actions, whose random numbers
  continue across games, and for the ROMs in KEEPS_MEMORY. Then all actions since the seed are recorded. To limit their
  number, the first game that begins after RESEED_STEPS steps gets a new seed, derived from the first one. This takes
  0.1 s, because the ROM is loaded again.
* Otherwise a game depends only on the number of games before it. Then this number and the actions of the running game
  are recorded. A replay repeats a reset for each earlier game (5 ms), and then these actions.

The history only yields the moves of a replay; the class that has the environments carries them out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESEED_STEPS = 25_000
"""Smallest number of steps of an environment between two seeds.

At 0.4 ms a step, loading the ROM for a new seed adds 1 % of the time, and a replay of 16 environments takes up to 3
minutes."""

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
"""Number that is recorded in place of an action where ``restart`` started a game."""
ROOM = 4096
"""Number of steps for which memory is allocated at first."""


@dataclass(frozen=True)
class Move:
    """One call of a replay: a reset of the ``chosen`` environments if ``action`` is None, else a step."""

    chosen: NDArray[np.bool_]
    """[B]: the environments to reset, or for which ``action`` has the recorded action; others take any action."""
    seeds: NDArray[np.int64] | None = None
    """For a reset, the seed of each chosen environment; None: they continue their random numbers."""
    action: NDArray[Any] | None = None
    """[B, …]: the actions of a step, integers or floats."""


class ActionHistory:
    """The recorded seeds, numbers of games and actions of B environments."""

    def __init__(self, seeds: Sequence[int], whole: bool, action: tuple[str, tuple[int, ...]] = ("uint8", ())) -> None:
        """Begin an empty history.

        ``whole``: all actions since the seed are recorded, because a game depends on those before it; otherwise only
        those of the running game. ``action``: dtype and shape in which an action is recorded.
        """
        self._own_seeds = np.array(seeds, np.int64)
        self._first = self._own_seeds
        """[B] seeds from which the recorded games began: those of the saved run after `restore`."""
        self._whole = whole
        self._environments = np.arange(len(seeds))
        self._seedings = np.zeros(len(seeds), np.int64)
        self._games = np.ones(len(seeds), np.int64)
        """[B] games since the seed, including the running one; counted only if not ``whole``."""
        self._log = np.zeros((len(seeds), ROOM, *action[1]), action[0])
        self._length = np.zeros(len(seeds), np.int64)
        self._room = ROOM
        """Number of records that can be added for each environment before more memory must be allocated."""

    def seeds(self) -> NDArray[np.int64]:
        """Return the newest seed of each environment, [B], which the caller may not have passed to a reset yet."""
        pairs = zip(self._first.tolist(), self._seedings.tolist(), strict=True)
        return np.array([_derived(first, seeding) for first, seeding in pairs], np.int64)

    def begin(self) -> None:
        """Record a reset of all environments from the seeds that the history was made with, also after `restore`."""
        self._first = self._own_seeds
        self._seedings[:], self._games[:], self._length[:] = 0, 1, 0

    def step(self, action: NDArray[Any], begun: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
        """Record a step; in the environments ``begun`` [B] it only started a game and ignored the action.

        Returns the environments [B] that the caller must now reset with a new seed (`seeds`), or None if there are
        none.
        """
        self._record(slice(None), action)
        if not begun.any():
            return None
        return self._new_games(begun)

    def restart(self, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Record that the chosen environments [B] start a game; return the seed of each of them for the reset.

        The seed is -1 if the environment continues its random numbers.
        """
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
        """Restore what `state` returned; raises KeyError or ValueError if it does not fit."""
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
        """Yield the resets and steps that bring newly made environments to the recorded state.

        The caller must carry out each move. All environments are stepped together. An environment with fewer recorded
        steps is reset later, so that all reach the recorded state after the same move.
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
    """Return an environment's seed number ``seeding``: ``first`` for 0, else a 31-bit seed derived from it."""
    if not seeding:
        return first
    return int(np.random.SeedSequence([first, seeding]).generate_state(1)[0]) >> 1
