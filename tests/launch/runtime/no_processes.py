"""A spawner that starts no processes."""

from __future__ import annotations

import os
import selectors

from launch.spawning.spawner import Key


class NoProcesses:
    """Replaces the spawner: a process is a pipe that reports an exit when the process is sent a signal."""

    def __init__(self, *_: object) -> None:
        self._selector = selectors.EpollSelector()
        self._exits: dict[Key, tuple[int, int]] = {}
        self._codes: dict[Key, int] = {}

    @property
    def fd(self) -> int:
        return self._selector.fileno()

    def ended(self) -> list[Key]:
        return [key.data for key, _ in self._selector.select(0)]

    def spawn(self, name: str, incarnation: int, *_: object) -> int:
        self._exits[name, incarnation] = os.pipe()
        self._selector.register(self._exits[name, incarnation][0], selectors.EVENT_READ, (name, incarnation))
        return os.getpid()  # the hang detector looks at the activity of this process and its descendants

    def kill(self, name: str, incarnation: int, sent: int) -> None:
        if (name, incarnation) in self._exits:
            self._codes[name, incarnation] = -sent
            os.write(self._exits[name, incarnation][1], b"x")

    def show_stack(self, name: str, incarnation: int, about: str) -> None:
        pass

    def reap(self, key: Key) -> int:
        self._selector.unregister(self._exits[key][0])
        for end in self._exits.pop(key):
            os.close(end)
        return self._codes.pop(key)

    def lease(self, until_s: float) -> None:
        pass

    def reap_orphans(self) -> None:
        pass

    def close(self) -> None:
        for key in list(self._exits):
            self._codes[key] = -9
            self.reap(key)
        self._selector.close()
