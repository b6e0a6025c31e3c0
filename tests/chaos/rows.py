"""Rows of a run under faults: each has a unique number, known to the environment, the network and the judge.

``Row`` (``env.id: tests.chaos.rows:Row``) is the environment ``Ledger`` with this number as its nonce, so that every
observation has it under the checksum. Processes record facts about rows in mapped files, which survive SIGKILL. A
process takes numbers in blocks by making a file for each; so it holds no lock for which others would wait if it were
stopped or killed.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.ledger.env import Ledger, Observation

VARIABLE = "ACTORLEARN_TEST_CHAOS"
"""Names the folder of a run's rows, for all its processes."""
PACE_VARIABLE = "ACTORLEARN_TEST_CHAOS_PACE"
"""Seconds that a step takes while there is a file ``paced`` in that folder."""
LIFE_VARIABLE = "ACTORLEARN_TEST_CHAOS_LIFE"
"""Number of the life of the run to which a process belongs; run ids do not tell it, as each node has its own."""
SIZE = 1 << 17
"""Maximum number of rows of a run; rows beyond it have no number, and are not judged."""
BLOCK = 64

NONE, RESET, STEP = range(3)


class Rows:
    """Facts about each row, recorded by the processes that made it or learned from it."""

    def __init__(self, folder: Path) -> None:
        """Map the files that ``make`` has made."""
        self.folder = folder
        self.kind = self._mapped("kind", np.uint8)
        """NONE until there is such a row."""
        self.origin = self._mapped("origin", np.int32)
        """The row that a STEP was taken from."""
        self.made_by = self._mapped("made_by", np.int32)
        """Number of the process."""
        self.made_ns = self._mapped("made_ns", np.int64)
        """Time by CLOCK_MONOTONIC."""
        self.gradients = self._mapped("gradients", np.int16)
        """Number of gradients that trainers have computed from it, applied or not."""
        self.shown = self._mapped("shown", np.int16)
        """Number of times that a learner in mode gossip has claimed it, before others could see its effect."""
        self._next = self._end = 0
        self._block = 0

    @classmethod
    def make(cls, folder: Path) -> Rows:
        """Make the files of a run, with room for all rows."""
        for name in ("blocks", "processes", "marks"):
            (folder / name).mkdir(parents=True)
        for name, width in (("kind", 1), ("origin", 4), ("made_by", 4), ("made_ns", 8), ("gradients", 2), ("shown", 2)):
            with (folder / name).open("wb") as file:
                file.truncate(SIZE * width)
        (folder / "paced").touch()
        return cls(folder)

    @classmethod
    def here(cls) -> Rows | None:
        """Those of the run that this process belongs to; None outside of one."""
        folder = os.environ.get(VARIABLE)
        return cls(Path(folder)) if folder else None

    def _mapped(self, name: str, kind: type) -> npt.NDArray[Any]:
        return np.memmap(self.folder / name, dtype=kind, mode="r+", shape=(SIZE,))

    def next(self) -> int:
        """Return a new number; SIZE when all are taken."""
        if self._next == self._end:
            while not _taken(self.folder / "blocks" / str(self._block)):
                self._block += 1
            self._next, self._end = self._block * BLOCK, (self._block + 1) * BLOCK
        number = min(self._next, SIZE)
        self._next += 1
        return number

    def process(self) -> int:
        """Return a new number for this process; the file of that name says which process it is."""
        said = f"{os.environ.get('ACTORLEARN_RUN_ID', '')} {os.environ.get('ACTORLEARN_PROCESS', '')} {os.getpid()}"
        number = 0
        while not _taken(self.folder / "processes" / str(number), said):
            number += 1
        return number

    def processes(self) -> dict[int, tuple[str, str, int]]:
        """Run id, name with incarnation, and process id, of every process that has made rows."""
        found = {}
        for path in (self.folder / "processes").iterdir():
            run_id, name, pid = path.read_text().split(" ")
            found[int(path.name)] = run_id, name, int(pid)
        return found


def _taken(path: Path, said: str = "") -> bool:
    """Make a file; return False if it exists already."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return False
    os.write(handle, said.encode())
    os.close(handle)
    return True


class Mark:
    """First time, last time and count of a process's work, in a file that outlives the process."""

    def __init__(self, path: Path) -> None:
        """Map it, made if it is not there."""
        with path.open("ab") as file:
            file.truncate(24)
        self._words = np.memmap(path, dtype=np.int64, mode="r+", shape=(3,))

    @property
    def first_ns(self) -> int:
        """0 before the first time."""
        return int(self._words[0])

    @property
    def last_ns(self) -> int:
        """0 before the first time."""
        return int(self._words[1])

    @property
    def count(self) -> int:
        """Number of marks so far."""
        return int(self._words[2])

    def now(self) -> None:
        """Record work at this time."""
        now_ns = time.monotonic_ns()
        if not self._words[0]:
            self._words[0] = now_ns
        self._words[1] = now_ns
        self._words[2] += 1


def own_mark(folder: Path) -> Mark | None:
    """Return the mark of this process; None if it belongs to no run."""
    if "ACTORLEARN_RUN_ID" not in os.environ:
        return None
    return Mark(folder / "marks" / f"{os.environ.get(LIFE_VARIABLE)}.{os.environ['ACTORLEARN_PROCESS']}")


_own: dict[int, tuple[Rows, int, Mark | None]] = {}
"""Things that all environments of a process share, by its id."""


class Row(Ledger):
    """Ledger whose rows are numbered over all processes of a run."""

    def __init__(self) -> None:
        super().__init__()
        described = "describe" in sys.argv  # by a process whose steps are of no run
        if os.getpid() not in _own and not described and (rows := Rows.here()):
            _own[os.getpid()] = rows, rows.process(), own_mark(rows.folder)
        self._before = 0
        self._pace_s = float(os.environ.get(PACE_VARIABLE, "0"))

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take a step, slowly while the file ``paced`` exists."""
        if self._pace_s and (own := _own.get(os.getpid())) and (own[0].folder / "paced").exists():
            time.sleep(self._pace_s)
        return super().step(action)

    def state(self) -> dict[str, Any]:
        """With the number of the row that was shown last, from which the next step is taken."""
        return {**super().state(), "_before": self._before}

    def show(self) -> tuple[Observation, float]:
        """Record the next row, and return its observation and reward."""
        if own := _own.get(os.getpid()):
            rows, process, mark = own
            self.nonce = number = rows.next()
            if number < SIZE:
                rows.origin[number], rows.made_by[number] = self._before, process
                rows.made_ns[number] = time.monotonic_ns()
                rows.kind[number] = STEP if self._step else RESET
            self._before = number
            if self._step and mark:
                mark.now()
        return super().show()


def clear(folder: Path) -> None:
    """Let the run go at full speed."""
    with suppress(FileNotFoundError):
        (folder / "paced").unlink()
