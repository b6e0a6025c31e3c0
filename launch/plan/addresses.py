"""Addresses of the segments, sockets, wakeups and folders that the processes of a run share. Nothing is opened here."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from actorlearn.address import ByLearner, Folders, Ipc, Pipe, Shm
from actorlearn.memory.owned import name_of
from actorlearn.memory.shared import SHM_ROOT
from actorlearn.parameters.checkpoint_folders import directory_of
from actorlearn.wire.identity import ProcessId

FOLDERS = ("logs", "settings", "checkpoints")
"""Folders that are made in the folder of a run."""


@dataclass(frozen=True)
class Addresses(Folders):
    """All addresses of one run."""

    run_id: str = field(kw_only=True)

    @classmethod
    def of_run(cls, run_id: str, run_dir: Path, sockets: Path) -> Addresses:
        """Return the addresses of a run of this user; ``sockets``: folder for its sockets."""
        return cls(SHM_ROOT / name_of(run_id), sockets, run_dir.absolute(), run_id=run_id)

    @property
    def control(self) -> Ipc:
        """The supervisor's control socket."""
        return control_socket(self.sockets)

    @property
    def progress(self) -> Shm:
        """The progress segment, with the heartbeats of all processes."""
        return self.segment("progress")

    def each(self, kind: str) -> ByLearner[Shm]:
        """Return the addresses of a kind of segment that each learner has, such as weights."""
        return ByLearner(self.segment(kind))

    def own(self, kind: str, learner: int) -> Shm:
        """Return the address of a learner's segment of this kind, such as weights."""
        return self.each(kind).of(learner)

    def blocks(self, simulator: ProcessId) -> Shm:
        """Return the address of the segment into which a simulator writes rollouts; it changes at each restart."""
        return self.segment(simulator.socket_id)

    def wakeup(self, process: ProcessId) -> Pipe:
        """Return the address of the pipe that wakes a process up; it stays the same when the process is restarted."""
        return Pipe(str(self.sockets / f"{process.name}.wakeup"))

    def checkpoints(self, learner: int) -> Path:
        """Return the folder of a learner's checkpoints."""
        return directory_of(self.run_dir / "checkpoints", learner)

    def states(self, learner: int) -> Path:
        """Return the folder that holds snapshots of a learner's simulators until they become part of a checkpoint."""
        return self.checkpoints(learner) / ".states"

    def settings(self, process: ProcessId) -> Path:
        """Return the path of the settings file of a process; each restart of the process has a file of its own."""
        return self.run_dir / "settings" / f"{process.socket_id}.json"


NOWHERE = Addresses(Path(), Path(), Path(), run_id="")
"""Addresses for a plan that is not run."""


def control_socket(sockets: Path) -> Ipc:
    """Return the address of the control socket in a run's folder of sockets."""
    return Ipc(str(sockets / "control.sock"))
