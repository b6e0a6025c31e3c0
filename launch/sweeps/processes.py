"""Processes of a sweep's runs: starting them detached from the sweep, finding them again, and stopping them.

Each run is an ordinary ``actorlearn run`` or ``resume`` in its own session, so it survives the end of the sweep and
Ctrl-C in its terminal. Its output goes to a file next to its folder. The file is locked while any process has it open
for output (``launch/machine/locks.py``). The same holds for the output of nodes that an engine has started for
the run; they outlive a killed head by a moment. So a run is alive if and only if one of these locks is held: from
before its first instruction until its last process has ended, no matter which process started it.
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
"""Longest wait in seconds for a supervisor that is asked to stop; it is asked again later."""


class Processes:
    """Processes that this sweep has started; those of earlier lives are known only by their locks."""

    def __init__(self) -> None:
        self._popened: dict[Path, subprocess.Popen[bytes]] = {}

    def start(self, folder: Path, words: Sequence[str], gpu: str = "") -> bool:
        """Start ``actorlearn WORDS`` for a run folder, unless its process is alive; return whether it was started.

        ``gpu``: GPUs that the run sees, as in CUDA_VISIBLE_DEVICES; empty: the GPUs that this process sees.
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
        """Whether a process of the run is alive: its own, a child of it, or a node in the shell of an engine."""
        if process := self._popened.get(folder):
            process.poll()  # reaps it
        return somebody_prints_to(log_of(folder)) or shells_live(folder)

    def returncode(self, folder: Path) -> int | None:
        """Return the exit status of an ended process that was started here; None for others."""
        process = self._popened.get(folder)
        return None if process is None else process.poll()

    def stop(self, folder: Path, now: bool = False) -> None:
        """Ask a run to save and end, or to end ``now``; a run that is just starting may not hear it, so ask again."""
        run = find.read(folder)
        if run is not None and run.alive:
            with suppress(FailedError):  # it is just starting, or ending
                ask(run, "kill" if now else "stop", timeout_s=ANSWER_S)
        elif process := self._popened.get(folder):
            process.terminate()


def log_of(folder: Path) -> Path:
    """Return the file that receives a run's output."""
    return folder.with_name(f"{folder.name}.log")
