"""Census of a run, and of what is left of it: processes, threads, descriptors, segments, sockets, ports, files."""

from __future__ import annotations

import json
import os
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.chaos import topologies
from tests.chaos.living import Living

GONE = " (deleted)"


@dataclass(frozen=True)
class Survivor:
    """One process at one moment."""

    fds: tuple[str, ...]
    threads: int
    deleted: int
    """Mapped segments whose files are gone."""
    zombies: int
    """Children that it has not waited for."""


def survivors(run: Living) -> dict[str, Survivor]:
    """All processes of the run, by name and process id."""
    found = {}
    pids = {process.name: process.pid for process in run.life.processes.values()}
    if run.process is not None:
        pids["supervisor"] = run.process.pid
    pids |= {f"guardian {node}": pid for node, pid in run.guardians().items()}
    if topologies.over_nodes(run.mode):
        pids |= {f"agent {node}": pid for node, pid in run.agents().items()}
    for name, pid in pids.items():
        with suppress(OSError):
            found[f"{name} {pid}"] = survivor(pid, str(run.rows.folder))
    return found


def survivor(pid: int, but: str = "no such folder") -> Survivor:
    """Return what a process has, without files of the folder ``but``, which tests open when they first need them."""
    folder = Path(f"/proc/{pid}")
    fds = []
    for handle in (folder / "fd").iterdir():
        with suppress(OSError):
            target = os.readlink(handle).partition(":[")[0]
            if not target.startswith(but) and "/tensorboard/" not in target:  # opened with the first number
                fds.append(target)
    maps = (folder / "maps").read_text().splitlines()
    deleted = {line.split(None, 5)[5] for line in maps if "/dev/shm/actorlearn" in line and "(deleted)" in line}
    children = (folder / "task" / str(pid) / "children").read_text().split()
    zombies = [child for child in children if _state(child) == "Z"]
    return Survivor(tuple(sorted(fds)), len(list((folder / "task").iterdir())), len(deleted), len(zombies))


def _state(pid: str) -> str:
    with suppress(OSError):
        stat = Path(f"/proc/{pid}/stat").read_text()
        return stat[stat.rindex(")") + 2]
    return ""


def grown(before: dict[str, Survivor], after: dict[str, Survivor]) -> list[str]:
    """Return what processes that were there all the time have more of than before."""
    found = []
    for name in before.keys() & after.keys():
        was, now = before[name], after[name]
        others = [fd for fd in now.fds if not _of_the_living(fd)]
        had = [fd for fd in was.fds if not _of_the_living(fd)]
        if len(others) > len(had):
            more = sorted((Counter(others) - Counter(had)).elements())
            found.append(f"{name} has {len(others)} descriptors, and had {len(had)}: more of {more}")
        once = Counter(fd.removesuffix(GONE) for fd in now.fds if _of_the_living(fd))
        open_before = Counter(fd.removesuffix(GONE) for fd in was.fds)
        if twice := [fd for fd, count in once.items() if count > max(1, open_before[fd])]:
            found.append(f"{name} has more than one descriptor of {sorted(twice)}")
        if now.threads > was.threads:
            found.append(f"{name} has {now.threads} threads, and had {was.threads}")
        if now.deleted > was.deleted:
            found.append(f"{name} has {now.deleted} segments mapped that are gone, and had {was.deleted}")
    for name, now in after.items():
        if now.zombies:
            found.append(f"{name} has {now.zombies} zombies")
    return found


def _of_the_living(fd: str) -> bool:
    """Whether a descriptor is of an existing segment or of any wakeup, which are opened when they are first needed.

    There may be one of each. A removed segment is not among them, because its users must have closed it.
    """
    wakeup = fd.removesuffix(GONE).endswith(".wakeup")
    return wakeup or ("/dev/shm/actorlearn" in fd and not fd.endswith(GONE))


def segments(run: Living) -> list[str]:
    """Files of the run in its /dev/shm."""
    return [path.name for path in run.shared("*")]


def listeners(run: Living) -> list[str]:
    """Ports that processes of the run listen on."""
    inodes = set()
    for pid in run.all_pids():
        with suppress(OSError):
            for handle in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    target = os.readlink(handle)
                    if target.startswith("socket:["):
                        inodes.add(target[8:-1])
    found = []
    for table in ("tcp", "tcp6", "udp", "udp6"):
        with suppress(OSError):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                parts = line.split()
                if parts[9] in inodes and (table.startswith("udp") or parts[3] == "0A"):
                    found.append(f"{table} {parts[1]}")
    return found


def left(run: Living) -> list[str]:
    """Everything that is left of a run that has ended."""
    found = [f"process {pid}: {_command(pid)}" for pid in run.all_pids()]
    found += [f"/dev/shm/{path.name}" for path in run.stage.shared.iterdir() if path.name != "ballast"]
    found += [f"in the folder of sockets: {path.name}" for path in run.stage.sockets.iterdir()]
    found += [f"in the folder of nodes: {path.name}" for path in run.stage.temporary.iterdir()]
    sockets = Path("/proc/net/unix").read_text().splitlines()
    found += [line for line in sockets if str(run.stage.sockets) in line]
    return found


def files_left(run: Living, keep: int, learners: int) -> list[str]:
    """Return temporary files in the run's folder, and a line if it has more checkpoints than it should keep."""
    found: list[str] = []
    checkpoints: dict[Path, list[int]] = {}  # steps by the folder of a learner's checkpoints
    for folder, names, files in os.walk(run.folder):
        found += [f"{Path(folder, name).relative_to(run.folder)}" for name in (*names, *files) if name.startswith(".")]
        if Path(folder).is_relative_to(run.folder / "checkpoints") and "manifest.json" in files:
            checkpoints.setdefault(Path(folder).parent, []).append(int(Path(folder).name))
    spared = 1 if learners > 1 else 0  # the newest that all learners in step have, however many newer ones some have
    newest = {folder: sorted(steps)[-keep - spared :] for folder, steps in checkpoints.items()}
    kept = sum(map(len, newest.values()))
    kept += sum(_best(run, steps) not in (None, *newest[folder]) for folder, steps in checkpoints.items())
    most = min(kept, (keep + spared + 1) * learners) + _earlier_best(run, checkpoints)
    if (count := sum(map(len, checkpoints.values()))) > most:
        found.append(f"{count} checkpoints of {learners} learners that keep {keep} each, {spared} more, and the best")
    return found


def _earlier_best(run: Living, checkpoints: dict[Path, list[int]]) -> int:
    """1 if a score was the best after the newest checkpoint was saved: only a save removes the best one before it."""
    newest = [folder / f"{max(steps):012d}" / "manifest.json" for folder, steps in checkpoints.items()]
    with suppress(OSError, ValueError):
        scored = (run.folder / "checkpoints" / "best.json").stat().st_mtime_ns
        return int(scored > max(path.stat().st_mtime_ns for path in newest))
    return 0


def _best(run: Living, steps: list[int]) -> int | None:
    """The steps of the best of these checkpoints: the first one saved after the weights with the best score."""
    with suppress(OSError):
        at = json.loads((run.folder / "checkpoints" / "best.json").read_text())["env_steps"]
        return min((one for one in steps if one >= at), default=None)
    return None


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
    return ""
