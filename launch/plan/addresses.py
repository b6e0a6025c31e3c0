"""Addresses of what the processes of a run share: segments, sockets, wakeups and folders. Pure; opens nothing."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from actorlearn.address import ByLearner, Folders, Ipc, Pipe, Shm
from actorlearn.memory.shared import SHM_ROOT
from actorlearn.parameters.checkpoint_folders import directory_of
from actorlearn.wire.identity import ProcessId

FOLDERS = ("logs", "settings", "checkpoints")
"""Folders in the folder of a run."""


@dataclass(frozen=True)
class Addresses:
    """All addresses of one run."""

    run_id: str
    run_dir: Path
    shm: Path
    """Folder of the run's segments."""
    sockets: Path
    """Folder of its sockets and wakeups."""
    host: str = ""
    """Address of this machine that the other nodes of the run reach; empty in a run without nodes."""

    @classmethod
    def of_run(cls, run_id: str, run_dir: Path, sockets: Path) -> Addresses:
        """Return the addresses of a run of this id and of this user."""
        return cls(run_id, run_dir.absolute(), SHM_ROOT / f"actorlearn-{os.getuid()}-{run_id}", sockets)

    @property
    def folders(self) -> Folders:
        """The folders, for exchanges."""
        return Folders(self.shm, self.sockets, self.run_dir, self.host)

    @property
    def control(self) -> Ipc:
        """The supervisor's control socket."""
        return control_socket(self.sockets)

    @property
    def progress(self) -> Shm:
        """The segment with the heartbeats of all processes."""
        return self.segment("progress")

    def segment(self, name: str) -> Shm:
        """Return the address of a segment that the run has once."""
        return self.folders.segment(name)

    def each(self, kind: str) -> ByLearner[Shm]:
        """Return the addresses of a kind of segment that every learner has."""
        return ByLearner(self.segment(kind))

    def own(self, kind: str, learner: int) -> Shm:
        """Return the address of one learner's segment of a kind."""
        return self.each(kind).of(learner)

    def blocks(self, simulator: ProcessId) -> Shm:
        """The segment with the blocks of one incarnation of a simulator."""
        return self.segment(simulator.socket_id)

    def wakeup(self, process: ProcessId) -> Pipe:
        """The wakeup of a process, the same for all its incarnations."""
        return self.folders.wakeup(process.name)

    def checkpoints(self, learner: int) -> Path:
        """Return the folder in which a learner saves."""
        return directory_of(self.run_dir / "checkpoints", learner)

    def states(self, learner: int) -> Path:
        """Folder for the snapshots of a learner's simulators, until they are in a checkpoint."""
        return self.checkpoints(learner) / ".states"

    def settings(self, process: ProcessId) -> Path:
        """Return the settings file of one incarnation of a process."""
        return self.run_dir / "settings" / f"{process.socket_id}.json"


NOWHERE = Addresses("", Path(), Path(), Path())
"""Addresses of a plan that is never run."""


def control_socket(sockets: Path) -> Ipc:
    """Return the supervisor's control socket in a run's folder of sockets."""
    return Ipc(str(sockets / "control.sock"))
