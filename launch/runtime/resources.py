"""The ground a run stands on: its folder, its shared memory, its sockets, its signals; all given back at the end.

Refuses a folder that another run works in, and sweeps what dead runs have left.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self, TypeVar

import msgspec

from actorlearn.files import write_atomically
from actorlearn.memory.owned import OwnedDirectory, name_of, sweep
from actorlearn.memory.shared import reserve, sweep_shared
from actorlearn.parameters.checkpoint_folders import (
    CheckpointError,
    Found,
    going_on,
    learners_so_far,
    newest,
    of_all,
)
from actorlearn.replay.rows import ReplayShape
from launch.errors import FailedError, RunError
from launch.plan import exactness
from launch.plan.plan import Plan, plan
from launch.plan.probe import Description
from launch.plan.segments import replay_shape
from launch.reports.checks import is_number
from launch.runs.jsonl import read_object
from launch.runs.membership import detached_before
from launch.runtime import metadata
from launch.topology.load import Topology, dump
from launch.topology.modes import mode

FOLDERS = ("logs", "settings", "checkpoints")
_SHAPED_BY = {
    **dict.fromkeys(("actions", "observation_shape", "observation_dtype", "stack"), "env"),
    "rings": "simulators.count x simulators.envs",
    "size": "replay.capacity_steps",
    "margin": "algorithm.horizon",
    "prioritised": "replay.prioritised",
}
"""What gives a replay its shape, by the parts of a ReplayShape; what others follow from is first."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Closable(Protocol):
    """What can be given back."""

    def close(self) -> None:
        """Give back."""


Kept = TypeVar("Kept", bound=Closable)


