"""A simulator dies again and again: the other processes keep no descriptors, threads, memory or segments of it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.chaos.census import Survivor, grown, survivor
from tests.chaos.living import guardian_of
from tests.system.conftest import Start
from tests.system.launched import Launched

pytestmark = [pytest.mark.system]


def found(run: Launched) -> dict[str, Survivor]:
    guardian = guardian_of(run.process.pid)
    assert guardian is not None
    known = {name: pid for name, pid in run.pids().items() if name != "simulator-0"}
    pids = {**known, "supervisor": run.process.pid, "guardian": guardian}
    return {name: survivor(pid) for name, pid in pids.items()}


def leaks(run: Launched, before: dict[str, Survivor]) -> list[str]:
    """Return what has grown; look again for 5 s, because a process that has just died is still being removed."""
    more: list[str] = []
    for _ in range(50):
        if not (more := grown(before, found(run))):
            break
        time.sleep(0.1)
    return more


def memory_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


@pytest.mark.parametrize(
    "restarts",
    [
        pytest.param(20, marks=pytest.mark.timeout(300)),
        pytest.param(1000, marks=[pytest.mark.slow, pytest.mark.timeout(7200)]),
    ],
)
def test_restarts_leave_nothing_behind(launched: Start, restarts: int) -> None:
    budget = ["supervision.restarts=1000000", "supervision.restart_delay_s=0", "supervision.longest_restart_delay_s=0"]
    one = ["simulators.count=1", "simulators.envs=1", "inference.count=1", "total_steps=1_000_000_000"]
    run = launched("catch", "env.id=tests.chaos.restarts:Dies", *one, *budget)

    def deaths() -> int:
        return len(run.events("died", "simulator-0"))

    run.wait_for(lambda: deaths() >= 5, "deaths")
    before, segments = found(run), len(os.listdir(run.meta()["shm"]))
    rss = memory_kib(run.process.pid)
    run.wait_for(lambda: deaths() >= 5 + restarts, f"{restarts} deaths", timeout_s=7000)
    assert leaks(run, before) == []
    assert len(os.listdir(run.meta()["shm"])) <= segments + 1, "segments are left"
    grew = memory_kib(run.process.pid) - rss
    assert grew < 4096 + restarts, f"the supervisor's memory grew by {grew} KiB in {restarts} restarts"
    assert {e["cause"] for e in run.events("died")} == {"signal 9"}
    run.ctrl_c()
    assert run.end() == 130, run.screen()
    assert run.leftovers() == []
