"""What the fixtures of every test find of processes."""

from __future__ import annotations

import os
import subprocess

from conftest import Machine


def test_a_child_that_has_ended_and_that_nobody_waited_for_is_found(this_machine: Machine) -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert child.pid in {process.pid for process in this_machine.our_processes()}
    assert child.wait() == 0
    assert child.pid not in {process.pid for process in this_machine.our_processes()}