class Footing:
    """``with Footing(run_dir) as footing``: whatever ``lay`` made and ``keep`` was given is gone after the block."""

    def __init__(self, run_dir: Path) -> None:
        """Nothing is touched before the block."""
        self.run_dir = run_dir.absolute()
        self._stack = ExitStack()
        self.signals: Signals

    def __enter__(self) -> Self:
        """Take the folder; raises RunError when another run has it."""
        with ExitStack() as stack:
            self.run_dir.mkdir(parents=True, exist_ok=True)
            stack.callback(os.close, _lock(self.run_dir))
            stack.callback(_remove_if_empty, self.run_dir)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Give everything back, last taken first."""
        self._stack.close()

    def keep(self, thing: Kept) -> Kept:
        """Close it at the end, before whatever was kept earlier."""
        self._stack.callback(thing.close)
        return thing

    def lay(self, topology: Topology, description: Description, resume: bool) -> Plan:
        """Look at what a run goes on from; then hear signals, and make folder, sockets and shared memory.

        Raises SharedMemoryFull, TopologyError, RunError where a run cannot be resumed like that, and FailedError where
        its folder takes nothing; what stood there then stands there still.
        """
        run_id = secrets.token_hex(6)
        sockets = _runtime_root() / name_of(run_id)
        made = plan(topology, self.run_dir, run_id, sockets, description)
        made.began_s = time.monotonic()
        if resume:
            _same_replays(made, _checkpoints(made))
            # The number of a learner that has left checkpoints is not given again: those attached have it no more.
            so_far = learners_so_far(self.run_dir / "checkpoints")
            made.places.next_learner = max(made.places.next_learner, so_far)
        self.signals = self.keep(Signals())
        sweep_all()
        memory = self.keep(reserve(run_id, made.bytes_total))
        (memory.path / "run").write_text(str(self.run_dir))
        made.create_segments()
        if resume:
            _leave_out(made, _detached(made))
        self.keep(OwnedDirectory.create(sockets))
        self._write_down(made, resume)
        self._stack.callback(_mark_ended, self.run_dir / "meta.json")
        return made

    def _write_down(self, made: Plan, resume: bool) -> None:
        """Make the folders, topology.yaml and meta.json; where that fails, what was not there before is gone again."""
        topology, meta = self.run_dir / "topology.yaml", self.run_dir / "meta.json"
        try:
            with ExitStack() as undo:
                for name in FOLDERS:
                    (self.run_dir / name).mkdir(exist_ok=True)
                    undo.callback(_remove_if_empty, self.run_dir / name)
                for path in (topology, meta):
                    if not path.exists():
                        undo.callback(_remove, path)
                write_atomically(topology, dump(made.topology).encode())
                metadata.write(meta, metadata.meta(made, resume))
                undo.pop_all()
        except OSError as error:
            raise FailedError(
                f"{error.filename}: cannot be written: {error.strerror}; make room on that disk, and try again"
            ) from None


class Signals:
    """Ctrl-C, SIGTERM and SIGHUP as bytes in a pipe; the handlers themselves do nothing.

    A signal that was ignored when we were started, as by nohup, stays ignored.
    """

    def __init__(self) -> None:
        """Take the signals over; only the main thread can."""
        self.fd, self._write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        self._handlers = {number: signal.signal(number, lambda *_: None) for number in heard}
        self._wakeup_fd = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)

    def read(self) -> list[int]:
        """Which have come since the last call."""
        try:
            return [number for number in os.read(self.fd, 4096) if number in self._handlers]
        except BlockingIOError:
            return []

    def close(self) -> None:
        """Give the signals back."""
        signal.set_wakeup_fd(self._wakeup_fd)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self.fd)
        os.close(self._write_fd)


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
    """A run that was refused before it began has put nothing in its folder, and leaves none."""
    with suppress(OSError):
        run_dir.rmdir()


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def sweep_all() -> tuple[list[str], list[str]]:
    """Remove what dead runs left; returns the run ids of the shared memory and of the directories of sockets."""
    sockets = [run_id for root in sorted({_runtime_root(), Path("/tmp")}) for run_id in sweep(root)]
    return sweep_shared(), sockets


def _runtime_root() -> Path:
    named = os.environ.get("XDG_RUNTIME_DIR")
    root = Path(named) if named else None
    # An ipc path has room for 107 bytes, and ours takes up to 70 of them below the root.
    usable = root is not None and len(str(root)) <= 36 and root.is_dir() and os.access(root, os.W_OK)
    return root if root is not None and usable else Path("/tmp")


def _checkpoints(made: Plan) -> list[Found]:
    """What each learner goes on from; the run goes on from the newest whose weights are taken.

    Raises RunError where there is nothing to go on from, and where more has been learned than is wanted.
    """
    detached = _detached(made)
    trainers = [p.id for p in made.processes if p.id.role == "trainer"]
    learners = [own.learner for own in trainers if own.learner not in detached]
    root = made.run_dir / "checkpoints"
    try:
        exactly = _exactly(made, learners)
        found = exactly or [going_on(root, learner, mode(made.topology)) for learner in learners]
    except CheckpointError as error:
        raise RunError(str(error)) from None
    newest = max((shared for _, shared in found), key=lambda shared: shared.env_steps)
    made.resumed_at, wanted = newest.env_steps, made.topology.total_steps
    made.resumed_from = list(dict.fromkeys(str(shared.path.relative_to(made.run_dir)) for _, shared in found))
    elapsed_s = newest.state.get("elapsed_s")
    made.began_s -= elapsed_s if is_number(elapsed_s) else 0.0
    if made.resumed_at > wanted:
        raise RunError(
            f"total_steps = {wanted}: {made.run_dir.name} has learned from {made.resumed_at} steps already; "
            f"write a larger one, for example total_steps={2 * made.resumed_at}"
        )
    return [own for own, _ in found]


def _exactly(made: Plan, learners: Sequence[int]) -> list[tuple[Found, Found]]:
    """The checkpoints that learners go on from with their simulators where these stood; none, and why, otherwise."""
    if not made.exact:
        made.begins_anew = next(choice.why for choice in made.choices if choice.key == exactness.KEY)
        return []
    directories = [made.checkpoints(learner) for learner in learners]
    together = of_all(directories) if directories[1:] else [newest(directories[0])]
    if together is None:
        made.begins_anew = "there are no steps of which all learners have a checkpoint"
        return []
    simulators = [[p.name for p in made.processes if (p.id.role, p.id.learner) == ("simulator", k)] for k in learners]
    made.begins_anew = exactness.begins_anew([own.state for own in together], simulators, made.topology)
    if made.begins_anew:
        return []
    made.damaged = [warning for own in together for warning in own.warnings()]
    made.goes_on_from = {learner: own.path for learner, own in zip(learners, together, strict=True)}
    return [(own, own) for own in together]


def _same_replays(made: Plan, found: Iterable[Found]) -> None:
    """Refuse a topology that wants what was not saved like that; what is no shape the trainer judges."""
    if not made.topology.replayed:
        return
    planned = replay_shape(made.topology, made.description)
    secondary = made.topology.replay.secondary_batch_size
    for own in found:
        if secondary and "secondary" not in own.state:
            raise RunError(
                f"replay.secondary_batch_size: {secondary}, but {own.path} has no secondary learner; "
                "resume with 0, or start a new run"
            )
        with suppress(AttributeError, msgspec.ValidationError):
            saved = msgspec.convert(own.state.get("replay", {}).get("shape"), ReplayShape)
            for part, keys in _SHAPED_BY.items():
                now, before = getattr(planned, part), getattr(saved, part)
                if now != before:
                    raise RunError(
                        f"{keys}: the replay would have {part} {now}, and the one saved in {own.path} has {before}; "
                        f"resume with {keys} as before, or start a new run"
                    )


def _detached(made: Plan) -> dict[int, str]:
    """Learners that were detached and their trainers; none if all were."""
    names = detached_before(made.run_dir / "events.jsonl")
    trainers = [process.id for process in made.processes if process.id.role == "trainer"]
    gone = {own.learner: own.name for own in trainers if own.name in names}
    return gone if len(gone) < len(trainers) else {}


def _leave_out(made: Plan, gone: Mapping[int, str]) -> None:
    """Begin without learners that were detached: their weights are old."""
    made.left_out = list(gone.values())
    for process in list(made.processes):
        if process.id.role != "evaluator" and process.id.learner in gone:
            made.remove(process.name)


def _mark_ended(path: Path) -> None:
    with suppress(OSError):
        metadata.write(path, {**read_object(path), "ended": metadata.now(), "supervisor_pid": None})
