"""An environment whose every observation says which row it is, and by a checksum that it is whole.

``env.id: tests.ledger.env:Ledger``. A row's identity is (stream, nonce, number): the stream follows from the seed, the
nonce is 0 or this object's own, and number counts what this object has shown, resets included. So whoever sees a row
anywhere knows where it came from, and what should have come before and after it. ``read`` and ``read_all`` undo
``written``.

With ``ACTORLEARN_TEST_LEDGER=<folder>`` in the environment every object has a nonce, and a page in a file there, mapped
so that it outlives SIGKILL: what was produced, by its counters (``produced``).
"""

from __future__ import annotations

import mmap
import os
import secrets
import struct
import sys
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import numpy.typing as npt

VARIABLE = "ACTORLEARN_TEST_LEDGER"
ACTIONS = 4
MOST_STEPS = 12
"""Most steps of a game; the fewest are one."""

_IDENTITY = struct.Struct("<IIIIQI")
_CRC = struct.Struct("<I")
BYTES = _IDENTITY.size + _CRC.size
_PAGE = struct.Struct("<IIQQQ")

Observation = npt.NDArray[Any]


class Shown(NamedTuple):
    """The identity that an observation carries."""

    stream: int
    nonce: int
    game: int
    """From 1."""
    step: int
    """Step of the game; 0 is a reset."""
    number: int
    """Number among all that this environment has shown, from 0."""
    actions: int
    """CRC-32 of the game's actions so far."""


class Produced(NamedTuple):
    """Production of one environment until now, or until it was killed."""

    stream: int
    nonce: int
    shown: int
    """Observations: steps and resets; numbers are below it."""
    steps: int
    games: int


class DamagedRowError(ValueError):
    """An observation that no ``Ledger`` has made: poison, torn, or of two rows."""


class Ledger(gymnasium.Env[Observation, np.int64]):
    """Observation [32] of bytes; rewards by ``reward_of``; games of 1 to 12 steps that end in both ways."""

    def __init__(self, dtype: str = "uint8") -> None:
        """``dtype`` is uint8 or float32, with the same numbers in it."""
        self.observation_space = gymnasium.spaces.Box(0, 255, (BYTES,), np.dtype(dtype).type)
        self.action_space = gymnasium.spaces.Discrete(ACTIONS)
        self._dtype = dtype
        folder = os.environ.get(VARIABLE) if "describe" not in sys.argv else None  # whose steps are of no run
        self.nonce = secrets.randbits(32) | 1 if folder else 0
        self._page = _mapped(Path(folder, f"{os.getpid()}-{self.nonce:08x}")) if folder else None
        self._stream = self._game = self._step = self._shown = self._steps = self._actions = 0
        self._length, self._terminates = 1, True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """A game of a length, and with an end, drawn from the environment's generator."""
        super().reset(seed=seed, options=options)
        if seed is not None:
            self._stream = zlib.crc32(str(seed).encode())
        self._game += 1
        self._step = self._actions = 0
        self._length = int(self.np_random.integers(1, MOST_STEPS + 1))
        self._terminates = bool(self.np_random.integers(2))
        return self.show()[0], {}

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """The game's next row."""
        self._step += 1
        self._steps += 1
        self._actions = zlib.crc32(bytes([int(action)]), self._actions)
        observation, reward = self.show()
        over = self._step >= self._length
        return observation, reward, over and self._terminates, over and not self._terminates, {}

    def show(self) -> tuple[Observation, float]:
        """The observation of what is shown now, and the reward that leads to it."""
        shown = Shown(self._stream, self.nonce, self._game, self._step, self._shown, self._actions)
        self._shown += 1
        if self._page is not None:
            _PAGE.pack_into(self._page, 0, self._stream, self.nonce, self._shown, self._steps, self._game)
        return written(shown, self._dtype), reward_of(shown.stream, shown.number)

    def state(self) -> dict[str, Any]:
        """Everything that the next rows follow from, but for the nonce, as plain numbers."""
        names = ("_stream", "_game", "_step", "_shown", "_steps", "_actions", "_length", "_terminates")
        return {"generator": self.np_random.bit_generator.state, **{name: getattr(self, name) for name in names}}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what ``state`` gave."""
        state = dict(state)
        self.np_random.bit_generator.state = state.pop("generator")
        for name, value in state.items():
            setattr(self, name, value)


def reward_of(stream: int, number: int) -> float:
    """Reward of a row, exact in float32; that of a reset counts nowhere."""
    return ((stream + number) * 2654435761 % 2**32 >> 24) / 16


def written(shown: Shown, dtype: str = "uint8") -> Observation:
    """The observation that says this."""
    data = _IDENTITY.pack(*shown)
    return np.frombuffer(data + _CRC.pack(zlib.crc32(data)), np.uint8).astype(dtype)


def read(observation: Observation) -> Shown:
    """Read an observation's identity; raises DamagedRowError."""
    data = np.asarray(observation).astype(np.uint8).tobytes()
    if len(data) != BYTES or _CRC.unpack_from(data, _IDENTITY.size)[0] != zlib.crc32(data[: _IDENTITY.size]):
        raise DamagedRowError(f"not as it was made: {data.hex()}")
    return Shown(*_IDENTITY.unpack_from(data))


def read_all(observations: Observation) -> list[Shown]:
    """Read the identities of observations [N, 32]; raises DamagedRowError."""
    return [read(observation) for observation in observations]


def produced(folder: Path) -> list[Produced]:
    """Production of all environments that were told of this folder; those that showed nothing are left out."""
    pages = [Produced(*_PAGE.unpack_from(path.read_bytes())) for path in sorted(folder.iterdir())]
    return [page for page in pages if page.shown]


def _mapped(path: Path) -> mmap.mmap:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(handle, mmap.PAGESIZE)
        return mmap.mmap(handle, mmap.PAGESIZE)
    finally:
        os.close(handle)
