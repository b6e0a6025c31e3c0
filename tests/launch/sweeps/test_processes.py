"""A run is alive while any process holds the lock on its log, whoever started the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from launch.machine.locks import last_line
from launch.sweeps.processes import Processes, log_of

PATIENCE_S = 60.0
STARTS_ONE = """
import sys
from pathlib import Path
from launch.sweeps.processes import Processes
Processes().start(Path(sys.argv[1]), ["--help"])
print("started", flush=True)
sys.stdin.read()
"""


def wait_until_gone(processes: Processes, folder: Path) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while processes.alive(folder):
        assert time.monotonic() < deadline_s, "it does not end"
        time.sleep(0.02)


def test_a_process_is_alive_until_it_ends_and_leaves_its_exit_status_and_its_log(tmp_path: Path) -> None:
    processes, folder = Processes(), tmp_path / "run"
    assert not processes.alive(folder) and last_line(log_of(folder)) == "" and processes.returncode(folder) is None
    assert processes.start(folder, ["no-such-command"])
    assert processes.alive(folder) and Processes().alive(folder)
    assert not processes.start(folder, ["no-such-command"]), "one is alive"
    wait_until_gone(processes, folder)
    assert processes.returncode(folder) == 2
    assert "no-such-command" in last_line(log_of(folder))
    assert log_of(folder) == tmp_path / "run.log"


def test_a_sweep_sees_the_processes_that_a_killed_sweep_started(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    sweep = subprocess.Popen(
        [sys.executable, "-c", STARTS_ONE, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert sweep.stdout is not None and sweep.stdin is not None
    assert sweep.stdout.readline() == b"started\n"
    seen = Processes()
    sweep.send_signal(signal.SIGKILL)
    sweep.wait()
    sweep.stdin.close()
    sweep.stdout.close()
    wait_until_gone(seen, folder)
    assert "Usage" in log_of(folder).read_text()


def test_a_run_is_alive_while_any_process_holds_the_lock_on_its_log(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    log = os.open(log_of(folder), os.O_WRONLY | os.O_CREAT)
    held = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import fcntl, sys; fcntl.flock(1, fcntl.LOCK_EX); print('x', file=sys.stderr); input()",
        ],
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=subprocess.PIPE,
    )
    os.close(log)
    assert held.stdin is not None and held.stderr is not None
    held.stderr.readline()
    assert Processes().alive(folder) and not Processes().start(folder, ["--help"])
    held.communicate(b"\n")
    assert not Processes().alive(folder)


def test_a_run_that_takes_no_commands_yet_is_terminated(tmp_path: Path) -> None:
    processes, folder = Processes(), tmp_path / "run"
    processes.start(folder, ["run", "no-such-file.yaml"])
    processes.stop(folder)
    wait_until_gone(processes, folder)
    assert processes.returncode(folder) in (-signal.SIGTERM, 128 + signal.SIGTERM, 2)
