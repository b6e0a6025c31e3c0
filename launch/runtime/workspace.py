"""Resources of a run on this machine: its folder, shared memory, sockets and signal handlers; all released at the end.

Refuses a folder that another run uses, and removes leftovers of dead runs.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from actorlearn.files import write_atomically
from actorlearn.memory.owned import OwnedDirectory, name_of
from actorlearn.memory.shared import reserve
from launch.errors import FailedError, RunError
from launch.machine.folders import new_run_id, runtime_root, sweep_all
from launch.machine.signals import Signals
from launch.plan.addresses import FOLDERS, Addresses
from launch.plan.plan import Plan
from launch.runs.jsonl import read_object
from launch.runtime import metadata
from launch.topology.load import dump


class Workspace:
    """``with Workspace(run_dir) as workspace``: releases its resources at the end, in reverse order."""

    def __init__(self, run_dir: Path) -> None:
        """Name the folder; nothing is touched before the block."""
        self.run_dir = run_dir.absolute()
        run_id = new_run_id()
        self.addresses = Addresses.of_run(run_id, self.run_dir, runtime_root() / name_of(run_id))
        self.signals: Signals
        self.stack = ExitStack()
        """Resources that are released at the end; the run adds its own."""

    def __enter__(self) -> Self:
        """Take the folder; raises RunError when another run has it."""
        with ExitStack() as stack:
            self.run_dir.mkdir(parents=True, exist_ok=True)
            stack.callback(os.close, _lock(self.run_dir))
            stack.callback(_remove_if_empty, self.run_dir)
            self.stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release everything, in reverse order."""
        self.stack.close()

    def open(self, plan: Plan) -> None:
        """Install signal handlers, and make the folders of shared memory and sockets; raises SharedMemoryFull."""
        self.signals = self.stack.enter_context(closing(Signals()))
        sweep_all()
        here = not plan.topology.nodes.several
        memory = self.stack.enter_context(closing(reserve(self.addresses.run_id, plan.bytes_total if here else 0)))
        (memory.path / "run").write_text(str(self.run_dir))
        self.stack.enter_context(closing(OwnedDirectory.create(self.addresses.sockets)))

    def write_down(self, plan: Plan) -> None:
        """Make the folders, topology.yaml and meta.json.

        Raises FailedError if they cannot be written; then those that were not there before are removed again.
        """
        topology, meta = self.run_dir / "topology.yaml", self.run_dir / "meta.json"
        try:
            with ExitStack() as undo:
                for name in FOLDERS:
                    (self.run_dir / name).mkdir(exist_ok=True)
                    undo.callback(_remove_if_empty, self.run_dir / name)
                for path in (topology, meta):
                    if not path.exists():
                        undo.callback(_remove, path)
                write_atomically(topology, dump(plan.topology).encode())
                metadata.write(meta, metadata.meta(plan))
                undo.pop_all()
        except OSError as error:
            raise FailedError(
                f"{error.filename}: cannot be written: {error.strerror}; make room on that disk, and try again"
            ) from None
        self.stack.callback(_mark_ended, meta)


def _lock(run_dir: Path) -> int:
    """Hold the run folder against a second supervisor; the kernel lets go when we die."""
    lock = os.open(run_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        pid = read_object(run_dir / "meta.json").get("supervisor_pid")
        raise RunError(
            f"{run_dir}: a run works here (supervisor {pid}); stop it first, or name another folder"
        ) from None
    return lock


def _remove_if_empty(run_dir: Path) -> None:
    """Remove the folder of a run that was refused before it wrote anything."""
    with suppress(OSError):
        run_dir.rmdir()


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _mark_ended(path: Path) -> None:
    with suppress(OSError):
        metadata.write(path, {**read_object(path), "ended": metadata.now(), "supervisor_pid": None})
