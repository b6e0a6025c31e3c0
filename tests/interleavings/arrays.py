"""Stand-ins for what processes share: arrays that ask the explorer for every word, and locks on files."""

from __future__ import annotations

import fcntl
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from actorlearn.memory.fields import Field
from actorlearn.wire.messages import Member
from tests.interleavings.code import LOAD, TRY, UNLOCK, running


class Words:
    """Names and first values of all words of a scenario, by their addresses."""

    def __init__(self) -> None:
        _words[:] = [self]
        self.names: list[str] = []
        self.values: list[Any] = []
        self.segments: dict[str, SharedSegment] = {}
        self.locks: list[str] = []
        self.opened: dict[Path, Any] = {}
        """Blocks of members, by the path of their segment."""

    def create(self, path: str, fields: Sequence[Field]) -> SharedSegment:
        """A new segment, poisoned."""
        assert path not in self.segments
        self.segments[path] = SharedSegment(self, path, fields)
        return self.segments[path]

    def allocate(self, path: str, field: Field) -> Any:
        """Addresses for a field's words, as an array of its shape."""
        count = math.prod(field.shape)
        first, poison = len(self.values), 0 if field.poison is None else field.poison
        places = np.ndindex(*field.shape)
        self.names += [f"{path}.{field.name}[{','.join(map(str, place))}]" for place in places]
        self.values += [_plain(np.dtype(field.dtype).type(poison))] * count
        return np.arange(first, first + count).reshape(field.shape)

    def lock(self, path: str) -> int:
        """Return the number of the lock of a file."""
        if path not in self.locks:
            self.locks.append(path)
        return self.locks.index(path)


_words: list[Words] = []
"""Words of the newest scenario, to which paths in the code under test lead."""


class SharedSegment:
    """A Segment over words of a scenario."""

    def __init__(self, words: Words, path: str, fields: Sequence[Field]) -> None:
        self.path = Path(path)
        self.fields = list(fields)
        self.words = words
        dtypes = {field.name: np.dtype(field.dtype) for field in fields}
        self._arrays = {f.name: SharedArray(words, words.allocate(path, f), dtypes[f.name]) for f in fields}

    def __getitem__(self, name: str) -> SharedArray:
        return self._arrays[name]

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def close(self) -> None:
        """Nothing is mapped."""

    unlink = close


class SharedArray:
    """A numpy array over a segment: every element read or written is one word, in the order of the array."""

    def __init__(self, words: Words, at: Any, dtype: Any) -> None:
        self._words, self.at, self.dtype = words, at, dtype
        self.shape: tuple[int, ...] = at.shape
        self.size: int = at.size

    def __repr__(self) -> str:
        return f"SharedArray({self.at.tolist()})"

    def __getitem__(self, key: Any) -> Any:
        at = self.at[_key(key)]
        if not isinstance(at, np.ndarray):
            return self._load(at)
        array = SharedArray(self._words, at, self.dtype)
        indices = key if isinstance(key, tuple) else (key,)
        return np.asarray(array) if any(isinstance(index, np.ndarray | list) for index in indices) else array

    def same(self, times: int) -> SharedArray:
        """Return an array of which each element is the first of these."""
        return SharedArray(self._words, self.at[[0] * times], self.dtype)

    def __setitem__(self, key: Any, value: Any) -> None:
        at = self.at[_key(key)]
        if not isinstance(at, np.ndarray):
            return self._store(at, value, 0)
        if isinstance(value, SharedArray) and value.at.shape == at.shape and (value.at == at).all():
            return None  # the end of `array[…] += …`
        values = np.broadcast_to(np.asarray(value), at.shape).ravel()
        run = running()
        bulk = run.bulk() if run and at.size > 1 else 0
        for address, one in zip(at.ravel(), values, strict=True):
            self._store(address, one, bulk)
        return None

    def _load(self, address: Any) -> Any:
        run = running()
        if run is None:
            return self._words.values[address]
        return run.ask(LOAD, int(address))

    def _store(self, address: Any, value: Any, bulk: int) -> None:
        plain, run = _plain(self.dtype.type(value)), running()
        if run is None:
            self._words.values[address] = plain
        else:
            run.store(int(address), plain, bulk)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        values = [self._load(address) for address in self.at.ravel()]
        return np.array(values, self.dtype).reshape(self.shape).astype(dtype or self.dtype)

    def copy(self) -> Any:
        return np.asarray(self)

    def fill(self, value: Any) -> None:
        self[...] = value

    def view(self, dtype: Any) -> SharedArray:
        assert np.dtype(dtype) == self.dtype, "a word has one dtype"
        return self

    def reshape(self, *shape: int) -> SharedArray:
        return SharedArray(self._words, self.at.reshape(*shape), self.dtype)

    def __len__(self) -> int:
        return len(self.at)

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self.at)))

    def __iadd__(self, other: Any) -> SharedArray:
        self[...] = np.asarray(self) + other
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(np.asarray(self), name)  # min, max, sum, any, tolist, …: numpy's, of all words

    def __add__(self, other: Any) -> Any:
        return np.asarray(self) + other

    def __sub__(self, other: Any) -> Any:
        return np.asarray(self) - other

    def __mod__(self, other: Any) -> Any:
        return np.asarray(self) % other

    def __eq__(self, other: object) -> Any:
        return np.asarray(self) == other

    __hash__ = None  # type: ignore[assignment]

    def __invert__(self) -> Any:
        return ~np.asarray(self)

    def __or__(self, other: Any) -> Any:
        return np.asarray(self) | np.asarray(other)


