"""Starts the runs of a sweep, finds out whether they are alive, and stops them.

Each run is an ordinary ``actorlearn run`` or ``resume`` in its own session, so it survives the end of the sweep and
Ctrl-C in its terminal. Its output goes to a file next to its folder.

A sweep that is started again must find the runs that are still alive. For this, the output file is locked while any
process has it open for output (``launch/machine/locks.py`` describes this lock). The output files of the nodes that an
engine has started for a run are locked in the same way, because nodes live a moment longer than a killed head. A run is
alive if one of these locks is held.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from launch.engines.shells import shells_live
from launch.errors import FailedError
from launch.machine.gpus import VISIBLE
from launch.machine.locks import open_alone, somebody_prints_to
from launch.runs import find
from launch.runs.client import ask

ANSWER_S = 2.0
"""Seconds to wait for the reply of a supervisor that is asked to stop. Without a reply, it is asked again later."""


class Processes:
    """The processes of a sweep's runs, started by this execution of the sweep or by an earlier one."""

    def __init__(self) -> None:
        self._popened: dict[Path, subprocess.Popen[bytes]] = {}

    def start(self, folder: Path, words: Sequence[str], gpu: str = "") -> bool:
        """Start ``actorlearn WORDS`` for a run folder; return False if a process of this run is alive already.

        ``gpu``: value of CUDA_VISIBLE_DEVICES for the run; empty: the value that this process has.
        """
        try:
            log = open_alone(log_of(folder))
        except BlockingIOError:
            return False
        try:
            self._popened[folder] = subprocess.Popen(
                [sys.executable, "-m", "actorlearn", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **({VISIBLE: gpu} if gpu else {})},
                start_new_session=True,
            )
        finally:
            os.close(log)
        return True

    def alive(self, folder: Path) -> bool:
        """Whether a process of the run is alive, on this machine or as a node that an engine has started."""
        if process := self._popened.get(folder):
            process.poll()  # reaps it
        return somebody_prints_to(log_of(folder)) or shells_live(folder)

    def returncode(self, folder: Path) -> int | None:
        """Return the exit status of a run; None if it is alive, or if an earlier execution of the sweep started it."""
        process = self._popened.get(folder)
        return None if process is None else process.poll()

    def stop(self, folder: Path, now: bool = False) -> None:
        """Ask a run to save and end, or with ``now`` to end at once.

        Ask again until the run has ended, because a run that is just starting may not receive the request.
        """
        run = find.read(folder)
        if run is not None and run.alive:
            with suppress(FailedError):  # the supervisor is just starting or ending
                ask(run, "kill" if now else "stop", timeout_s=ANSWER_S)
        elif process := self._popened.get(folder):
            process.terminate()


def log_of(folder: Path) -> Path:
    """Return the file that receives a run's output."""
    return folder.with_name(f"{folder.name}.log")
