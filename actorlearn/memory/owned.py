"""Directories that belong to a living process, so that directories of dead runs can be found and removed.

Each directory has a lock file, which its owner keeps locked (flock). The kernel releases the lock when the owner ends,
for whatever reason, so a free lock proves that the owner is dead. This works across containers too, where process ids
cannot be compared.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
from pathlib import Path


class OwnedDirectory:
    """A directory that this process keeps locked, so that others can tell whether its owner is alive."""

    def __init__(self, path: Path, lock: int) -> None:
        """Wrap a directory that is already locked; call ``create`` instead."""
        self.path = path
        self._lock = lock

    @classmethod
    def create(cls, path: Path) -> OwnedDirectory:
        """Make and lock a directory with mode 0700; raises FileExistsError if it exists."""
        hidden = path.with_name(f".{path.name}")  # until it is locked, a concurrent `sweep` would remove it
        hidden.mkdir(mode=0o700)
        lock = os.open(hidden / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        hidden.rename(path)
        return cls(path, lock)

    def close(self) -> None:
        """Remove the directory and everything in it, then release the lock."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def name_of(run_id: str) -> str:
    """Return the name of a run's directory, made from the user's id and the run's id."""
    return f"actorlearn-{os.getuid()}-{run_id}"


def owned_directories(root: Path) -> tuple[list[Path], list[Path]]:
    """Return this user's run directories in ``root``: first those with a living owner, then those with a dead one."""
    living: list[Path] = []
    dead: list[Path] = []
    for path in sorted(root.glob(name_of("*"))):
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            continue  # its run has just ended
        own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
        if own and re.fullmatch(r"actorlearn-\d+-[A-Za-z0-9._-]{1,100}", path.name):
            (living if _owner_lives(path) else dead).append(path)
    return living, dead


def sweep(root: Path) -> list[str]:
    """Remove the directories of this user's runs in ``root`` whose owner is dead; returns their run ids."""
    _, dead = owned_directories(root)
    for path in dead:
        shutil.rmtree(path, ignore_errors=True)
    return [path.name.split("-", 2)[2] for path in dead]


def _owner_lives(path: Path) -> bool:
    try:
        lock = os.open(path / "lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # unknown: keep the directory
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
