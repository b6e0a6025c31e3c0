"""What the fixtures of every test find of processes."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from actorlearn.memory.owned import name_of
from conftest import SESSIONS_ROOT, SHM_ROOT, Machine
from tests.sizes import ROOT

KILLED = """
import os, signal, sys
from pathlib import Path
from actorlearn.memory.shared import reserve

reserve(sys.argv[1], 0, Path(sys.argv[2]))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_child_that_has_ended_and_that_nobody_waited_for_is_found(this_machine: Machine) -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert child.pid in {process.pid for process in this_machine.our_processes()}
    assert child.wait() == 0
    assert child.pid not in {process.pid for process in this_machine.our_processes()}


@pytest.mark.parametrize("own", [True, False])
def test_shared_memory_that_a_killed_process_leaves_is_that_of_its_session(
    this_machine: Machine, tmp_path: Path, own: bool
) -> None:
    run_id = f"killed-{secrets.token_hex(4)}"
    folder = tmp_path if own else SESSIONS_ROOT / "pytest-of-another-session" / "run-0"
    subprocess.run([sys.executable, "-c", KILLED, run_id, str(folder)], cwd=ROOT)
    left = SHM_ROOT / name_of(run_id)
    assert left.is_dir()
    found = this_machine.without_strangers(frozenset({left}))
    shutil.rmtree(left)
    assert found == (frozenset({left}) if own else frozenset())