def _key(key: Any) -> Any:
    """Read indices that are words of shared memory themselves."""
    return np.asarray(key) if isinstance(key, SharedArray) else key


def _plain(value: Any) -> Any:
    plain = value.item()
    return math.nan if plain != plain else plain  # one object, which is equal to itself in a tuple


class OpenedSegment:
    """Replaces ``Segment``; opens segments that the scenario has created."""

    @staticmethod
    def open(path: Path) -> SharedSegment:
        return _words[0].segments[path.name]


def open_members(members: Sequence[Member], _known: object) -> dict[str, Any]:
    """Replaces the function of this name; returns blocks of members by peer id."""
    return {member.id.socket_id: _words[0].opened[member.segment.file] for member in members}


def write_snapshot(_path: object, arrays: tuple[int, int]) -> None:
    """Replaces the writing of a snapshot file: one word holds its number and its first rollout."""
    number, since = arrays
    _words[0].segments["file"]["of"][0] = 100 * number + since


class Files:
    """Replaces ``os`` for files of locks; a descriptor is the lock's number.

    Closing releases the lock, because no process opens a lock twice here.
    """

    O_RDWR = O_CREAT = O_CLOEXEC = O_NOFOLLOW = 0

    @staticmethod
    def open(path: str, *_: object) -> int:
        return _words[0].lock(path)

    @staticmethod
    def close(lock: int) -> None:
        _unlock(lock)


class Flock:
    """Replaces ``fcntl``; files must be locked without waiting."""

    LOCK_EX, LOCK_SH, LOCK_NB, LOCK_UN = fcntl.LOCK_EX, fcntl.LOCK_SH, fcntl.LOCK_NB, fcntl.LOCK_UN

    @staticmethod
    def flock(lock: int, operation: int) -> None:
        if operation == fcntl.LOCK_UN:
            _unlock(lock)
        elif (run := running()) is not None:
            assert operation & fcntl.LOCK_NB, "a process must not wait for a lock, because its holder may be stopped"
            if not run.ask(TRY, (lock, bool(operation & fcntl.LOCK_EX))):
                raise BlockingIOError


def _unlock(lock: int) -> None:
    if (run := running()) is not None:
        run.ask(UNLOCK, lock)


def sleep(_seconds: float = 0.0) -> None:
    """Replaces ``time.sleep``."""
    if (run := running()) is not None:
        run.wait()


CLOCK = SimpleNamespace(monotonic=lambda: 0.0, monotonic_ns=lambda: 0, sleep=sleep)
"""Replaces ``time``; it stands still, because each new time would make a new state."""


class Silent:
    """Replaces ``Wakeup`` and ``Wakeups`` and wakes nothing, because each wakeup may be lost."""

    def __init__(self, *_: object) -> None: ...

    def wake_all(self) -> None: ...

    def wake(self, _listener: str) -> bool:
        return True

    def close(self) -> None: ...


class LooksAgain:
    """Replaces ``Waiter``; it is never woken, and always looks again."""

    def __init__(self, *_: object) -> None: ...

    def wait(self, _milliseconds: float) -> bool:
        sleep()
        return False
