"""Control groups that limit this process's time on the cores: versions 1 and 2, nested, and both at once.

Reads /proc/self/cgroup, /proc/self/mountinfo and the files of the groups that they name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PROCESS = Path("/proc/self")
AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")
QUOTA_FILE = {1: "cpu.cfs_quota_us", 2: "cpu.max"}
"""Version -> file with a group's quota: its processor time per period."""
PERIOD_FILE = "cpu.cfs_period_us"
"""File with the period of version 1; version 2 has both numbers in one file."""


@dataclass(frozen=True)
class Quota:
    """A limit on the processor time of all processes in a control group together."""

    cores: float
    """Processor seconds per second; 1.5 is one core and half of another, or three quarters of two."""
    file: Path
    """File that sets the limit."""
    version: int


@dataclass(frozen=True)
class Cgroup:
    """The control group of this process, in a hierarchy of groups that can limit processor time."""

    version: int
    folder: Path
    mount: Path
    """Root of the hierarchy, or of the part that a container sees."""

    def quota(self) -> Quota | None:
        """Return the lowest limit of this group and the groups that contain it; None if there is no limit."""
        inside = self.folder.relative_to(self.mount)
        around = [self.mount / part for part in (inside, *inside.parents)]
        found = [
            Quota(cores, folder / QUOTA_FILE[self.version], self.version) for folder, cores in self._limits(around)
        ]
        return min(found, key=lambda quota: quota.cores, default=None)

    def _limits(self, folders: list[Path]) -> Iterator[tuple[Path, float]]:
        for folder in folders:
            try:
                words = (folder / QUOTA_FILE[self.version]).read_text().split()
                if self.version == 1:
                    words += (folder / PERIOD_FILE).read_text().split()
                limit_us, period_us = words
                if limit_us not in ("max", "-1"):
                    yield folder, int(limit_us) / int(period_us)
            except (OSError, ValueError, ZeroDivisionError):
                continue  # the root of a hierarchy has no limit, and a sandbox may hide the files


def groups(process: Path = PROCESS) -> list[Cgroup]:
    """Return the control groups that can limit this process's time: at most one of version 1, and one of version 2."""
    try:
        paths = _paths(_lines(process / "cgroup"))
        lines = _lines(process / "mountinfo")
    except OSError:
        return []
    found = []
    for line in lines:
        mounted, _, rest = line.partition(" - ")
        words, ends = mounted.split(" "), rest.split(" ", 2)
        if len(words) < 5 or len(ends) < 3:
            continue
        root, mount = (_unescaped(word) for word in words[3:5])
        kind, _, options = ends
        version = 2 if kind == "cgroup2" else 1 if kind == "cgroup" and "cpu" in options.split(",") else None
        if version in paths:
            found.append(Cgroup(version, _below(Path(mount), Path(root), paths[version]), Path(mount)))
    return found


def quota(process: Path = PROCESS) -> Quota | None:
    """Return the lowest limit on this process's processor time, over all its groups; None if there is no limit."""
    limits = [limit for group in groups(process) if (limit := group.quota())]
    return min(limits, key=lambda limit: limit.cores, default=None)


def autogroups(file: Path = AUTOGROUP) -> bool | None:
    """Whether the kernel divides the cores among sessions, so that nice works only within a session; None: unknown.

    This concerns only processes in the root control group.
    """
    try:
        return file.read_text().strip() == "1"
    except OSError:
        return None


def _lines(file: Path) -> list[str]:
    """Return the lines of a file of the kernel, in which names may contain any bytes except a newline."""
    return file.read_bytes().decode(errors="surrogateescape").rstrip("\n").split("\n")


def _paths(lines: Iterable[str]) -> dict[int, Path]:
    """Return version -> path of the group in its hierarchy, from lines such as ``4:cpu,cpuacct:/a/b`` and ``0::/c``."""
    paths = {}
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0":
            paths[2] = Path(path)
        elif "cpu" in controllers.split(","):
            paths[1] = Path(path)
    return paths


def _below(mount: Path, root: Path, path: Path) -> Path:
    """Return the folder of the group ``path``, where ``mount`` shows ``root``; the mount if the group is not below."""
    folder = mount / path.relative_to(root) if path.is_relative_to(root) and ".." not in path.parts else mount
    return folder if folder.is_dir() else mount


def _unescaped(word: str) -> str:
    r"""Return a word of mountinfo unescaped; the kernel writes a space as ``\040``."""
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), word)
