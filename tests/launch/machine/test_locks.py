"""The lock of an output file shows whether any process that writes to it is alive."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from pathlib import Path

import pytest

from launch.machine.locks import open_alone, open_beside, somebody_prints_to


def test_a_log_is_in_use_until_the_last_process_that_has_it_open_has_ended(tmp_path: Path) -> None:
    file = tmp_path / "log"
    assert not somebody_prints_to(file) and not file.exists(), "the question makes no file"
    log = open_alone(file)
    parent = subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE, stderr=log)
    os.close(log)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    assert somebody_prints_to(file)
    with pytest.raises(BlockingIOError):
        open_alone(file)
    orphan = os.pidfd_open(child)
    os.kill(child, signal.SIGKILL)
    select.select([orphan], [], [])  # readable once it has ended
    os.close(orphan)
    parent.stdout.close()
    assert not somebody_prints_to(file)


def test_a_log_may_be_opened_by_several_writers(tmp_path: Path) -> None:
    first, second = open_beside(tmp_path / "log"), open_beside(tmp_path / "log")
    os.close(first)
    assert somebody_prints_to(tmp_path / "log")
    os.write(second, b"said\n")
    os.close(second)
    assert not somebody_prints_to(tmp_path / "log") and (tmp_path / "log").read_text() == "said\n"
