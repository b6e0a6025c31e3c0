"""Processes of a sweep's runs: started apart from the sweep, found again by another, and asked to stop.

Each run is an ordinary ``actorlearn run`` or ``resume`` in a session of its own, so that neither the sweep's end nor
Ctrl-C in its terminal is its own. What it prints goes to a file beside its folder, which is locked as long as somebody
has it open to print (``launch/machine/print_locks.py``), and so is what the nodes print that an engine has started for
it, which outlive a head that is killed by a moment. So a run is alive if and only if one of these locks is held: from
before its first instruction until its last process has gone, whoever started it.
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
from launch.machine.print_locks import open_alone, somebody_prints_to
from launch.runs import find
from launch.runs.client import ask

ANSWER_S = 2.0
"""Longest wait for a supervisor that is asked to stop; it is asked again."""
_LAST_BYTES = 4096


class Processes:
    """Processes that this sweep has started; those of earlier lives are known by their locks alone."""

    def __init__(self) -> None:
        """Start none yet."""
        self._popened: dict[Path, subprocess.Popen[bytes]] = {}

    def start(self, folder: Path, words: Sequence[str], gpu: str = "") -> bool:
        """Start ``actorlearn WORDS`` for a run folder, unless its process is alive; says whether it did.

        ``gpu``: GPUs that it is shown, as CUDA's variable has them; empty: those that this process is shown.
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
        """Whether a run's process is alive, or one that it has started, or a node of it that an engine's shell has."""
        if process := self._popened.get(folder):
            process.poll()  # reaps it
        return somebody_prints_to(log_of(folder)) or shells_live(folder)

    def returncode(self, folder: Path) -> int | None:
        """Return the exit status of a process that was started here and is gone; None for others."""
        process = self._popened.get(folder)
        return None if process is None else process.poll()

    def stop(self, folder: Path, now: bool = False) -> None:
        """Have a run save and end, or end ``now``; without effect on one that cannot hear yet, so ask again."""
        run = find.read(folder)
        if run is not None and run.alive:
            with suppress(FailedError):  # it is just starting, or ending
                ask(run, "kill" if now else "stop", timeout_s=ANSWER_S)
        elif process := self._popened.get(folder):
            process.terminate()


def log_of(folder: Path) -> Path:
    """Return the file to which a run prints."""
    return folder.with_name(f"{folder.name}.log")


def last_line(folder: Path) -> str:
    """Return the last line that a run has printed; empty where there is none."""
    with suppress(OSError), log_of(folder).open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_BYTES))
        lines = file.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
    return ""
