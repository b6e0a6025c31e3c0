"""The activity of a process by /proc: it computes, waits, is stopped, waits for its child, or is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from launch.machine.activity import Activity, Watch

SPIN = "while True: pass"
START = "import subprocess, sys; subprocess.run([sys.executable, '-c', {!r}])"
Begin = Callable[[str], int]


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Start a program in a process group of its own; all are ended with what they have started."""
    running: list[subprocess.Popen[bytes]] = []

    def started(program: str) -> int:
        running.append(subprocess.Popen([sys.executable, "-c", program], process_group=0))
        return running[-1].pid

    yield started
    for process in running:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def comes_to(pid: int, wanted: Activity) -> None:
    """Wait until a process has this activity, or until the time limit of the test."""
    watch = Watch(pid)
    while watch.look(time.monotonic()) is not wanted:
        time.sleep(0.05)


def test_a_process_that_computes_is_running(begin: Begin) -> None:
    comes_to(begin(SPIN), Activity.RUNNING)


def test_a_process_that_sleeps_is_waiting(begin: Begin) -> None:
    comes_to(begin("import time; time.sleep(600)"), Activity.WAITING)


def test_the_name_of_a_process_may_be_any_bytes(begin: Begin) -> None:
    name_of_thread = 15  # PR_SET_NAME; 15 bytes of it stay, and the last is half a letter
    comes_to(
        begin(
            f"import ctypes, time; ctypes.CDLL(None).prctl({name_of_thread}, 'Umgebungsdienstä'.encode()[1:]); "
            "time.sleep(600)"
        ),
        Activity.WAITING,
    )


def test_a_process_that_waits_for_a_child_is_running_while_the_child_computes(begin: Begin) -> None:
    pid = begin(START.format(SPIN))
    while not psutil.Process(pid).children():
        time.sleep(0.05)
    comes_to(pid, Activity.RUNNING)


def test_a_stopped_process_counts_as_stopped_although_its_child_computes(begin: Begin) -> None:
    pid = begin(f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SPIN!r}]); {SPIN}")
    comes_to(pid, Activity.RUNNING)
    os.kill(pid, signal.SIGSTOP)
    comes_to(pid, Activity.STOPPED)
    os.kill(pid, signal.SIGCONT)
    comes_to(pid, Activity.RUNNING)


def test_a_process_that_has_ended_is_gone() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert Watch(process.pid).look(0.0) is Activity.GONE


def write(proc: Path, pid: int, states: str, ticks: tuple[int, int, int, int] = (0, 0, 0, 0)) -> None:
    """Write the /proc files of a process with a thread for each state; its name looks like other fields."""
    for thread, state in enumerate(states):
        task = proc / str(pid) / "task" / str(pid + thread)
        task.mkdir(parents=True, exist_ok=True)
        line = f"{pid} (a) R 1 (b)) {state} {' '.join('1' * 10)} {' '.join(map(str, ticks))} 20 0 1 0\n"
        (task / "stat").write_text(line)
    (proc / str(pid) / "stat").write_text(line)


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ("SS", Activity.WAITING),
        ("SR", Activity.RUNNING),  # also a thread that waits for a processor
        ("SD", Activity.DISK),
        ("DR", Activity.RUNNING),
        ("TT", Activity.STOPPED),
        ("Tt", Activity.STOPPED),
        ("Z", Activity.WAITING),
    ],
)
def test_the_activity_follows_from_the_states_of_all_threads(tmp_path: Path, states: str, expected: Activity) -> None:
    write(tmp_path, 100, states)
    assert Watch(100, tmp_path).look(0.0) is expected


def test_processor_time_between_two_looks_counts_as_running_unless_it_is_little(tmp_path: Path) -> None:
    watch, per_s = Watch(100, tmp_path), os.sysconf("SC_CLK_TCK")
    write(tmp_path, 100, "S", (per_s, per_s, 0, 0))
    assert watch.look(0.0) is Activity.WAITING  # the time may have been used long ago
    write(tmp_path, 100, "S", (per_s, per_s, 0, per_s))  # time of a child that has ended
    assert watch.look(1.0) is Activity.RUNNING
    write(tmp_path, 100, "S", (per_s, per_s, per_s // 20, per_s))
    assert watch.look(2.0) is Activity.WAITING
