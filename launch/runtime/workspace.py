"""What a run occupies on this machine, and releases at its end: its folder, shared memory, sockets, signal handlers.

A folder that another run uses is refused. Shared memory and sockets of dead runs are removed.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Self

from actorlearn.envs.pickled import FILE as PICKLED
from actorlearn.files import open_regular, write_atomically
from actorlearn.memory.owned import OwnedDirectory, name_of
from actorlearn.memory.shared import reserve
from actorlearn.worker.settings import POLICY_FILE, LoadSettings, write
from launch.errors import FailedError, RunError, write_remedy
from launch.machine.folders import new_run_id, runtime_root, sweep_all
from launch.machine.locks import lock
from launch.machine.signals import Signals
from launch.plan.addresses import FOLDERS, Addresses
from launch.plan.plan import Plan
from launch.plan.roles import behind_steps, own_weights, policy
from launch.runs.find import RunFolder
from launch.runs.jsonl import read_object
from launch.runtime import metadata
from launch.topology.load import dump


class Workspace:
    """What a run occupies on this machine; leaving the ``with`` block releases it."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir.absolute()
        run_id = new_run_id()
        self.addresses = Addresses.of_run(run_id, self.run_dir, runtime_root() / name_of(run_id))
        self.signals: Signals
        self._lock = -1
        """Descriptor of the folder; closing it releases the lock."""
        self._written: dict[str, bytes] = {}
        """Name -> content of each file of the run folder without which the run cannot be resumed."""
        self.stack = ExitStack()
        """Releases all resources at the end; the run adds its own to it."""

    def __enter__(self) -> Self:
        """Make and lock the folder; raises RunError if it cannot be locked."""
        with ExitStack() as stack:
            self.run_dir.mkdir(parents=True, exist_ok=True)
            self._lock = _lock(self.run_dir)
            stack.callback(self._unlock)
            stack.callback(_remove_if_empty, self.run_dir)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def open(self, plan: Plan) -> None:
        """Install signal handlers, and make the folders for shared memory and sockets; raises SharedMemoryFull."""
        self.signals = self.stack.enter_context(closing(Signals()))
        sweep_all()
        here = not plan.topology.nodes.several
        needed_bytes = plan.bytes_total if here else 0
        self.stack.enter_context(closing(reserve(self.addresses.run_id, needed_bytes, self.run_dir)))
        self.stack.enter_context(closing(OwnedDirectory.create(self.addresses.sockets)))

    def write_down(self, plan: Plan) -> None:
        """Make the folders, topology.yaml, policy.json and meta.json in the run folder.

        Raises FailedError if one cannot be written; files that did not exist before are then removed.
        """
        topology, acting, meta = (self.run_dir / name for name in ("topology.yaml", POLICY_FILE, "meta.json"))
        try:
            with ExitStack() as undo:
                for name in FOLDERS:
                    (self.run_dir / name).mkdir(exist_ok=True)
                    undo.callback(_remove_if_empty, self.run_dir / name)
                for path in (topology, acting, meta):
                    if not path.exists():
                        undo.callback(_remove, path)
                write_atomically(topology, dump(plan.topology).encode())
                loads = LoadSettings(
                    env=plan.topology.env,
                    policy=policy(plan.topology, plan.description),
                    own_weights=own_weights(plan.topology),
                    behind_steps=behind_steps(plan.topology),
                )
                write(loads, acting)
                metadata.write(meta, metadata.meta(plan))  # last, because it shows other programs that the run lives
                for path in (topology, acting, meta, self.run_dir / PICKLED):
                    with suppress(OSError), open_regular(path) as file:
                        self._written[path.name] = file.read()
                undo.pop_all()
        except OSError as error:
            raise FailedError(f"{error.filename}: cannot be written: {error.strerror}; {write_remedy(error)}") from None
        self.stack.callback(_mark_ended, meta)

    def restore(self) -> str:
        """Restore files that another program has removed from the run folder; return a message, "" if none was missing.

        Raises OSError, and RunError if another run uses the folder now.
        """
        removed = not self.run_dir.exists() or not os.path.samestat(os.stat(self.run_dir), os.fstat(self._lock))
        if removed:
            self.run_dir.mkdir(parents=True, exist_ok=True)
            self._unlock(_lock(self.run_dir))
        for name in FOLDERS:
            (self.run_dir / name).mkdir(exist_ok=True)
        missing = [name for name in self._written if not (self.run_dir / name).exists()]
        for name in missing:
            write_atomically(self.run_dir / name, self._written[name])
        if removed:
            return (
                f"{self.run_dir} was removed or renamed while the run is alive; it is made again, and the run can "
                "be resumed from its next checkpoint; earlier checkpoints, reports and events are lost"
            )
        return f"{', '.join(missing)} had been removed from {self.run_dir}; written again" if missing else ""

    def _unlock(self, instead: int = -1) -> None:
        """Release the lock of the folder; ``instead``: descriptor of a folder whose lock replaces it."""
        handle, self._lock = self._lock, instead
        os.close(handle)


def _lock(run_dir: Path) -> int:
    """Lock the run folder, and return its descriptor, whose closing releases the lock; raises RunError."""
    handle = os.open(run_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        lock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, run_dir)
    except BlockingIOError:
        os.close(handle)
        other = RunFolder(run_dir, read_object(run_dir / "meta.json"))
        known = f"supervisor process {other.meta['supervisor_pid']}" if other.alive else "it is starting or ending"
        raise RunError(
            f"{run_dir}: another run uses this folder ({known}); stop that run, or name another folder"
        ) from None
    except RunError:
        os.close(handle)
        _remove_if_empty(run_dir)
        raise
    return handle


def _remove_if_empty(run_dir: Path) -> None:
    with suppress(OSError):
        run_dir.rmdir()


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _mark_ended(path: Path) -> None:
    with suppress(OSError):
        metadata.write(path, {**read_object(path), "ended": metadata.now(), "supervisor_pid": None})
