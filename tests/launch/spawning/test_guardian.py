"""All descendants of a guarded process end with it or with the run."""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

from launch.spawning import guardian
from launch.spawning.guardian import ROLE_MARK, Guardian
from tests.runaways import COUNT, command, lives, new_name, sleepers
from tests.waiting import within

SUPERVISOR = """
import sys, time
from launch.spawning.guardian import Guardian
guardian = Guardian("run")
print(guardian.pid, flush=True)
guardian.start(sys.argv[1:], {"ACTORLEARN_PROCESS": "simulator-0.0"}, 1, 2)
time.sleep(60)
"""


@pytest.fixture
def name() -> str:
    return new_name()


def begin(guarded: Guardian, *command: str, role: str = "simulator-0.0") -> tuple[int, int]:
    return guarded.start(command, {ROLE_MARK: role}, 2, 2)


def end(guarded: Guardian, pid: int, pidfd: int) -> int:
    assert select.select([pidfd], [], [], 30.0)[0]
    os.close(pidfd)
    return guarded.returncode(pid)


@pytest.fixture
def open_files() -> Iterator[list[int]]:
    """More open files than 1,024 for the duration of a test."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4_096)), hard))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
    yield files
    for file in files:
        os.close(file)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.nightly
def test_no_process_of_a_killed_supervisor_is_left() -> None:
    for _ in range(20):
        name = new_name()
        with subprocess.Popen([sys.executable, "-c", SUPERVISOR, *command(name)], stdout=subprocess.PIPE) as run:
            assert run.stdout
            guard = int(run.stdout.readline())
            assert within(30.0, lambda name=name: len(sleepers(name)) == COUNT)
            run.kill()
        assert within(10.0, lambda guard=guard: not lives(guard))
        assert sleepers(name) == []


def test_descendants_of_a_role_end_with_it_and_those_of_other_roles_continue(guarded: Guardian, name: str) -> None:
    another = new_name()
    role, other = begin(guarded, *command(name)), begin(guarded, *command(another), role="simulator-1.0")
    assert within(30.0, lambda: len(sleepers(name)) == len(sleepers(another)) == COUNT)
    guarded.kill(role[0])
    assert end(guarded, *role) == -signal.SIGKILL
    assert within(10.0, lambda: len(sleepers(name)) == 1)
    assert sleepers(name)[0].environ() == {}  # nothing shows which role started it
    assert len(sleepers(another)) == COUNT
    guarded.close()
    assert sleepers(name) == sleepers(another) == []
    os.close(other[1])


def commands_of_children(guarded: Guardian) -> list[list[str]]:
    """Words of each child's command line, without those that end while they are looked at."""
    found = []
    for process in psutil.Process(guarded.pid).children():
        with suppress(psutil.NoSuchProcess):
            found.append(process.cmdline())
    return found


def test_orphans_are_reaped(guarded: Guardian, name: str) -> None:
    role = begin(guarded, "/bin/sh", "-c", "for n in 1 2 3; do (setsid sleep 0.1 &); done; exec sleep $0", name)
    assert within(30.0, lambda: commands_of_children(guarded) == [["sleep", name]])
    guarded.kill(role[0])
    assert end(guarded, *role) == -signal.SIGKILL
    assert within(10.0, lambda: psutil.Process(guarded.pid).children() == [])


def test_processes_that_keep_starting_new_ones_are_ended(guarded: Guardian, name: str) -> None:
    again = 'while :; do setsid sleep "$0"; done'
    role = begin(guarded, "/bin/sh", "-c", f"({again}) & ({again}) & {again}", name)
    assert within(30.0, lambda: len(sleepers(name)) == 3)
    guarded.close()
    assert sleepers(name) == []
    os.close(role[1])


def test_a_command_ends_although_a_descendant_keeps_its_output_open(name: str) -> None:
    """Once a process started by an environment kept the output of the describing child open until the time limit."""
    with guardian.CapturedCommand(["/bin/sh", "-c", 'sleep "$0" & echo out; echo err >&2; exit 3', name]) as started:
        done = started.wait(30.0)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")
    assert sleepers(name) == []


def test_a_command_runs_although_this_process_has_more_files_open_than_select_allows(open_files: list[int]) -> None:
    assert max(open_files) > 1_024
    with guardian.CapturedCommand([sys.executable, "-c", "print(1)"]) as started:
        assert started.wait().stdout == "1\n"


def test_a_command_is_ended_at_its_time_limit(name: str) -> None:
    with guardian.CapturedCommand(command(name)) as started, pytest.raises(subprocess.TimeoutExpired):
        started.wait(0.2)
    assert sleepers(name) == []


def test_processes_of_a_run_without_a_guardian_are_found_by_their_mark_and_ended(name: str) -> None:
    run_id = new_name()
    with subprocess.Popen(command(name), env={**os.environ, guardian.RUN_MARK: run_id}) as role:
        assert within(30.0, lambda: len(sleepers(name)) == COUNT)
        guardian.end_marked(run_id)
        assert within(10.0, lambda: len(sleepers(name)) == 1)
        assert role.wait() == -signal.SIGKILL
        sleepers(name)[0].kill()  # the one without a mark


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP])
def test_a_guardian_ignores_the_signals_that_end_its_children(
    guarded: Guardian, name: str, sent: signal.Signals
) -> None:
    role = begin(guarded, "/bin/sleep", name)
    os.kill(guarded.pid, sent)
    os.kill(role[0], signal.SIGTERM)
    assert end(guarded, *role) == -signal.SIGTERM


def test_all_processes_end_when_an_extended_lease_expires(guarded: Guardian) -> None:
    def until(seconds: float) -> None:
        guarded.lease(time.clock_gettime(time.CLOCK_BOOTTIME) + seconds)

    until(60.0)
    pid, pidfd = begin(guarded, "/bin/sleep", "60")
    until(1.0)
    until(2.5)
    assert not select.select([pidfd], [], [], 1.5)[0]
    assert select.select([pidfd], [], [], 10.0)[0] and within(10.0, lambda: not lives(guarded.pid))
    os.close(pidfd)
    with pytest.raises(guardian.GuardianLostError):
        guarded.returncode(pid)


def test_a_stopped_supervisors_processes_end_with_its_lease(name: str) -> None:
    leased = (
        "input(); guardian.lease(time.clock_gettime(time.CLOCK_BOOTTIME) + 2); print('leased', flush=True); input()"
    )
    program = SUPERVISOR.replace("time.sleep(60)", leased)
    with subprocess.Popen(
        [sys.executable, "-c", program, *command(name)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as supervisor:
        assert supervisor.stdout and supervisor.stdin
        supervisor.stdout.readline()
        assert within(30.0, lambda: len(sleepers(name)) == COUNT)
        supervisor.stdin.write("\n")
        supervisor.stdin.flush()
        assert supervisor.stdout.readline() == "leased\n"
        supervisor.send_signal(signal.SIGSTOP)
        assert within(10.0, lambda: not sleepers(name))
        supervisor.send_signal(signal.SIGCONT)
        supervisor.stdin.write("\n")
