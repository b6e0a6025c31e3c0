"""Sockets of a living run: of its owner alone, all in its plan, and nothing that a network could reach."""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from tests.system.conftest import CONFIGS, PACED, Command, Start

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

ALL_ROLES = ["inference.count=1", "evaluator.count=1"]
TWO = ["learners.count=2", "simulators.count=1"]
RUNS = {
    "one learner": ALL_ROLES,
    "sync": [*TWO, "mode=sync"],
    "sync with servers": [*TWO, *ALL_ROLES, "mode=sync"],
    "async": [*TWO, *ALL_ROLES, "mode=async"],
    "gossip": [*TWO, *ALL_ROLES, "mode=gossip", "gossip.gradient_every=1"],
    "gossip by sockets": [*TWO, *ALL_ROLES, "mode=gossip", "gossip.transport=zmq"],
}
_ACCEPTS = 0x10000
"""__SO_ACCEPTCON, among the flags of a Unix socket."""


class UnixSocket(NamedTuple):
    """One line of /proc/net/unix."""

    path: str
    """Empty: it has no name; "@…": an abstract one, open to every user."""
    listens: bool


def unix_sockets() -> dict[str, UnixSocket]:
    """Every Unix socket of this network namespace, by inode."""
    found = {}
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        _, _, _, flags, _, _, inode, *path = line.split(maxsplit=7)
        found[inode] = UnixSocket(path[0] if path else "", bool(int(flags, 16) & _ACCEPTS))
    return found


def inodes(process: psutil.Process) -> set[str]:
    """Inodes of all sockets that a process holds, whatever their family."""
    found = set()
    for handle in Path(f"/proc/{process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            target = os.readlink(handle)
            if target.startswith("socket:["):
                found.add(target.removeprefix("socket:[").removesuffix("]"))
    return found


def network_addresses(inode: str) -> list[str]:
    """Return the lines of /proc/net about a socket that is no Unix socket, for messages."""
    tables = [Path("/proc/net") / name for name in ("tcp", "tcp6", "udp", "udp6", "raw", "raw6", "netlink", "packet")]
    lines = [f"{table.name}: {line}" for table in tables for line in table.read_text().splitlines()]
    return [line for line in lines if inode in line.split()]


@pytest.mark.parametrize("overrides", RUNS.values(), ids=RUNS.keys())
def test_a_living_run_listens_on_its_owner_s_planned_sockets_and_on_nothing_else(
    launched: Start, command: Command, overrides: list[str]
) -> None:
    arguments = [PACED, "simulators.count=2", "simulators.envs=4", *overrides]
    planned = json.loads(command("check", CONFIGS / "catch.yaml", *arguments, "--json").stdout)
    run = launched("catch", *arguments, "total_steps=1_000_000")
    run.wait_for_steps(200)  # all have joined by then
    first = psutil.Process(run.process.pid)
    processes = [first, *first.children(recursive=True)]
    assert run.pids().keys() == {process["name"] for process in planned["processes"]}
    assert set(run.pids().values()) < {process.pid for process in processes}
    held = {(process.pid, inode) for process in processes for inode in inodes(process)}
    known = unix_sockets()
    strangers = [(pid, network_addresses(inode)) for pid, inode in held if inode not in known]
    assert not strangers, strangers
    names = {Path(endpoint.removeprefix("ipc://")).name for endpoint in planned["sockets"]}
    folder = Path(run.meta()["sockets"])
    sockets = [known[inode] for _, inode in held]
    assert {socket.path for socket in sockets if socket.listens} == {str(folder / name) for name in names}
    assert {Path(socket.path) for socket in sockets if socket.path} == {folder / name for name in names}  # not abstract
    wakeups = {Path(wakeup).name for wakeup in planned["wakeups"]}
    assert {path.name for path in folder.iterdir()} == names | wakeups | {"lock"}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and folder.stat().st_uid == os.getuid()
    assert [path.name for path in folder.iterdir() if stat.S_IMODE(path.stat().st_mode) != 0o600] == []
    run.ctrl_c()
    assert run.end() == 130, run.screen()
