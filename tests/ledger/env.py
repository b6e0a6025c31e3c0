"""An environment whose observations identify themselves, with a checksum that shows damage.

``env.id: tests.ledger.env:Ledger``. The identity is (stream, nonce, number): the stream follows from the seed, the
nonce is 0 or unique to this environment, and the number counts its observations, resets included. So the identity says
which environment made an observation, and which observations come before and after it. ``read`` and ``read_all`` undo
``written``.

If ``ACTORLEARN_TEST_LEDGER=<folder>`` is set, each environment draws a nonce, and keeps its counters in a mapped file
of that folder, which survives SIGKILL; ``produced`` reads these files.
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
"""Maximum number of steps of a game; the minimum is 1."""

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
    """Number among all observations of this environment, from 0."""
    actions: int
    """CRC-32 of the game's actions so far."""


class Produced(NamedTuple):
    """Counters of one environment, now or when it was killed."""

    stream: int
    nonce: int
    shown: int
    """Number of observations, of steps and resets."""
    steps: int
    games: int


class DamagedRowError(ValueError):
    """An observation that no ``Ledger`` wrote: poison, or parts of two rows."""


class Ledger(gymnasium.Env[Observation, np.int64]):
    """Observation [32] of bytes; rewards by ``reward_of``; games of 1 to 12 steps that end in both ways."""

    def __init__(self, dtype: str = "uint8") -> None:
        """``dtype`` is uint8 or float32, with the same numbers in it."""
        self.observation_space = gymnasium.spaces.Box(0, 255, (BYTES,), np.dtype(dtype).type)
        self.action_space = gymnasium.spaces.Discrete(ACTIONS)
        self._dtype = dtype
        folder = os.environ.get(VARIABLE) if "describe" not in sys.argv else None  # its steps belong to no run
        self.nonce = secrets.randbits(32) | 1 if folder else 0
        self._page = _mapped(Path(folder, f"{os.getpid()}-{self.nonce:08x}")) if folder else None
        self._stream = self._game = self._step = self._shown = self._steps = self._actions = 0
        self._length, self._terminates = 1, True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin a game; its length and kind of end are drawn from the environment's generator."""
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
        """Return the next observation and its reward."""
        shown = Shown(self._stream, self.nonce, self._game, self._step, self._shown, self._actions)
        self._shown += 1
        if self._page is not None:
            _PAGE.pack_into(self._page, 0, self._stream, self.nonce, self._shown, self._steps, self._game)
        return written(shown, self._dtype), reward_of(shown.stream, shown.number)

    def state(self) -> dict[str, Any]:
        """Return, as plain numbers, all that decides the next rows, except the nonce."""
        names = ("_stream", "_game", "_step", "_shown", "_steps", "_actions", "_length", "_terminates")
        return {"generator": self.np_random.bit_generator.state, **{name: getattr(self, name) for name in names}}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what ``state`` returned."""
        state = dict(state)
        self.np_random.bit_generator.state = state.pop("generator")
        for name, value in state.items():
            setattr(self, name, value)


def reward_of(stream: int, number: int) -> float:
    """Return the reward of a row, exact in float32; rewards of resets are not used."""
    return ((stream + number) * 2654435761 % 2**32 >> 24) / 16


def written(shown: Shown, dtype: str = "uint8") -> Observation:
    """Return the observation with this identity."""
    data = _IDENTITY.pack(*shown)
    return np.frombuffer(data + _CRC.pack(zlib.crc32(data)), np.uint8).astype(dtype)


def read(observation: Observation) -> Shown:
    """Read an observation's identity; raises DamagedRowError."""
    data = np.asarray(observation).astype(np.uint8).tobytes()
    if len(data) != BYTES or _CRC.unpack_from(data, _IDENTITY.size)[0] != zlib.crc32(data[: _IDENTITY.size]):
        raise DamagedRowError(f"damaged observation: {data.hex()}")
    return Shown(*_IDENTITY.unpack_from(data))


def read_all(observations: Observation) -> list[Shown]:
    """Read the identities of observations [N, 32]; raises DamagedRowError."""
    return [read(observation) for observation in observations]


def produced(folder: Path) -> list[Produced]:
    """Return the counters of all environments of this folder that have made observations."""
    pages = [Produced(*_PAGE.unpack_from(path.read_bytes())) for path in sorted(folder.iterdir())]
    return [page for page in pages if page.shown]


def _mapped(path: Path) -> mmap.mmap:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(handle, mmap.PAGESIZE)
        return mmap.mmap(handle, mmap.PAGESIZE)
    finally:
        os.close(handle)
