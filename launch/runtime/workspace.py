"""Resources of a run on this machine: its folder, shared memory, sockets and signal handlers; all released at the end.

Refuses a folder that another run uses, and removes leftovers of dead runs. Makes and removes segments as learners and
simulators are attached and end.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self, TypeVar

from actorlearn.address import PATH_BYTES
from actorlearn.files import write_atomically
from actorlearn.memory.fields import Field
from actorlearn.memory.owned import OwnedDirectory, name_of, sweep
from actorlearn.memory.rollout import BlockShape, make_segment
from actorlearn.memory.shared import Segment, reserve, sweep_shared
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import Member
from launch.errors import FailedError, RunError
from launch.plan.addresses import Addresses
from launch.plan.plan import Plan
from launch.plan.resumption import Resumption
from launch.plan.roles import server_of
from launch.runs.jsonl import read_object
from launch.runtime import metadata
from launch.runtime.signals import Signals
from launch.topology.load import Topology, dump

FOLDERS = ("logs", "settings", "checkpoints")
SOCKET_NAME_BYTES = 32
"""Room for the name of a socket in a run's folder; the longest of a shipped mode is ``messages-63.sock``."""


class Closable(Protocol):
    """Anything that is given back by closing it."""

    def close(self) -> None:
        """Give back."""


Kept = TypeVar("Kept", bound=Closable)


class Workspace:
    """``with Workspace(run_dir) as workspace``: releases its resources, and those given to ``keep``, at the end."""

    def __init__(self, run_dir: Path) -> None:
        """Name the folder; nothing is touched before the block."""
        self.run_dir = run_dir.absolute()
        run_id = new_run_id()
        self.addresses = Addresses.of_run(run_id, self.run_dir, runtime_root() / name_of(run_id))
        self.signals: Signals
        self._stack = ExitStack()
        self._segments: dict[str, Segment] = {}
        self._learner_segments: dict[str, list[Field]] = {}
        """Fields of each kind of segment that every learner has one of."""
        self._block_shape: BlockShape
        self._topology: Topology

    def __enter__(self) -> Self:
        """Take the folder; raises RunError when another run has it."""
        with ExitStack() as stack:
            self.run_dir.mkdir(parents=True, exist_ok=True)
            stack.callback(os.close, _lock(self.run_dir))
            stack.callback(_remove_if_empty, self.run_dir)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release everything, in reverse order."""
        self._stack.close()

    def keep(self, thing: Kept) -> Kept:
        """Close ``thing`` at the end, before things that were kept earlier; returns it."""
        self._stack.callback(thing.close)
        return thing

    def open(self, plan: Plan, resumption: Resumption) -> None:
        """Install signal handlers, and make folder, sockets and the run's first segments.

        Raises SharedMemoryFull, and FailedError where the folder cannot be written; earlier files in it are unchanged.
        """
        self.signals = self.keep(Signals())
        sweep_all()
        memory = self.keep(reserve(self.addresses.run_id, plan.bytes_total))
        (memory.path / "run").write_text(str(self.run_dir))
        self._topology, self._block_shape = plan.topology, plan.block_shape
        self._learner_segments = plan.learner_segments
        for name, fields in plan.run_segments.items():
            self._create(name, fields)
        learners = range(plan.topology.learners.count)
        self.create_learners(learner for learner in learners if learner not in resumption.left_out)
        self.keep(OwnedDirectory.create(self.addresses.sockets))
        self._write_down(plan, resumption)
        self._stack.callback(_mark_ended, self.run_dir / "meta.json")

    @property
    def progress(self) -> Segment:
        """The segment with the heartbeats of all processes."""
        return self._segments["progress"]

    def create_learners(self, learners: Iterable[int]) -> None:
        """Make learners' segments, before their processes start; raises SharedMemoryFull, with none of them made."""
        with ExitStack() as undo:
            for learner in learners:
                undo.callback(self.drop_learner, learner)
                for kind, fields in self._learner_segments.items():
                    self._create(f"{kind}-{learner}", fields)
            undo.pop_all()

    def drop_learner(self, learner: int) -> None:
        """Remove a learner's segments; a process that has them mapped keeps its view."""
        for kind in self._learner_segments:
            if segment := self._segments.pop(f"{kind}-{learner}", None):
                segment.unlink()
                segment.close()

    def create_member(self, simulator: ProcessId) -> Member:
        """Make the segment of one incarnation. A dead incarnation may go on writing to its own, to no effect."""
        made = self.member(simulator)
        make_segment(made.segment.file, self._block_shape, simulator.number).close()
        return made

    def member(self, simulator: ProcessId) -> Member:
        """Return the member that one incarnation of a simulator is: its blocks, its wakeup and its server."""
        return Member(
            id=simulator,
            segment=self.addresses.blocks(simulator),
            wakeup=self.addresses.wakeup(simulator),
            server=server_of(self._topology, simulator).number,
        )

    def drop_member(self, member: Member) -> None:
        """Remove an ended incarnation's segment, once its trainer has learned from its complete rollouts."""
        member.segment.file.unlink(missing_ok=True)

    def _create(self, name: str, fields: list[Field]) -> None:
        self._segments[name] = Segment.create(self.addresses.shm / name, fields)

    def _write_down(self, plan: Plan, resumption: Resumption) -> None:
        """Make the folders, topology.yaml and meta.json; a failure removes those that were not there before."""
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
                metadata.write(meta, metadata.meta(plan.topology.name, self.addresses, resumption))
                undo.pop_all()
        except OSError as error:
            raise FailedError(
                f"{error.filename}: cannot be written: {error.strerror}; make room on that disk, and try again"
            ) from None


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


def sweep_all() -> tuple[list[str], list[str]]:
    """Remove leftovers of dead runs; returns the run ids of the shared memory and of the directories of sockets."""
    sockets = [run_id for root in sorted({runtime_root(), Path("/tmp")}) for run_id in sweep(root)]
    return sweep_shared(), sockets


def new_run_id() -> str:
    """Return a random name for a run's directories."""
    return secrets.token_hex(6)


def longest_root() -> int:
    """Return how many bytes the path of ``runtime_root`` may have, so that the paths of sockets below it fit."""
    return PATH_BYTES - len(f"/{name_of(new_run_id())}/") - SOCKET_NAME_BYTES


def runtime_root() -> Path:
    """Return the folder in which runs of this user make folders of sockets: $XDG_RUNTIME_DIR, or else /tmp."""
    named = os.environ.get("XDG_RUNTIME_DIR")
    root = Path(named) if named else None
    if root is None or len(os.fsencode(root)) > longest_root() or not root.is_dir() or not os.access(root, os.W_OK):
        return Path("/tmp")
    return root


def _mark_ended(path: Path) -> None:
    with suppress(OSError):
        metadata.write(path, {**read_object(path), "ended": metadata.now(), "supervisor_pid": None})
